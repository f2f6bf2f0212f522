"""The trust store: anchors that a build takes in, as the node looks them up.

`TrustStore`, then `count` times `TrustEntry` in the order of their hashes, then the records, then the
pins. The names are compared whole, so the hash only has to be quick; nobody outside chooses what is
in it.
"""

from __future__ import annotations

from firmware.limits import PAGE
from toolchain.asm.operands import Region
from toolchain.layout import Global, Struct, bytes_, u32, u64
from toolchain.layout.pack import pack

TRUST_MAGIC = int.from_bytes(b"TRST", "little")
TRUST_VERSION_BYTES, TRUST_DIGEST_BYTES = 48, 32
PIN_BYTES = 32
"""SHA-256 of a SubjectPublicKeyInfo (RFC 7469 2.4)."""
FNV_BASIS, FNV_PRIME = 0xCBF2_9CE4_8422_2325, 0x100_0000_01B3
"""FNV-1a over 64 bits (RFC 9923 4)."""
TRUST = Region("the trust store", "made by the build; its own lengths and offsets are good")


class TrustStore(Struct):
    """Head of the store."""

    SIZE = 0x60
    magic = u32(0x00, "TRUST_MAGIC")
    count = u32(0x04, "entries")
    size = u32(0x08, "bytes of the whole store")
    pins = u32(0x0C, "pins of PIN_BYTES at its end; 0 = any key will do")
    version = bytes_(0x10, TRUST_VERSION_BYTES, "where the anchors are from, text")
    digest = bytes_(0x40, TRUST_DIGEST_BYTES, "SHA-256 of what they were read from")


class TrustEntry(Struct):
    """One anchor in the index."""

    SIZE = 0x10
    hash = u64(0x00, "FNV-1a of its subject")
    offset = u32(0x08, "of its record in the store")


class TrustRecord(Struct):
    """One anchor. Behind it: subject, subjectPublicKeyInfo, contents of nameConstraints."""

    SIZE = 0x18
    not_after = u64(0x00, "seconds since 1970, signed; the last second that counts")
    subject_len = u32(0x08, "bytes of its name with header")
    spki_len = u32(0x0C, "bytes of its key with header")
    constraints_len = u32(0x10, "bytes of the contents of nameConstraints' SEQUENCE; 0 = none")
    path_length = u32(0x14, "intermediates that may follow; PATH_ANY = no limit")


EMPTY_STORE = pack(TrustStore, {"magic": TRUST_MAGIC, "size": TrustStore.SIZE})
"""What a node without TLS has: it trusts nobody."""
TRUST_STORE = Global(
    "trust_store",
    TrustStore,
    "the anchors, with entries and records behind the head; laid down by the build",
    init=EMPTY_STORE,
    align=PAGE,
    tail=".trust",
)
"""Behind everything else, .bss too: however many anchors there are, no address depends on them."""


def name_hash(name: bytes) -> int:
    """Return FNV-1a of a name, for the index."""
    found = FNV_BASIS
    for byte in name:
        found = (found ^ byte) * FNV_PRIME % 2**64
    return found
