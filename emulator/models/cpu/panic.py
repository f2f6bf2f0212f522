"""The crash record and the last word on the serial port."""

import zlib

from emulator.effects import World, model
from emulator.models.cpu.serial import serial_put
from firmware.layouts.config import CONFIG
from firmware.layouts.cpu import RECORD_LOG_BYTES, RECORD_MAGIC, CrashRecord, TrapFrame
from firmware.layouts.log import LOG, LOG_RING, LOG_RING_BYTES
from firmware.layouts.node import CLOCK, CORE
from firmware.limits import PAGE, RECORD_PAGE, STACK_BYTES, STACK_TOP

SUMMED = CrashRecord.crashes.offset
BOTTOM = STACK_TOP - STACK_BYTES


@model
def crc32(w: World, first: int, count: int) -> int:
    """The CRC-32 of Ethernet and zlib."""
    return zlib.crc32(w.read(first, count))


@model
def record_check(w: World) -> int:
    """Magic and sum must be right."""
    record = w.view(CrashRecord, RECORD_PAGE)
    if record.magic != RECORD_MAGIC:
        return 1
    return int(crc32(w, RECORD_PAGE + SUMMED, CrashRecord.SIZE - SUMMED) != record.crc)


@model
def stack_bounds(w: World, pointer: int) -> tuple[int | None, int]:
    """From the pointer, or from the end of the stack when it overflowed into the guard page."""
    start = -(-pointer // 8) * 8 % 2**64
    if BOTTOM - PAGE <= start < BOTTOM:
        start = BOTTOM
    inside = BOTTOM <= start < STACK_TOP
    return (start, 0) if inside else (None, 1)


@model
def record_write(w: World, frame: int) -> None:
    """All that explains the end; written whole, then summed, then marked valid."""
    crashes = w.view(CrashRecord, RECORD_PAGE).crashes
    if record_check(w):
        crashes = 0
    record = w.view(CrashRecord, RECORD_PAGE)
    record.wipe()
    record.crashes = crashes + 1
    record.build_id[:] = bytes(w.g(CONFIG).build_id)
    record.tsc, record.boot_tsc = w.rdtsc(), w.g(CLOCK).boot_tsc
    record.current_shard, record.turns = w.g(CORE).current_shard, w.g(CORE).turns
    record.cr2, record.cr3 = w.control("cr2"), w.control("cr3")
    record.frame[:] = w.read(frame, TrapFrame.SIZE)
    start, none = stack_bounds(w, w.view(TrapFrame, frame).rsp)
    if not none and start is not None:
        text = range(w.address("text_start"), w.address("text_end"))
        words = (w.u64(at) for at in range(start, STACK_TOP, 8))
        found = [word for word in words if word in text][:24]
        for n, word in enumerate(found):
            w.write(record.offset_of("returns") + 8 * n, word.to_bytes(8, "little"))
        record.returns_count = len(found)
    head = w.g(LOG).head
    size = min(head, RECORD_LOG_BYTES)
    record.log_bytes = size
    ring = w.read(w.address(LOG_RING), LOG_RING_BYTES)
    record.log[:] = bytes(ring[(head - size + n) % LOG_RING_BYTES] for n in range(size))
    record.crc = crc32(w, RECORD_PAGE + SUMMED, CrashRecord.SIZE - SUMMED)
    record.magic = RECORD_MAGIC


def _text(w: World, address: int) -> bytes:
    return w.read(address, 64).split(b"\0")[0]


@model
def panic_text(w: World, text: int) -> None:
    """Byte after byte."""
    for byte in _text(w, text):
        serial_put(w, byte)


@model
def panic_value(w: World, text: int, value: int) -> None:
    """The text, then all sixteen digits."""
    panic_text(w, text)
    for digit in f"{value:016x}".encode():
        serial_put(w, digit)


@model
def panic_print(w: World, frame: int) -> None:
    """What waits in the log; one line of registers; one line for each address on the stack."""
    log, trap = w.g(LOG), w.view(TrapFrame, frame)
    while log.tail != log.head:
        byte = w.u8(w.address(LOG_RING) + log.tail % LOG_RING_BYTES)
        log.tail += 1
        serial_put(w, byte)
    panic_text(w, w.address("panic_head"))
    for name, value in (
        ("vector", trap.vector),
        ("rip", trap.rip),
        ("error", trap.error),
        ("rsp", trap.rsp),
        ("cr2", w.control("cr2")),
        ("shard", w.g(CORE).current_shard),
    ):
        panic_value(w, w.address(f"panic_{name}"), value)
    serial_put(w, ord("\n"))
    record = w.view(CrashRecord, RECORD_PAGE)
    for n in range(record.returns_count):
        panic_text(w, w.address("panic_return"))
        panic_value(w, w.address("panic_address"), w.u64(record.offset_of("returns") + 8 * n))
        serial_put(w, ord("\n"))
