"""Who a client is: nobody in particular, a user with a password, or an nkey that signs a nonce."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from emulator.simulation.nats.subjects import matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_USER = 20 << 3
"""First byte of a user's nkey, which makes its text begin with `U`."""
_KEY_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """One who may connect.

    Attributes:
        user: name; empty for an nkey.
        password: in clear.
        nkey: public key as text, `U...`; empty for a name with a password.
        publish: patterns of subjects it may publish to; None allows all.
        subscribe: patterns it may subscribe to; None allows all.
        responses: whether it may publish to the reply of a message that it was handed.
    """

    user: str = ""
    password: str = ""
    nkey: str = ""
    publish: tuple[str, ...] | None = None
    subscribe: tuple[str, ...] | None = None
    responses: bool = False

    def may_publish(self, subject: str) -> bool:
        """Say whether it may publish to a subject."""
        return self.publish is None or any(matches(p, subject) for p in self.publish)

    def may_subscribe(self, subject: str) -> bool:
        """Say whether it may subscribe to a subject or pattern."""
        return self.subscribe is None or any(matches(p, subject) for p in self.subscribe)


ANYBODY = User()


def nkey_bytes(text: str) -> bytes:
    """Return the 32 bytes of a user's public nkey.

    Raises:
        ValueError: it is no such key; the text says why.
    """
    try:
        raw = base64.b32decode(text + "=" * (-len(text) % 8))
    except binascii.Error as error:
        raise ValueError(f"{text!r} is no nkey: {error}") from None
    body, check = raw[:-2], int.from_bytes(raw[-2:], "little")
    if len(body) != 1 + _KEY_BYTES or body[0] != _USER:
        raise ValueError(f"{text!r} is no user's public nkey: it needs U and 55 characters")
    if binascii.crc_hqx(body, 0) != check:
        raise ValueError(f"{text!r} is no nkey: its checksum is wrong")
    return body[1:]


def nkey_text(key: bytes) -> str:
    """Write 32 bytes as a user's public nkey."""
    body = bytes([_USER]) + key
    return base64.b32encode(body + binascii.crc_hqx(body, 0).to_bytes(2, "little")).decode()


def who(users: Iterable[User], connect: Mapping[str, Any], nonce: str) -> User | None:
    """Return the user that a CONNECT proves to be, or None.

    Args:
        users: who may connect; none at all lets everybody in.
        connect: the object of the CONNECT.
        nonce: what INFO asked to sign.
    """
    users = tuple(users)
    if not users:
        return ANYBODY
    nkey = str(connect.get("nkey", ""))
    for user in users:
        if user.nkey and user.nkey == nkey and _signed(nkey, str(connect.get("sig", "")), nonce):
            return user
        named = user.user and user.user == connect.get("user")
        if named and not nkey and user.password == connect.get("pass"):
            return user
    return None


def _signed(nkey: str, signature: str, nonce: str) -> bool:
    try:
        # A server takes base64 of either alphabet's URL form without padding.
        raw = base64.b64decode(signature + "=" * (-len(signature) % 4), altchars=b"-_")
        Ed25519PublicKey.from_public_bytes(nkey_bytes(nkey)).verify(raw, nonce.encode())
    except (binascii.Error, ValueError, InvalidSignature):
        return False
    return True
