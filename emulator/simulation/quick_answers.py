"""Answers to the questions that a node asks in every turn, given by a few native instructions.

A turn reads the time-stamp counter, the serial port's status and the real-time clock, and writes log
lines byte by byte; called back in Python, each costs microseconds. What the devices would say is laid
down here before each run, in a table that the hooks look into. The devices stay the ones that know:
whatever is not in the table they are asked, with everything that came before handed on to them.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import unicorn as uc
import unicorn.x86_const as ux
from iced_x86 import Code, Instruction, MemoryOperand, Register, Register_
from unicorn.unicorn_py3.unicorn import uclib

from emulator.devices import rtc as rtc_device
from emulator.devices import serial as serial_device
from emulator.simulation.store_judge import executable
from emulator.trampoline import assemble

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emulator.devices.rtc import Rtc
    from emulator.devices.serial import SerialPort
    from emulator.machine import Machine

PORTS = 0x400
RTC_REGISTERS = 0x80
LINE_BYTES = 1 << 16
LINE_STATUS = serial_device.COM1 + serial_device.LINE_STATUS
UNKNOWN = -1
"""Ask the device."""
_DATED = (*rtc_device.DATE, rtc_device.STATUS_B)


class _Table(ctypes.Structure):
    """What the hooks' user data points to."""

    _fields_ = (
        ("on_in", ctypes.c_void_p),
        ("on_out", ctypes.c_void_p),
        ("write", ctypes.c_void_p),
        ("ids", ctypes.c_void_p),
        ("places", ctypes.c_void_p),
        ("index", ctypes.c_uint32),
        ("room", ctypes.c_uint32),
        ("used", ctypes.c_uint32),
        ("ports", ctypes.c_int32 * PORTS),
        ("rtc", ctypes.c_int32 * RTC_REGISTERS),
        ("line", ctypes.c_uint8 * LINE_BYTES),
    )


_In = ctypes.CFUNCTYPE(
    ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_void_p
)
_Out = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p
)


def _at(
    base: Register_, name: str, index: Register_ = Register.NONE, scale: int = 1
) -> MemoryOperand:
    return MemoryOperand(base, index, scale, getattr(_Table, name).offset, 8)


_new = Instruction
_R = Register


def _skip(jump: int, body: bytes) -> bytes:
    """Return a conditional jump over some code, and the code."""
    return bytes((jump, len(body))) + body


_JNE, _JAE, _JS = 0x75, 0x73, 0x78


def _code_tsc() -> bytes:
    """RDI = engine, RSI = table: EAX and EDX are written by the library, whose call is the last."""
    return assemble(
        [
            _new.create_reg_reg(Code.MOV_R64_RM64, _R.R8, _R.RSI),
            _new.create_reg_mem(Code.MOV_R64_RM64, _R.RSI, _at(_R.R8, "ids")),
            _new.create_reg_mem(Code.MOV_R64_RM64, _R.RDX, _at(_R.R8, "places")),
            _new.create_reg_i32(Code.MOV_R32_IMM32, _R.ECX, 2),
            _new.create_reg_i32(Code.SUB_RM64_IMM8, _R.RSP, 8),
            _new.create_mem(Code.CALL_RM64, _at(_R.R8, "write")),
            _new.create_reg_i32(Code.ADD_RM64_IMM8, _R.RSP, 8),
            # The instruction is done.
            _new.create_reg_i32(Code.MOV_R32_IMM32, _R.EAX, 1),
            _new.create(Code.RETNQ),
        ]
    )


def _code_in() -> bytes:
    """ESI = port, EDX = size, RCX = table: the byte of a port below PORTS, if it is known."""
    ask = assemble([_new.create_mem(Code.JMP_RM64, _at(_R.RCX, "on_in"))])
    known = assemble(
        [
            _new.create_reg_mem(Code.MOV_R32_RM32, _R.EAX, _at(_R.RCX, "ports", _R.RSI, 4)),
            _new.create_reg_reg(Code.TEST_RM32_R32, _R.EAX, _R.EAX),
        ]
    )
    known += _skip(_JS, assemble([_new.create(Code.RETNQ)]))
    small = assemble([_new.create_reg_i32(Code.CMP_RM32_IMM32, _R.ESI, PORTS)]) + _skip(_JAE, known)
    byte = assemble([_new.create_reg_i32(Code.CMP_RM32_IMM8, _R.EDX, 1)])
    # The size is tested first; every way that finds nothing ends in the last jump.
    return byte + _skip(_JNE, small) + ask


