"""Moves, conversions, the stack and flag transfers. SDM Vol. 2, the entry of each mnemonic."""

from collections.abc import Callable
from typing import Final

from iced_x86 import ConditionCode, Mnemonic, OpKind

from emulator.semantics.builder import GENERAL, MASK64, Builder, mask, signed
from emulator.semantics.flags import cut
from emulator.semantics.step import AF, CF, DF, PF, SF, STATUS, ZF

_RAX, _RDX = 0, 2
_AH = 8  # its lowest bit in RAX

# SDM Vol. 1, appendix B. OF lies four bits above SF.
CONDITIONS: Final = {
    ConditionCode.O: "f & 0x800",
    ConditionCode.NO: "not f & 0x800",
    ConditionCode.B: "f & 0x1",
    ConditionCode.AE: "not f & 0x1",
    ConditionCode.E: "f & 0x40",
    ConditionCode.NE: "not f & 0x40",
    ConditionCode.BE: "f & 0x41",
    ConditionCode.A: "not f & 0x41",
    ConditionCode.S: "f & 0x80",
    ConditionCode.NS: "not f & 0x80",
    ConditionCode.P: "f & 0x4",
    ConditionCode.NP: "not f & 0x4",
    ConditionCode.L: "(f >> 4 ^ f) & 0x80",
    ConditionCode.GE: "not (f >> 4 ^ f) & 0x80",
    ConditionCode.LE: "(f >> 4 ^ f) & 0x80 | f & 0x40",
    ConditionCode.G: "not ((f >> 4 ^ f) & 0x80 | f & 0x40)",
}

CONDITION_SUFFIXES: Final = (
    *("O", "NO", "B", "AE", "E", "NE", "BE", "A"),
    *("S", "NS", "P", "NP", "L", "GE", "LE", "G"),
)


def _move(b: Builder) -> None:
    """MOV, MOVZX and MOVNTI: the source is already zero-extended text."""
    b.put(0, b.get(1))


def _move_signed(b: Builder) -> None:
    """MOVSX and MOVSXD."""
    b.put(0, cut(signed(b.let("s", b.get(1)), b.bits(1)), b.bits(0)))


def _load_address(b: Builder) -> None:
    """LEA: the offset alone, segment bases do not count."""
    b.put(0, cut(f"({b.effective_address()})", b.bits(0)))


def _exchange(b: Builder) -> None:
    """XCHG."""
    first, second = b.let("a", b.get(0)), b.let("b", b.get(1))
    b.put(1, first)
    b.put(0, second)


def _conditional_move(b: Builder) -> None:
    """CMOVcc: reads its source and clears the upper half even when the condition is false."""
    source, old = b.let("s", b.get(1)), b.get(0)
    b.put(0, f"{source} if {CONDITIONS[b.instruction.condition_code]} else {old}")


def _set(b: Builder) -> None:
    """SETcc."""
    b.put(0, f"1 if {CONDITIONS[b.instruction.condition_code]} else 0")


def push_value(b: Builder, size: int, text: str) -> None:
    """Move RSP down by `size` bytes and store `text` there."""
    b.let("p", f"r[4] - {size} & {MASK64:#x}")
    b.line("n[4] = p")
    b.write("p", size, text)


def _push(b: Builder) -> None:
    """PUSH: PUSH RSP stores the old value, immediates are sign-extended to the stack width."""
    size = -b.instruction.stack_pointer_increment
    if b.instruction.op_kind(0) in (OpKind.REGISTER, OpKind.MEMORY):
        text = b.let("s", b.get(0))
    else:
        text = f"{b.instruction.immediate(0) & mask(size * 8):#x}"
    push_value(b, size, text)


def _pop(b: Builder) -> None:
    """POP: a memory operand's address counts from the RSP after the pop; POP RSP keeps the value."""
    size = b.bits(0) // 8
    b.let("v", f"read(r[4], {size})")
    b.line(f"n[4] = r[4] + {size} & {MASK64:#x}")
    b.put(0, "v")


def _push_flags(b: Builder) -> None:
    """PUSHFQ: VM and RF read as zero."""
    push_value(b, 8, "f & 0xfcffff")


def _pop_flags(b: Builder) -> None:
    """POPFQ: VM, VIF and VIP stay, RF is cleared, IF and IOPL change at privilege level 0 only."""
    b.let("v", "read(r[4], 8)")
    b.line(f"n[4] = r[4] + 8 & {MASK64:#x}")
    # CF PF AF ZF SF TF DF OF NT AC ID, and IF IOPL.
    b.let("c", "0x244dd5 if outside.cpl else 0x247fd5")
    b.line("n[17] = f & ~c & ~0x10000 | v & c | 2")


def _leave(b: Builder) -> None:
    """LEAVE: RSP from RBP, then RBP popped."""
    b.line(f"n[4] = r[5] + 8 & {MASK64:#x}")
    b.line("n[5] = read(r[5], 8)")


def _widen(register_bits: int) -> Callable[[Builder], None]:
    """Return the handler of CBW, CWDE, CDQE: the accumulator doubles into itself."""

    def handler(b: Builder) -> None:
        half = register_bits // 2
        value = signed(b.register(_RAX, half), half)
        b.put_register(_RAX, register_bits, cut(value, register_bits))

    return handler


