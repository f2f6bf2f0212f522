"""Control datagrams as a client makes and reads them, by the standard library's HMAC."""

from __future__ import annotations

import hmac
from typing import Any

from firmware.layouts.control import (
    CONTROL_REQUEST_MAGIC,
    CONTROL_TAG_BYTES,
    CONTROL_VERSION,
    ControlReply,
    ControlRequest,
    ControlVerb,
)
from toolchain.layout.pack import pack, unpack

KEY = bytes(range(1, 33))
BOOT = 0x1122_3344_5566_7788


def tag(text: bytes, key: bytes = KEY) -> bytes:
    """Return the tag of a datagram's text."""
    return hmac.digest(key, text, "sha256")


def command(
    verb: int = ControlVerb.PING,
    *,
    key: bytes = KEY,
    payload: bytes = b"",
    size: int = 256,
    **fields: int,
) -> bytes:
    """Return a request of `size` bytes; fields are those of ControlRequest."""
    head: dict[str, Any] = {
        "magic": CONTROL_REQUEST_MAGIC,
        "version": CONTROL_VERSION,
        "verb": verb,
        "counter": 1,
        "boot": BOOT,
        "length": len(payload),
    }
    text = (pack(ControlRequest, head | fields) + payload).ljust(size - CONTROL_TAG_BYTES, b"\0")
    return text + tag(text, key)


def answer(datagram: bytes, key: bytes = KEY) -> dict[str, Any]:
    """Return the fields of an answer and its payload, after the tag was checked."""
    fields = unpack(ControlReply, datagram)
    end = ControlReply.SIZE + fields["length"]
    assert len(datagram) == end + CONTROL_TAG_BYTES
    assert datagram[end:] == tag(datagram[:end], key)
    return fields | {"payload": datagram[ControlReply.SIZE : end]}