def _code_out() -> bytes:
    """ESI = port, EDX = size, ECX = value, R8 = table: a register of the clock, or a byte of a line."""
    ask = assemble([_new.create_mem(Code.JMP_RM64, _at(_R.R8, "on_out"))])
    data = _Table.ports.offset + 4 * rtc_device.DATA
    choose = assemble(
        [
            _new.create_mem_reg(Code.MOV_RM32_R32, _at(_R.R8, "index"), _R.ECX),
            _new.create_reg_i32(Code.AND_RM32_IMM8, _R.ECX, RTC_REGISTERS - 1),
            _new.create_reg_mem(Code.MOV_R32_RM32, _R.EAX, _at(_R.R8, "rtc", _R.RCX, 4)),
            _new.create_mem_reg(
                Code.MOV_RM32_R32, MemoryOperand(_R.R8, displ=data, displ_size=8), _R.EAX
            ),
            _new.create(Code.RETNQ),
        ]
    )
    store = assemble(
        [
            _new.create_mem_reg(Code.MOV_RM8_R8, _at(_R.R8, "line", _R.RAX), _R.CL),
            _new.create_mem(Code.INC_RM32, _at(_R.R8, "used")),
            _new.create(Code.RETNQ),
        ]
    )
    line = assemble(
        [
            _new.create_reg_mem(Code.MOV_R32_RM32, _R.EAX, _at(_R.R8, "used")),
            _new.create_reg_mem(Code.CMP_R32_RM32, _R.EAX, _at(_R.R8, "room")),
        ]
    ) + _skip(_JAE, store)
    index = assemble([_new.create_reg_i32(Code.CMP_RM32_IMM8, _R.ESI, rtc_device.INDEX)])
    serial = assemble([_new.create_reg_i32(Code.CMP_RM32_IMM32, _R.ESI, serial_device.COM1)])
    both = index + _skip(_JNE, choose) + serial + _skip(_JNE, line)
    byte = assemble([_new.create_reg_i32(Code.CMP_RM32_IMM8, _R.EDX, 1)])
    return byte + _skip(_JNE, both) + ask


class QuickAnswers:
    """The hooks of one machine.

    Args:
        machine: its own hooks of ports give way to these.
        serial: its serial port.
        rtc: its clock.
    """

    def __init__(self, machine: Machine, serial: SerialPort, rtc: Rtc) -> None:
        self._machine, self._serial, self._rtc = machine, serial, rtc
        self._table = table = _Table()
        self._second = -1
        self._in, self._out = _In(self._ask_in), _Out(self._ask_out)
        table.on_in = ctypes.cast(self._in, ctypes.c_void_p).value
        table.on_out = ctypes.cast(self._out, ctypes.c_void_p).value
        table.write = ctypes.cast(uclib.uc_reg_write_batch, ctypes.c_void_p).value
        self._tsc = (ctypes.c_uint64 * 2)()
        at = ctypes.addressof(self._tsc)
        self._ids = (ctypes.c_int * 2)(ux.UC_X86_REG_RAX, ux.UC_X86_REG_RDX)
        self._places = (ctypes.c_void_p * 2)(at, at + 8)
        table.ids, table.places = ctypes.addressof(self._ids), ctypes.addressof(self._places)
        table.ports[:] = [UNKNOWN] * PORTS
        codes = ((ux.UC_X86_INS_RDTSC, _code_tsc()), (ux.UC_X86_INS_IN, _code_in()))
        self._pages = self._hook((*codes, (ux.UC_X86_INS_OUT, _code_out())))

    def before(self, tsc: int) -> None:
        """Lay down what the devices say now.

        Args:
            tsc: time-stamp counter until the next call.
        """
        self._tsc[:] = [tsc & 0xFFFF_FFFF, tsc >> 32]
        table, ns = self._table, self._rtc.now_ns()
        second = ns // rtc_device.NS_PER_S
        if second != self._second:
            self._second = second
            for register in _DATED:
                table.rtc[register] = self._rtc.register(register)
        table.rtc[rtc_device.STATUS_A] = self._rtc.register(rtc_device.STATUS_A)
        self._lay()

    def after(self) -> None:
        """Hand to the devices what was written."""
        table = self._table
        self._rtc.port_out(rtc_device.INDEX, 1, table.index)
        if table.used:
            self._serial.take(bytes(table.line[: table.used]))
            table.used = 0

    def _lay(self) -> None:
        table, serial = self._table, self._serial
        table.ports[LINE_STATUS] = serial.status()
        table.ports[rtc_device.DATA] = table.rtc[table.index % RTC_REGISTERS]
        table.room = LINE_BYTES if serial.sends else 0

    def _ask_in(self, _engine: int, port: int, size: int, _data: object) -> int:
        self.after()
        value = self._machine.port_in(port, size)
        self._lay()
        return value

    def _ask_out(self, _engine: int, port: int, size: int, value: int, _data: object) -> None:
        self.after()
        self._machine.port_out(port, size, value)
        self._lay()

    def _hook(self, codes: Sequence[tuple[int, bytes]]) -> list[object]:
        pages: list[object] = []
        for instruction, code in codes:
            page = executable(code)
            handle = ctypes.c_size_t()
            # The binding takes Python callables only; this is the same call with a native one.
            status = uclib.uc_hook_add(
                self._machine.engine._uch,
                ctypes.byref(handle),
                uc.UC_HOOK_INSN,
                ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(page))),
                ctypes.c_void_p(ctypes.addressof(self._table)),
                ctypes.c_uint64(1),
                ctypes.c_uint64(0),
                ctypes.c_int(instruction),
            )
            if status != uc.UC_ERR_OK:
                raise uc.UcError(status)
            pages.append(page)
        return pages
