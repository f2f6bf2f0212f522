"""Trust anchors by their names."""

from emulator.effects import World, model
from emulator.models.x509.certificate import x509_same
from firmware.layouts.trust import TrustEntry, TrustRecord, TrustStore


@model
def x509_name_hash(w: World, name: int, size: int) -> int:
    """FNV-1a: each byte is mixed in, then multiplied."""
    value = 14695981039346656037
    for byte in w.read(name, size):
        value = (value ^ byte) * 1099511628211 % 2**64
    return value


@model
def x509_anchor_find(
    w: World, store: int, name: int, size: int, first: int
) -> tuple[int, int, int]:
    """The hash leads to the entry, the whole name decides."""
    wanted = x509_name_hash(w, name, size)
    for number in range(first, w.view(TrustStore, store).count):
        at = store + TrustStore.SIZE + number * TrustEntry.SIZE
        entry = w.view(TrustEntry, at)
        if entry.hash > wanted:
            break
        if entry.hash == wanted:
            record = store + entry.offset
            length = w.view(TrustRecord, record).subject_len
            if x509_same(w, name, size, record + TrustRecord.SIZE, length):
                return 0, record, number + 1
    return 1, 0, 0
