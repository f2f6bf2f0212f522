"""What a node without a token says of itself, and what is sealed to it (`firmware/docs/enrol.md`)."""

from __future__ import annotations

import hashlib
import re
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from firmware.layouts.bus import ENROL_LETTER
from firmware.layouts.enrol import (
    BUILD_ID_BYTES,
    ENROL_MAGIC,
    FINGERPRINT_BYTES,
    GRANT_MAGIC,
    MAC_BYTES,
    NOTHING,
    Grant,
)
from firmware.layouts.fleet_config import BusAuth
from firmware.layouts.smbios import SERIAL_MAX, UUID_BYTES
from firmware.layouts.x25519 import X25519_BYTES
from toolchain.cli.fleet.connect import FleetError
from toolchain.cli.fleet.records import NAME
from toolchain.layout.pack import pack

if TYPE_CHECKING:
    from toolchain.config.nkey import Nkey

WAITING, ENROLLED = "waiting", "enrolled"
SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
_LINE = re.compile(
    rf"1 ({WAITING}|{ENROLLED}) (0|[1-9][0-9]{{0,9}}) ([0-9a-f]{{{2 * X25519_BYTES}}}) "
    rf"([0-9a-f]{{{2 * MAC_BYTES}}}) ([0-9a-f]{{{2 * UUID_BYTES}}}|-) ([!-~]{{1,{SERIAL_MAX}}}) "
    rf"([0-9a-f]{{{2 * BUILD_ID_BYTES}}})"
)
_IDENTITY = "such as mac=52:54:00:00:00:77,serial=S-1; known are mac, uuid and serial"


@dataclass(frozen=True)
class Announcement:
    """One line of a node. Nothing in it is proof of anything: whoever may publish it may write it.

    Attributes:
        node: What it calls itself.
        enrolled: Whether it has its token already.
        refused: Answers that it refused since its boot.
        key: Its public key of this boot.
        identity: `<mac> <uuid> <serial> <build id>`, as it wrote that.
        reply: Where it listens; empty when it does not wait.
    """

    node: str
    enrolled: bool
    refused: int
    key: bytes
    identity: str
    reply: str = ""

    @classmethod
    def parse(cls, subject: str, reply: str, data: bytes) -> Announcement | None:
        """Return what a message says; None for what no node would write.

        A reply subject that is not an inbox of that node would let whoever wrote it use the operator's
        permissions to publish elsewhere.
        """
        node = subject.rpartition(".")[2]
        found = _LINE.fullmatch(data.decode("ascii", "replace"))
        if found is None or not NAME.fullmatch(node):
            return None
        enrolled = found[1] == ENROLLED
        inbox = rf"_{ENROL_LETTER}\.{re.escape(node)}\.[0-9a-f]{{8}}\.c\.[1-9][0-9]{{0,9}}"
        if not enrolled and not re.fullmatch(inbox, reply):
            return None
        identity = " ".join(found.groups()[3:])
        key = bytes.fromhex(found[3])
        return cls(node, enrolled, int(found[2]), key, identity, "" if enrolled else reply)

    @property
    def fingerprint(self) -> str:
        """Return what people compare: as `shardfw status` and the node's log show it."""
        start = hashlib.sha256(self.key).digest()[:FINGERPRINT_BYTES]
        return f"{int.from_bytes(start, 'big'):#x}"

    @property
    def boot(self) -> str:
        """Return the number of its boot, as its inbox has it; empty when it does not wait."""
        return self.reply.split(".")[2] if self.reply else ""

    @property
    def facts(self) -> dict[str, str | None]:
        """Return mac, uuid, serial and build_id for people; None = the machine does not tell."""
        mac, identity, serial, build_id = self.identity.split(" ")
        return {
            "mac": ":".join(re.findall("..", mac)),
            "uuid": None if identity == NOTHING else str(uuid.UUID(identity)),
            "serial": None if serial == NOTHING else serial,
            "build_id": build_id,
        }

    def report(self) -> dict[str, Any]:
        """Return it in the stable keys of the JSON output."""
        return {
            "node": self.node,
            "fingerprint": self.fingerprint,
            **self.facts,
            "refused": self.refused,
        }

    def seal(self, bot: str, grant: bytes) -> bytes:
        """Return a grant that only this boot of this node opens.

        Raises:
            FleetError: The key is none that can be sealed to.
        """
        info = ENROL_MAGIC + f"{bot} {self.node} {self.identity}".encode()
        try:
            return SUITE.encrypt(grant, X25519PublicKey.from_public_bytes(self.key), info=info)
        except ValueError as error:
            raise FleetError(
                f"{self.node} announces a public key that is none: {error}. No node makes such a "
                "one; find out who announces it"
            ) from error


