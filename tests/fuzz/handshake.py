"""The TLS targets: a shard that a good server brought to a state, and what comes next."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from emulator.fuzz.engine import BrokenRuleError, Target
from firmware.errors import SITES
from firmware.layouts.crypto import DRBG, HASH, HKDF, HMAC
from firmware.layouts.ecdsa import ECDSA, INVERSION
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.p256 import P256_WORK
from firmware.layouts.rsa import RSA
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import TcpState
from firmware.layouts.tls import RECORD_HEADER_BYTES, Suite, TlsState
from firmware.layouts.tls_arena import RETRY_RANDOM, VERIFY_CONTEXT, TlsArena
from firmware.layouts.tls_pool import TLS_POOL
from firmware.layouts.x509_chain import KNOWN_CHAINS, ChainState
from firmware.layouts.x25519 import X25519_WORK
from firmware.limits import RING_BYTES, TX_BYTES
from firmware.tls.begin import tls_begin
from firmware.tls.handshake import tls_take_handshake, tls_tick
from firmware.tls.judge import tls_judge
from firmware.tls.stream import tls_pull
from firmware.tls.transport import tls_consume
from tests.fuzz import corpus
from tests.fuzz.watched import STEPS_MAX, watched
from tests.support.chains import listed
from tests.support.lab import INPUT, INPUT_BYTES
from tests.support.tls import ARENA, Peer, TlsBench
from tests.support.tls_messages import HTTP, SCHEMES, VERSIONS, block, hello, message, plain, share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from toolchain.asm import Routine

_GROUP_P256 = (51, b"\0\x17")


class Handshake:
    """A shard in a handshake that a good server brought to a state.

    Args:
        name: Of the target.
        routines: What is called besides.
    """

    def __init__(self, name: str, *routines: Routine) -> None:
        self.name = name
        bench = self.bench = TlsBench(
            tls_begin, tls_take_handshake, tls_judge, *routines, judged=False, semantics=False
        )
        self.lab = bench.lab
        bench.lab.g(CLOCK).tsc_cycles_per_ms = 1000
        bench.lab.g(CORE).now = 1 << 40
        drbg = bench.lab.g(DRBG)
        drbg.key[:], drbg.seeded = bytes(range(32)), 1
        bench.context.tcp.state = TcpState.ESTABLISHED
        bench.trust(corpus.root())
        bench.lab.g(KNOWN_CHAINS).wipe()
        bench.call(tls_begin)
        self._said = [bench.sent()[RECORD_HEADER_BYTES:]]

    def hello(self, *, suite: int = 0x1301) -> bytes:
        """Return a good ServerHello."""
        return message(hello(VERSIONS, share(), session_id=self._session(), suite=suite))

    def retry(self) -> bytes:
        """Return a request for a share of P-256, with a cookie."""
        asked = (VERSIONS, _GROUP_P256, (44, b"\0\6cookie"))
        return message(hello(*asked, random=RETRY_RANDOM, session_id=self._session()))

    def rest(self) -> list[bytes]:
        """Return what a good server says behind its hello, which has come: it ends with Finished."""
        said = [*self._said, EXTENSIONS, REQUEST, _certificate()]
        content = VERIFY_CONTEXT + hashlib.sha256(b"".join(said)).digest()
        said.append(_verify(content))
        secret = bytes(self.bench.arena.server_secret)[:32]
        key = hmac.digest(secret, b"\0\x20\x0etls13 finished\0\x01", "sha256")
        digest = hashlib.sha256(b"".join(said)).digest()
        said.append(message(hmac.digest(key, digest, "sha256"), 20))
        return said[len(self._said) :]

    def _session(self) -> bytes:
        return bytes(self.bench.arena.session_id)

    def after(self, *messages: bytes) -> None:
        """Let the server have said this; a chain is judged to its end."""
        for one in messages:
            self.take(one)
            self.bench.sent()
            self._said.append(one)
            if self.bench.tls.state == TlsState.FAILED:
                raise ValueError(f"{self.name}: {self.bench.failure()}")

    def take(self, data: bytes) -> None:
        """Let the content of a record come, and all that follows from it."""
        at = self.lab.put(data)
        self.lab.free(tls_take_handshake, shard=self.bench.shard, content=at, length=len(data))
        for _ in range(STEPS_MAX):
            tls = self.bench.tls
            if tls.state != TlsState.WAIT_VERIFY or self.bench.arena.chain.state == ChainState.DONE:
                return
            if self.lab.free(tls_judge, shard=self.bench.shard)["r9"] & 0xFFFF_FFFF:
                return
        raise BrokenRuleError(f"the chain is not judged after {STEPS_MAX} turns")

    def places(self) -> list[tuple[int, int]]:
        """Return where the layer may store."""
        context, symbols = self.bench.context, self.lab.image.symbols.values()
        globals_ = (one for one in symbols if getattr(one.thing, "struct", None) in _CHANGING)
        return [
            *((self.bench.shard + one.offset, one.size) for one in _OURS),
            (ARENA, TlsArena.SIZE), (INPUT, INPUT_BYTES),
            (context.tx_base, TX_BYTES), (context.ring_base, RING_BYTES),
            *((one.address, one.size) for one in globals_),
        ]  # fmt: skip

    def judge(self) -> None:
        """What the layer says of itself fits together."""
        context = self.bench.context
        tls = context.tls
        if tls.state not in TlsState._value2member_map_:
            raise BrokenRuleError(f"state {tls.state:#x}")
        if (tls.state == TlsState.FAILED) != (tls.error & 0xFFFF_0000 in SITES):
            raise BrokenRuleError(f"state {tls.state} with the error {tls.error:#x}")
        keys = self.lab.machine.read(context.tls_keys.address_, ShardContext.tls_keys.size)
        if tls.state == TlsState.FAILED and any(keys):
            raise BrokenRuleError("keys are left behind a failure")
        if context.tcp.ring_ready > RING_BYTES or context.tcp.tx_end > TX_BYTES:
            raise BrokenRuleError("more bytes in a buffer than it has")

    def target(
        self, run: Callable[[bytes], object], seeds: Sequence[bytes], longest: int
    ) -> Target:
        """Return the target; the state now is that of every run."""

        def whole(data: bytes) -> None:
            run(data)
            self.judge()

        watch = watched(self.lab)
        return Target(self.name, self.lab.machine, whole, seeds, watch, self.places(), longest)


_OURS = [
    field
    for field in ShardContext.fields()
    if field.name in {"tls", "tls_keys", "tcp", "last_error", "required_wait_ms"}
    or field.name.startswith("failure")
]
"""Of the shard's own fields: the layer's, and where a failure is told to the lifecycle."""
_CHANGING = {
    one.struct
    for one in (
        *(DRBG, HASH, HMAC, HKDF, X25519_WORK, P256_WORK, ECDSA, INVERSION, RSA),
        *(TLS_POOL, KNOWN_CHAINS, CORE),
    )
}
"""Of the node-wide structs: work spaces of cryptography, arenas, known chains, who runs next."""
WAITING = {state for state in TlsState if state.name.startswith("WAIT_")}
EXTENSIONS = message(block((0, b""), (10, b"\0\2\0\x1d"), HTTP), 8)
REQUEST = message(b"\0" + block(SCHEMES, (47, b"\0\0")), 13)


def _certificate() -> bytes:
    entries = listed(*corpus.chain())
    return message(b"\0" + len(entries).to_bytes(3, "big") + entries, 11)


def _verify(content: bytes) -> bytes:
    made = corpus.LEAF_KEY.sign(content, ec.ECDSA(hashes.SHA256(), deterministic_signing=True))
    return message(b"\4\3" + len(made).to_bytes(2, "big") + made, 15)


def messages(state: TlsState) -> Target:
    """Handshake messages in a state, as the content of a record."""
    at = Handshake(f"message-{state.name.removeprefix('WAIT_').lower()}")
    if state == TlsState.WAIT_SERVER_HELLO:
        seeds = [at.hello(), at.retry(), at.hello(suite=0x1302), at.hello(suite=0x1303)]
    elif state == TlsState.WAIT_SECOND_HELLO:
        session = bytes(at.bench.arena.session_id)
        at.after(at.retry())
        seeds = [
            message(hello(VERSIONS, share(0x17, point), session_id=session))
            for point in (corpus.LEAF_POINT, b"\4" + bytes(64))
        ]
    else:
        at.after(at.hello())
        rest = at.rest()
        known = state - TlsState.WAIT_EXTENSIONS  # of the flight, one message for each state
        at.after(*rest[:known])
        seeds = [rest[known], b"".join(rest[known:][:2]), rest[known][:20]]
        seeds += [_certificate()] * (state == TlsState.WAIT_CERTIFICATE_OR_REQUEST)
        seeds += [_verify(b"anything")] * (state == TlsState.WAIT_VERIFY)
        seeds += [message(block(), 8)] * (state == TlsState.WAIT_EXTENSIONS)
    return at.target(at.take, seeds, INPUT_BYTES)


def records() -> Target:
    """Records of the beginning, before there are keys, in the receive ring."""
    at = Handshake("records-plain", tls_tick)

    def run(data: bytes) -> None:
        at.bench.receive(data)
        at.lab.free(tls_tick, shard=at.bench.shard)

    ccs, alert = plain(b"\1", 20), plain(b"\2\x28", 21)
    whole = at.hello()
    seeds = [
        plain(whole), ccs + plain(whole), plain(whole[:40]) + plain(whole[40:]), alert,
        ccs + plain(at.retry()) + ccs, plain(whole) + b"\x17\3\3\0\x20" + bytes(32),
    ]  # fmt: skip
    return at.target(run, seeds, 2048)


def flight() -> Target:
    """All that a server says behind its hello, as records sealed whatever is in them."""
    at = Handshake("records-flight", tls_tick)
    at.after(at.hello())
    secret = bytes(at.bench.arena.server_secret)[:32]

    def run(data: bytes) -> None:
        peer = Peer(Suite.AES_128_GCM_SHA256, secret)
        for wire in _sealed(at, peer, data):
            at.bench.receive(wire)
            for _ in range(STEPS_MAX):
                at.lab.free(tls_tick, shard=at.bench.shard)
                arena = at.bench.tls.arena_ptr
                if not arena or not at.bench.arena.paused_record:
                    break
            else:
                raise BrokenRuleError(f"the chain is not judged after {STEPS_MAX} turns")
            if at.bench.tls.state not in WAITING:
                break

    rest, one = at.rest(), corpus.Inner
    whole = b"".join(rest)
    seeds = [
        corpus.packed(*(one(22, part) for part in rest)),
        corpus.packed(one(22, whole)),
        corpus.packed(one(22, whole[:700], 3), one(22, whole[700:], 1)),
        corpus.packed(one(22, rest[0]), one(21, b"\1\x5a"), one(22, b"".join(rest[2:]))),
    ]
    return at.target(run, seeds, 4096)


def _sealed(at: Handshake, peer: Peer, data: bytes) -> Iterator[bytes]:
    """Seal the records of an input as long as the ring has room for them."""
    for one in corpus.unpacked(data):
        wire = peer.raw(one.content + bytes([one.kind]) * (one.kind != 0) + bytes(one.padding))
        if at.bench.context.tcp.ring_ready + len(wire) > RING_BYTES:
            break
        yield wire


def sealed() -> Target:
    """Records of a connection that stands, sealed whatever is in them."""
    at = Handshake("records-sealed", tls_pull, tls_consume)
    at.bench.keyed()
    at.bench.tls.state = TlsState.CONNECTED

    def run(data: bytes) -> None:
        peer, _ = at.bench.keyed()
        shard = at.bench.shard
        for wire in _sealed(at, peer, data):
            at.bench.receive(wire)
        for _ in range(STEPS_MAX):
            got = at.lab.free(tls_pull, shard=shard)
            left = at.bench.tls.plain_left
            if left > at.bench.context.tcp.ring_ready:
                raise BrokenRuleError("more plaintext than bytes in the ring")
            if got["flags"] & 1:
                break
            at.lab.free(tls_consume, shard=shard, length=left // 2 + 1)
        if at.bench.tls.state == TlsState.CONNECTED:
            at.lab.free(tls_consume, shard=shard, length=at.bench.tls.plain_left)

    ticket = b"\4\0\0\x14" + b"\0\0\x1c\x20age!" + b"\1n" + b"\0\6ticket" + b"\0\0"
    update = b"\x18\0\0\1\1"
    one = corpus.Inner
    seeds = [
        corpus.packed(one(23, b"hello"), one(23, b"", 4), one(23, b"world", 9)),
        corpus.packed(one(22, ticket), one(22, ticket[:5]), one(22, ticket[5:] + ticket)),
        corpus.packed(one(22, update), one(23, b"x")),
        corpus.packed(one(23, b"last"), one(21, b"\1\0")),
        corpus.packed(one(21, b"\1\x5a"), one(21, b"\2\x50")),
    ]
    return at.target(run, seeds, 4096)


def connected() -> Target:
    """Anything in the ring of a connection that stands: nothing is looked at before its tag."""
    at = Handshake("records-raw", tls_pull)
    peer, _ = at.bench.keyed()
    at.bench.tls.state = TlsState.CONNECTED

    def run(data: bytes) -> None:
        at.bench.receive(data)
        at.lab.free(tls_pull, shard=at.bench.shard)

    seeds = [peer.seal(b"hello"), peer.seal(b"again") + peer.seal(b""), plain(b"\2\x28", 21)]
    return at.target(run, seeds, 2048)
