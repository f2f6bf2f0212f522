"""SMBIOS: the machine's UUID and serial number."""

from __future__ import annotations

from emulator.effects import World, model
from emulator.models.memory.windows import mmio_map
from firmware.layouts.smbios import SERIAL_MAX, SMBIOS, SmbiosEntry
from firmware.limits import PAGE


def _is_entry(
    raw: bytes, anchor: bytes, second: tuple[int, bytes], length: tuple[int, int]
) -> bool:
    """Anchors, a length from its least to 32, a sum of zero."""
    at, part = second
    size = raw[length[0]]
    return (
        raw.startswith(anchor)
        and raw[at:].startswith(part)
        and length[1] <= size <= len(raw)
        and sum(raw[:size]) % 256 == 0
    )


@model
def smbios_entry(w: World) -> tuple[int, int]:
    """The first 64-bit entry point, else the first 32-bit one."""
    start = mmio_map(w, 0xF_0000, 16)
    if not start:
        return 0, 0
    area, machine = w.read(start, 16 * PAGE), w.g(SMBIOS)
    places = [area[at : at + 32] for at in range(0, len(area) - 16, 16)]
    for raw in places:
        if _is_entry(raw, b"_SM3", (4, b"_"), (6, 0x18)):
            machine.version = raw[7] << 8 | raw[8]
            machine.entry = SmbiosEntry.BITS64
            return int.from_bytes(raw[16:24], "little"), int.from_bytes(raw[12:16], "little")
    for raw in places:
        if _is_entry(raw, b"_SM_", (16, b"_DMI"), (5, 0x1E)):
            machine.version = raw[6] << 8 | raw[7]
            machine.entry = SmbiosEntry.BITS32
            return int.from_bytes(raw[24:28], "little"), int.from_bytes(raw[22:24], "little")
    return 0, 0


@model
def smbios_uuid(w: World, structure: int) -> None:
    """Three fields are little-endian since version 2.6."""
    if w.u8(structure + 1) < 24:
        return
    raw, machine = w.read(structure + 8, 16), w.g(SMBIOS)
    if raw in (bytes(16), b"\xff" * 16):
        return
    machine.uuid[:] = raw
    if machine.version >= 0x206:
        for start, stop in ((0, 4), (4, 6), (6, 8)):
            machine.uuid[start:stop] = raw[start:stop][::-1]


@model
def smbios_string(w: World, strings: int, end: int, number: int) -> tuple[int | None, int]:
    """Strings end with a zero each, the set with an empty string."""
    at = strings
    while number and at < end and w.u8(at):
        if number == 1:
            return at, 0
        while at < end and w.u8(at):
            at += 1
        at += 1
        number -= 1
    return None, 1


@model
def smbios_serial(w: World, string: int, end: int) -> None:
    """What is not printable ASCII or is a space becomes `_`; trailing spaces do not count."""
    machine, at = w.g(SMBIOS), string
    while at < end and at < string + SERIAL_MAX and (byte := w.u8(at)):
        machine.serial[at - string] = byte if 0x20 < byte < 0x7F else ord("_")
        at += 1
        if byte != 0x20:
            machine.serial_len = at - string


@model
def smbios_system(w: World, structure: int, strings: int, end: int) -> None:
    """UUID and serial number."""
    smbios_uuid(w, structure)
    if w.u8(structure + 1) <= 7:
        return
    string, none = smbios_string(w, strings, end, w.u8(structure + 7))
    if not none and string is not None:
        smbios_serial(w, string, end)


@model
def smbios_walk(w: World, table: int, end: int) -> None:
    """The first structure of type 1."""
    at = table
    while end - at >= 4 and 4 <= w.u8(at + 1) <= end - at and w.u8(at) != 127:
        strings = at + w.u8(at + 1)
        if w.u8(at) == 1:
            smbios_system(w, at, strings, end)
            return
        while strings + 2 <= end and w.u16(strings):
            strings += 1
        at = strings + 2


@model
def smbios_read(w: World) -> None:
    """At most 65535 bytes below 4 GB."""
    physical, size = smbios_entry(w)
    if not 0 < physical < 2**32:
        return
    size = min(size, 0xFFFF)
    offset = physical % PAGE
    start = mmio_map(w, physical - offset, (offset + size + PAGE - 1) // PAGE)
    if start:
        smbios_walk(w, start + offset, start + offset + size)
