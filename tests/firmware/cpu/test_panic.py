"""The crash record and the panic line."""

import zlib

import pytest
import unicorn.x86_const as ux
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.environment import Environment
from emulator.memory import Region
from firmware.cpu.panic import (
    crc32,
    panic_print,
    panic_text,
    panic_value,
    record_check,
    record_write,
    stack_bounds,
)
from firmware.layouts.cpu import RETURNS_MAX, CrashRecord, TrapFrame
from firmware.layouts.log import LOG, LOG_RING, LOG_RING_BYTES
from firmware.layouts.node import CLOCK, CORE
from firmware.limits import PAGE, RECORD_PAGE, STACK_BYTES, STACK_TOP
from tests.support.lab import Lab

LAB = Lab(
    crc32, record_check, stack_bounds, record_write, panic_text, panic_value, panic_print,
    semantics=False,
    extra=[Region("record", RECORD_PAGE, PAGE)],
)  # fmt: skip
BOTTOM = STACK_TOP - STACK_BYTES


def frame(rsp=STACK_TOP - 64, **fields):
    address = LAB.machine.alloc(TrapFrame.SIZE)
    trap = LAB.view(TrapFrame, address)
    for name in ("vector", "error", "rip"):
        setattr(trap, name, fields.get(name, 0x1122_3344_5566_7788))
    trap.rsp = rsp
    return address


def panicked(head=0, returns=(), **fields):
    """Write a record over whatever the page holds and return it."""
    LAB.machine.engine.reg_write(ux.UC_X86_REG_CR2, 0xDEAD_0000)
    log = LAB.g(LOG)
    log.head = log.tail = head
    LAB.g(CLOCK).boot_tsc = 5
    LAB.g(CORE).turns, LAB.g(CORE).current_shard = 9, 0x7000_1000
    top = STACK_TOP - 8 * (len(returns) + 2)
    LAB.machine.write(BOTTOM, bytes(STACK_BYTES))
    for n, value in enumerate(returns):
        LAB.machine.write(top + 8 * n, value.to_bytes(8, "little"))
    LAB.call(record_write, Environment(tsc=[77]), frame=frame(rsp=top, **fields))
    return LAB.view(CrashRecord, RECORD_PAGE)


@settings(max_examples=40, deadline=None)
@given(st.binary(min_size=1, max_size=64))
def test_crc32_is_the_one_of_zlib(raw):
    LAB.reset()
    at = LAB.machine.alloc(64)
    LAB.machine.write(at, raw)
    assert LAB.call(crc32, first=at, count=len(raw)).outputs["eax"] == zlib.crc32(raw)


@pytest.mark.parametrize(
    ("pointer", "start"),
    [
        (STACK_TOP - 8, STACK_TOP - 8), (STACK_TOP - 15, STACK_TOP - 8), (STACK_TOP - 7, None),
        (STACK_TOP, None), (BOTTOM, BOTTOM), (BOTTOM - 1, BOTTOM), (BOTTOM - PAGE, BOTTOM),
        (BOTTOM - PAGE - 8, None), (0, None), (2**64 - 1, None), (2**64 - 8, None),
    ],
)  # fmt: skip
def test_stack_bounds_walks_the_nodes_stack_only(pointer, start):
    got = LAB.call(stack_bounds, pointer=pointer).outputs
    assert got["cf"] == (start is None)
    if start is not None:
        assert got["rsi"] == start


def test_record_write_holds_what_explains_the_end():
    text = LAB.image.address("text_start")
    record = panicked(
        returns=(1, text, text - 1, LAB.image.address("text_end"), text + 9), vector=13
    )
    assert LAB.call(record_check).outputs["cf"] == 0
    assert record.returns_count == 2
    assert LAB.machine.read(record.offset_of("returns"), 16) == b"".join(
        value.to_bytes(8, "little") for value in (text, text + 9)
    )
    assert (record.tsc, record.boot_tsc, record.turns) == (77, 5, 9)
    assert (record.cr2, record.current_shard) == (0xDEAD_0000, 0x7000_1000)
    trap = LAB.view(TrapFrame, record.offset_of("frame"))
    assert (trap.vector, trap.rip) == (13, 0x1122_3344_5566_7788)


def test_record_write_counts_panics_and_forgets_garbage():
    LAB.reset()
    assert LAB.call(record_check).outputs["cf"] == 1
    assert panicked().crashes == 1
    assert panicked().crashes == 2
    LAB.machine.write(RECORD_PAGE + 0x300, b"\xff")
    assert LAB.call(record_check).outputs["cf"] == 1
    assert panicked().crashes == 1


def test_record_write_keeps_a_bounded_number_of_addresses():
    text = LAB.image.address("text_start")
    record = panicked(returns=[text + n for n in range(RETURNS_MAX + 3)])
    assert record.returns_count == RETURNS_MAX


def test_record_write_on_a_foreign_stack_walks_nothing():
    LAB.call(record_write, Environment(tsc=[1]), frame=frame(rsp=0x1000))
    assert LAB.view(CrashRecord, RECORD_PAGE).returns_count == 0


@pytest.mark.parametrize("head", [0, 5, 1024, 1025, LOG_RING_BYTES + 100])
def test_record_write_keeps_the_end_of_the_log(head):
    LAB.machine.write(LAB.image.address(LOG_RING), bytes(n % 251 for n in range(LOG_RING_BYTES)))
    record = panicked(head)
    size = min(head, 1024)
    assert record.log_bytes == size
    wanted = bytes(n % LOG_RING_BYTES % 251 for n in range(head - size, head))
    assert record.log[0:size] == wanted


def printed(head=0):
    log = LAB.g(LOG)
    log.tail, log.head = 0, head
    sent = bytearray()
    environment = Environment(on_port_in=lambda _port, _size: 0x20)
    environment.on_port_out = lambda _port, _size, value: sent.append(value)
    LAB.call(panic_print, environment, frame=frame(rip=0xABCDEF, vector=8, error=0))
    return sent.decode()


def test_panic_print_tells_registers_and_addresses():
    text = LAB.image.address("text_start")
    panicked(returns=(text, text + 9))
    lines = printed().splitlines()
    assert lines[0] == (
        f"level=error code=node.panic vector=0x{8:016x} rip=0x{0xABCDEF:016x} error=0x{0:016x} "
        f"rsp=0x{STACK_TOP - 64:016x} cr2=0x{0xDEAD_0000:016x} shard=0x{0x7000_1000:016x}"
    )
    assert lines[1:] == [
        f"level=error code=node.panic_at address=0x{at:016x}" for at in (text, text + 9)
    ]


def test_panic_print_sends_the_waiting_log_first():
    panicked()
    LAB.machine.write(LAB.image.address(LOG_RING), b"t=1 code=x\n")
    assert printed(head=11).startswith("t=1 code=x\nlevel=error code=node.panic")
