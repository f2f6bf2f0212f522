"""What a node asks in every turn is answered by native code exactly as the devices would answer."""

from __future__ import annotations

import random

import pytest

from emulator.devices.bus import Bus
from emulator.devices.rtc import DATA, DATE, INDEX, STATUS_A, UPDATE_NS, Rtc
from emulator.devices.serial import COM1, LINE_CONTROL, SerialPort
from emulator.environment import Environment
from emulator.machine import Machine
from emulator.simulation.quick_answers import LINE_BYTES, LINE_STATUS, QuickAnswers
from firmware.abi import CALLER_SAVED
from toolchain.asm import RAX, RDX, Asm, Out, routine
from toolchain.link import Linker, SectionPlan

NS_PER_S = 1_000_000_000
TSC = 0x1234_5678_9ABC_DEF0
IN_BYTE, IN_WORD = "31c0 ec c3", "31c0 66ed c3"
OUT_BYTE, OUT_WORD = "ee c3", "66ef c3"


@routine(clobbers=CALLER_SAVED, source="tests")
def ask(a: Asm) -> None:
    """Room for the code of a test."""
    for _ in range(16):
        a.hlt()
    a.ret()


@routine(outputs=[Out(RAX, "the counter")], clobbers=CALLER_SAVED, source="tests")
def ask_time(a: Asm) -> None:
    """Read the time-stamp counter."""
    a.rdtsc()
    a.shl(RDX, 32)
    a.or_(RAX, RDX)
    a.ret()


IMAGE = Linker((ask, ask_time), (SectionPlan(".text", 0x6000_0000, executable=True),)).link()


class Board:
    """A machine with the devices, and the questions that its code may ask."""

    def __init__(self, *, quick: bool) -> None:
        self.now_ns = 1_795_000_000 * NS_PER_S
        self.serial, self.rtc = SerialPort(), Rtc(lambda: self.now_ns)
        self.machine = machine = Machine(IMAGE)
        room = range(IMAGE.address("ask"), IMAGE.address("ask") + 16)
        machine.special = {at: ins for at, ins in machine.special.items() if at not in room}
        self.bus = Bus([self.serial, self.rtc])
        machine.environment = self.bus.connect(
            Environment(tsc=lambda: TSC + self.now_ns, recording=False)
        )
        self.quick = None
        if quick:
            machine.release_ports()
            self.quick = QuickAnswers(machine, self.serial, self.rtc)
        machine.hook_special()

    def run(self, code: str, port: int = 0, value: int = 0, name: str = "ask") -> int:
        """Run code, or a routine, as one turn; return RAX."""
        if name == "ask":
            self.machine.write(IMAGE.address("ask"), bytes.fromhex(code))
            self.machine.engine.ctl_flush_tb()
        if self.quick is not None:
            self.quick.before(TSC + self.now_ns & (1 << 64) - 1)
        try:
            return int(self.machine.call(name, {"rdx": port, "rax": value})["rax"])
        finally:
            if self.quick is not None:
                self.quick.after()

    def seen(self) -> tuple[object, ...]:
        """Return what the devices know."""
        serial = self.serial
        return serial.lines, serial.sent, list(serial.typed), self.bus.strays


def test_any_order_of_questions_has_the_answers_of_the_devices():
    rng = random.Random(1)
    quick, plain = Board(quick=True), Board(quick=False)
    ports = (
        INDEX,
        DATA,
        COM1,
        COM1,
        LINE_STATUS,
        COM1 + LINE_CONTROL,
        COM1 + 2,
        0x3F7,
        0x402,
        0xCF8,
    )
    registers = (*DATE, STATUS_A, 0x0B, 0x40, 0x8A)
    for _ in range(4000):
        match rng.randrange(12):
            case 0:
                step = rng.choice((1, UPDATE_NS, NS_PER_S // 2, NS_PER_S, 86_400 * NS_PER_S))
                quick.now_ns += step
                plain.now_ns += step
                continue
            case 1:
                ready = rng.random() < 0.8
                quick.serial.ready = plain.serial.ready = ready
                continue
            case 2:
                quick.serial.type("x")
                plain.serial.type("x")
                continue
            case 3:
                what: tuple[str, int, int, str] = ("", 0, 0, "ask_time")
            case 4 | 5 | 6:
                what = (OUT_BYTE, INDEX, rng.choice(registers), "ask")
            case _:
                code = rng.choice((IN_BYTE, IN_BYTE, IN_WORD, OUT_BYTE, OUT_BYTE, OUT_WORD))
                what = (code, rng.choice(ports), rng.choice((0x0A, 0x0D, 0x41, 0x83, 0xFF)), "ask")
        assert quick.run(*what) == plain.run(*what), what
        assert quick.seen() == plain.seen(), what
    assert plain.serial.lines


def test_one_turn_may_write_more_than_the_table_holds():
    # mov ecx, n; again: out dx, al; loop again; mov al, 10; out dx, al; ret
    board = Board(quick=True)
    board.run(f"b9 {(LINE_BYTES + 5).to_bytes(4, 'little').hex()} ee e2fd b00a ee c3", COM1, 0x41)
    assert board.serial.lines == ["A" * (LINE_BYTES + 5)]


def test_what_a_device_refuses_ends_the_run():
    board = Board(quick=True)

    def refuse(*_question: int) -> int:
        raise ValueError("not that port")

    def refuse_too(*_question: int) -> None:
        refuse()

    board.machine.environment.on_port_in = refuse
    board.machine.environment.on_port_out = refuse_too
    for code in (IN_BYTE, OUT_BYTE):
        with pytest.raises(ValueError, match="not that port"):
            board.run(code, 0x1F0)