@dataclass(frozen=True)
class NodeLogin:
    """How a node logs in once it has its token; without any it stays as its image says.

    Attributes:
        user: Empty without one.
        password: Of the user.
        nkey: Instead of a user.
    """

    user: str = ""
    password: str = field(default="", repr=False)
    nkey: Nkey | None = field(default=None, repr=False)

    def fields(self) -> dict[str, Any]:
        """Return it as the layout's fields."""
        if self.nkey is not None:
            public = self.nkey.public.encode()
            return {"auth": BusAuth.NKEY, "nkey_seed": self.nkey.seed, "nkey_public": public}
        user, password = self.user.encode(), self.password.encode()
        return {
            "auth": BusAuth.USER if user else BusAuth.NONE,
            "user": user, "user_len": len(user),
            "password": password, "password_len": len(password),
        }  # fmt: skip


def grant_of(token: str, login: NodeLogin) -> bytes:
    """Return what is sealed."""
    raw = token.encode()
    fields = {"magic": GRANT_MAGIC, "token_len": len(raw), "token": raw, "login": login.fields()}
    return pack(Grant, fields)


@dataclass(frozen=True)
class Identity:
    """A machine that is known beforehand; what is given has to be so.

    Attributes:
        mac: Twelve hexadecimal digits; empty = any.
        uuid: Thirty-two; empty = any.
        serial: As a node writes it; empty = any.
    """

    mac: str = ""
    uuid: str = ""
    serial: str = ""

    @classmethod
    def parse(cls, text: str) -> Identity:
        """Return the identity that an operator wrote.

        Raises:
            ValueError: It is none; says what to write.
        """
        found: dict[str, str] = {}
        for part in text.split(","):
            name, _, value = part.partition("=")
            if name not in ("mac", "uuid", "serial") or name in found or not value:
                raise ValueError(f"{part!r} is no part of an identity. Write it {_IDENTITY}")
            found[name] = getattr(cls, f"_{name}")(value)
        return cls(**found)

    @staticmethod
    def _mac(value: str) -> str:
        digits = re.sub("[:-]", "", value).lower()
        if not re.fullmatch(rf"[0-9a-f]{{{2 * MAC_BYTES}}}", digits):
            raise ValueError(f"{value!r} is no hardware address. Write it {_IDENTITY}")
        return digits

    @staticmethod
    def _uuid(value: str) -> str:
        try:
            return uuid.UUID(value).hex
        except ValueError:
            raise ValueError(f"{value!r} is no UUID. Copy it from shardfw status") from None

    @staticmethod
    def _serial(value: str) -> str:
        return re.sub("[^!-~]", "_", value[:SERIAL_MAX].rstrip(" "))

    def is_of(self, found: Announcement) -> bool:
        """Return whether an announcement says that it comes from this machine."""
        mac, identity, serial, _ = found.identity.split(" ")
        wanted = ((self.mac, mac), (self.uuid, identity), (self.serial, serial))
        return all(mine in ("", theirs) for mine, theirs in wanted)

    def __str__(self) -> str:
        said = (("mac", self.mac), ("uuid", self.uuid), ("serial", self.serial))
        return ",".join(f"{name}={value}" for name, value in said if value)