def _fill_sign(bits: int) -> Callable[[Builder], None]:
    """Return the handler of CWD, CDQ, CQO: RDX becomes the accumulator's sign."""

    def handler(b: Builder) -> None:
        b.put_register(_RDX, bits, f"{mask(bits):#x} if r[0] >> {bits - 1} & 1 else 0")

    return handler


def _flag_change(text: str) -> Callable[[Builder], None]:
    """Return a handler that computes EFLAGS by one expression."""

    def handler(b: Builder) -> None:
        b.line(f"n[17] = {text}")

    return handler


_LAHF_MASK = SF | ZF | AF | PF | CF


def _load_ah(b: Builder) -> None:
    """LAHF: AH = SF ZF 0 AF 0 PF 1 CF."""
    b.put_register(_RAX, 8, f"f & {_LAHF_MASK:#x} | 2", _AH)


def _store_ah(b: Builder) -> None:
    """SAHF."""
    b.flags(_LAHF_MASK, f"r[0] >> 8 & {_LAHF_MASK:#x}")


def _translate(b: Builder) -> None:
    """XLATB: AL = [RBX + AL]."""
    b.put_register(_RAX, 8, b.get(0))


def _read_clock(b: Builder) -> None:
    """RDTSC and RDTSCP: EDX:EAX, upper halves cleared; RDTSCP also loads ECX."""
    b.line("n[0] = outside.tsc & 0xffffffff")
    b.line("n[2] = outside.tsc >> 32 & 0xffffffff")
    if b.instruction.mnemonic == Mnemonic.RDTSCP:
        b.line("n[1] = outside.tsc_aux & 0xffffffff")


def _read_random(b: Builder) -> None:
    """RDRAND and RDSEED: CF tells whether a value came, otherwise the destination is zero."""
    b.let("s", "outside.random")
    b.flags(STATUS, "(s is not None)")
    b.put(0, f"0 if s is None else {cut('s', b.bits(0))}")


def _swap_bytes(b: Builder) -> None:
    """BSWAP: a 16-bit operand gives an undefined result."""
    bits = b.bits(0)
    if bits == 16:
        number = GENERAL[b.instruction.op_register(0)][0]
        b.undefined_registers = f"(({number}, 0xffff),)"
        return
    b.put(0, f"swap_bytes({b.get(0)}, {bits // 8})")


def _move_swapped(b: Builder) -> None:
    """MOVBE."""
    b.put(0, f"swap_bytes({b.get(1)}, {b.bits(0) // 8})")


def _nothing(_: Builder) -> None:
    """NOP, PAUSE, fences, prefetches and ENDBR64: only RIP moves."""


_NOTHING = (
    *("NOP", "PAUSE", "LFENCE", "MFENCE", "SFENCE", "ENDBR64", "CLFLUSH", "CLFLUSHOPT"),
    *("PREFETCHNTA", "PREFETCHT0", "PREFETCHT1", "PREFETCHT2", "PREFETCHW"),
)

HANDLERS: Final[dict[int, Callable[[Builder], None]]] = {
    Mnemonic.MOV: _move,
    Mnemonic.MOVZX: _move,
    Mnemonic.MOVNTI: _move,
    Mnemonic.MOVSX: _move_signed,
    Mnemonic.MOVSXD: _move_signed,
    Mnemonic.LEA: _load_address,
    Mnemonic.XCHG: _exchange,
    Mnemonic.PUSH: _push,
    Mnemonic.POP: _pop,
    Mnemonic.PUSHFQ: _push_flags,
    Mnemonic.POPFQ: _pop_flags,
    Mnemonic.LEAVE: _leave,
    Mnemonic.CBW: _widen(16),
    Mnemonic.CWDE: _widen(32),
    Mnemonic.CDQE: _widen(64),
    Mnemonic.CWD: _fill_sign(16),
    Mnemonic.CDQ: _fill_sign(32),
    Mnemonic.CQO: _fill_sign(64),
    Mnemonic.CLC: _flag_change(f"f & {~CF:#x}"),
    Mnemonic.STC: _flag_change(f"f | {CF:#x}"),
    Mnemonic.CMC: _flag_change(f"f ^ {CF:#x}"),
    Mnemonic.CLD: _flag_change(f"f & {~DF:#x}"),
    Mnemonic.STD: _flag_change(f"f | {DF:#x}"),
    Mnemonic.LAHF: _load_ah,
    Mnemonic.SAHF: _store_ah,
    Mnemonic.XLATB: _translate,
    Mnemonic.RDTSC: _read_clock,
    Mnemonic.RDTSCP: _read_clock,
    Mnemonic.RDRAND: _read_random,
    Mnemonic.RDSEED: _read_random,
    Mnemonic.BSWAP: _swap_bytes,
    Mnemonic.MOVBE: _move_swapped,
    **{getattr(Mnemonic, name): _nothing for name in _NOTHING},
    **{getattr(Mnemonic, f"CMOV{suffix}"): _conditional_move for suffix in CONDITION_SUFFIXES},
    **{getattr(Mnemonic, f"SET{suffix}"): _set for suffix in CONDITION_SUFFIXES},
}
