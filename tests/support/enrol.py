"""A node of a fleet without a token, in a bench: what it announces, what is released to it."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from firmware.fleet.enrol import enrol_begin, enrol_tick
from firmware.layouts.bus import BUS, BUS_IN, INBOX_SID, BusKind, LinkState
from firmware.layouts.config import CONFIG
from firmware.layouts.crypto import DRBG
from firmware.layouts.enrol import ENROL, GRANT_MAGIC, EnrolState, Grant
from firmware.layouts.log import LOG, LOG_RING
from firmware.layouts.log_line import Level
from firmware.layouts.shard import ShardContext
from firmware.layouts.smbios import SMBIOS
from firmware.layouts.variants import VARIANTS
from tests.support.fleet import name_node
from tests.support.segments import Bench
from tests.support.token import set_token
from toolchain.layout.pack import pack

if TYPE_CHECKING:
    from toolchain.asm import Routine

SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
MAC, BUILD_ID = bytes.fromhex("525400000077"), bytes(range(0xA0, 0xB4))
UUID, SERIAL = uuid.UUID("4c4c4544-0057-4d10-8030-b4c04f4b5931"), b"S-1"
IDENTITY = b"%b %b %b %b" % (MAC.hex().encode(), UUID.hex.encode(), SERIAL, BUILD_ID.hex().encode())
INFO = b"shardfw enrol 1 b1 n7 " + IDENTITY
PRIVATE = bytes(range(64, 96))
TOKEN = b"MTk4.the-token.of_the-bot"


def public_of(private: bytes = PRIVATE) -> Any:
    """Return the public key of a private one."""
    return X25519PrivateKey.from_private_bytes(private).public_key()


def grant(token: bytes = TOKEN, **fields: Any) -> bytes:
    """Return a grant as it is sealed; fields are those of the layout."""
    values = {"magic": GRANT_MAGIC, "token_len": len(token), "token": token} | fields
    return pack(Grant, values)


def sealed(plain: bytes | None = None, *, info: bytes = INFO, private: bytes = PRIVATE) -> bytes:
    """Return what an operator would send."""
    return SUITE.encrypt(grant() if plain is None else plain, public_of(private), info=info)


class EnrolBench(Bench):
    """One for a test file. `reset` before each test."""

    def __init__(self, *routines: Routine) -> None:
        super().__init__(*routines, enrol_begin, enrol_tick)

    def reset(self) -> None:
        """A node with a name, an identity, a link that is not open, and no token."""
        super().reset()
        lab = self.lab
        name_node(lab)
        lab.g(CONFIG).build_id[:] = BUILD_ID
        machine = lab.g(SMBIOS)
        machine.uuid[:], machine.serial_len = UUID.bytes, len(SERIAL)
        machine.serial[: len(SERIAL)] = SERIAL
        lab.g(VARIANTS).usable = 1
        lab.g(DRBG).weak = 0
        for n, shard in enumerate(self.shards):
            lab.g(BUS).links[n].context, lab.g(BUS).links[n].index = shard, n
            lab.view(ShardContext, shard).unleased = 1
        lab.g(ENROL).wipe()
        set_token(lab, b"")
        lab.g(LOG).level, lab.g(LOG).head, lab.g(LOG).tail = Level.DEBUG, 0, 0

    @property
    def enrol(self) -> Any:
        """The enrolment of this boot."""
        return self.lab.g(ENROL)

    @property
    def link(self) -> Any:
        """CONTROL."""
        return self.lab.g(BUS).links[0]

    def waiting(self, *, inbox: int = 5) -> Any:
        """Let the node wait with the key pair of the tests, its link UP."""
        state = self.enrol
        state.keys.private[:], state.keys.public[:] = PRIVATE, public_of().public_bytes_raw()
        state.state, state.inbox = EnrolState.WAITING, inbox
        state.identity[: len(IDENTITY)], state.identity_len = IDENTITY, len(IDENTITY)
        state.info[: len(INFO)], state.info_len = INFO, len(INFO)
        self.open(remote_port=4222)
        self.link.state, self.lab.g(BUS).enrolling = LinkState.UP, 1
        return state

    def run(self, routine: Routine, **inputs: int) -> dict[str, int]:
        """Call a routine for CONTROL in lockstep; return its outputs."""
        if "link" in routine.parameters:
            inputs.setdefault("link", self.link.address_)
        return self.call(routine, **inputs)

    def in_hand(
        self, body: bytes, *, inbox: int = 5, status: int = 0, sid: int = INBOX_SID
    ) -> None:
        """Lay a message down where nothing is mapped behind its body, and put it in hand."""
        got = self.lab.g(BUS_IN)
        got.body, got.body_len = self.lab.put(body), len(body)
        got.inbox, got.status, got.sid, got.kind = inbox, status, sid, BusKind.MESSAGE

    def said(self) -> bytes:
        """Take what waits to be sent."""
        tcp, context = self.tcp, self.lab.view(ShardContext, self.shard)
        start, size = tcp.tx_start, tcp.tx_end - tcp.tx_start
        tcp.tx_start = tcp.tx_end = 0
        return self.lab.machine.read(context.tx_base + start, size) if size else b""

    def lines(self) -> list[str]:
        """Return the codes and values that the log holds."""
        raw = self.lab.machine.read(self.lab.image.address(LOG_RING), self.lab.g(LOG).head)
        return [line.split(" code=", 1)[1] for line in raw.decode().splitlines()]
