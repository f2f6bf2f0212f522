"""DER, the encoding of certificates: tags and bounds (X.690 8 and 10)."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from toolchain.asm.operands import Region
from toolchain.layout.data import Data, constant

if TYPE_CHECKING:
    from collections.abc import Mapping

DER_IN = Region("a DER input", "bytes of a peer; every length is checked against what it lies in")
DER_BYTES_MAX = 0xFFFF
"""Longest contents of an element, as in rustls' webpki; more than two bytes of length are refused."""
TAG_NUMBER = 0x1F
"""The bits of a tag's number; all set: the number follows in further bytes, which is refused."""
LENGTH_1, LENGTH_2 = 0x81, 0x82
"""First length bytes of the long form with one and two bytes behind (X.690 8.1.3.5)."""


class Tag(enum.IntEnum):
    """First byte of an element (X.690 8.1.2): class, 0x20 = constructed, number."""

    BOOLEAN = 0x01
    INTEGER = 0x02
    BIT_STRING = 0x03
    OCTET_STRING = 0x04
    NULL = 0x05
    OID = 0x06
    UTC_TIME = 0x17
    GENERALIZED_TIME = 0x18
    SEQUENCE = 0x30
    SET = 0x31
    CONTEXT_0 = 0xA0
    CONTEXT_1 = 0xA1
    CONTEXT_3 = 0xA3


DER_KNOWN = Region("a table of known bytes", "entries of length, value, bytes; length 0 ends it")


def known_table(name: str, entries: Mapping[bytes, int], doc: str) -> Data:
    """Declare a table for `der_known`: bytes to values from 1 to 255.

    Raises:
        ValueError: A value is 0, or an entry is empty or longer than 255 bytes.
    """
    contents = bytearray()
    for entry, value in entries.items():
        if not (0 < len(entry) < 256 and 0 < value < 256):
            raise ValueError(f"{name}: {entry.hex()} with value {value} fits no entry")
        contents += bytes([len(entry), value]) + entry
    return constant(name, bytes(contents) + b"\0", doc)
