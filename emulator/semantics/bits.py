"""Logic, bit tests, bit scans, bit fields and CRC-32C. SDM Vol. 2, the entry of each mnemonic."""

from collections.abc import Callable
from functools import partial
from typing import Final

from iced_x86 import Mnemonic, OpKind

from emulator.semantics.builder import GENERAL, MASK64, Builder, mask, signed
from emulator.semantics.flags import cut, sign_zero_parity
from emulator.semantics.step import AF, CF, OF, PF, SF, STATUS, ZF


def _logic(b: Builder, operator: str, *, store: bool = True) -> None:
    """AND, OR, XOR, TEST: CF and OF clear, AF undefined."""
    bits = b.bits(0)
    value = b.let("v", f"{b.get(0)} {operator} {b.get(1)}")
    b.flags(STATUS ^ AF, sign_zero_parity(value, bits))
    b.undefined = f"{AF}"
    if store:
        b.put(0, value)


def _complement(b: Builder) -> None:
    """NOT: no flags."""
    b.put(0, f"{b.get(0)} ^ {mask(b.bits(0)):#x}")


def _bit_test(b: Builder, change: str) -> None:
    """BT, BTS, BTR, BTC: CF = the bit, ZF unchanged, OF SF AF PF undefined.

    A register offset into memory is signed and reaches beyond the operand, in steps of its size.
    """
    bits = b.bits(0)
    far = b.is_memory(0) and b.instruction.op_kind(1) == OpKind.REGISTER
    offset = b.let("o", b.get(1))
    if far:
        address = b.address(0)
        step = f"({signed(offset, bits)} >> {bits.bit_length() - 1}) * {bits // 8}"
        b.let(address, f"{address} + {step} & {MASK64:#x}")
    b.let("a", b.get(0))
    b.let("o", f"{offset} & {bits - 1}")
    b.flags(CF, "a >> o & 1")
    b.undefined = f"{OF | SF | AF | PF:#x}"
    if change:
        b.put(0, cut(f"({change})", bits))


def _scan(b: Builder, text: str) -> None:
    """BSF and BSR: ZF = source is zero, and then the destination is undefined."""
    number, bits, _ = GENERAL[b.instruction.op_register(0)]
    b.let("s", b.get(1))
    b.flags(ZF, f"(0 if s else {ZF})")
    b.undefined = f"{STATUS ^ ZF:#x}"
    with b.block("if s"):
        b.put(0, text)
    lost = MASK64 if bits == 32 else mask(bits)
    b.undefined_registers = f"() if s else (({number}, {lost:#x}),)"


def _count_zeros(b: Builder, text: str) -> None:
    """TZCNT and LZCNT: CF = source is zero, ZF = result is zero, OF SF PF AF undefined."""
    bits = b.bits(0)
    b.let("s", b.get(1))
    b.let("v", f"{text.format(bits=bits)} if s else {bits}")
    b.flags(CF | ZF, f"(0 if s else {CF}) | (0 if v else {ZF})")
    b.undefined = f"{STATUS ^ CF ^ ZF:#x}"
    b.put(0, "v")


def _population(b: Builder) -> None:
    """POPCNT: ZF = source is zero, the other five clear."""
    b.let("s", b.get(1))
    b.flags(STATUS, f"(0 if s else {ZF})")
    b.put(0, "s.bit_count()")


def _and_not(b: Builder) -> None:
    """ANDN: SF and ZF by the result, OF and CF clear, AF and PF undefined."""
    bits = b.bits(0)
    value = b.let("v", f"({b.get(1)} ^ {mask(bits):#x}) & {b.get(2)}")
    b.flags(STATUS ^ AF, sign_zero_parity(value, bits))
    b.undefined = f"{AF | PF:#x}"
    b.put(0, value)


def _extract_field(b: Builder) -> None:
    """BEXTR: start in bits 7:0, length in bits 15:8; ZF by the result, AF SF PF undefined."""
    b.let("c", b.get(2))
    b.let("v", f"{b.get(1)} >> (c & 255) & (1 << (c >> 8 & 255)) - 1")
    b.flags(ZF | CF | OF, f"(0 if v else {ZF})")
    b.undefined = f"{AF | SF | PF:#x}"
    b.put(0, "v")


def _zero_high(b: Builder) -> None:
    """BZHI: CF = index above size - 1, SF and ZF by the result, OF clear, AF and PF undefined."""
    bits = b.bits(0)
    b.let("c", f"{b.get(2)} & 255")
    value = b.let("v", f"{b.get(1)} & (1 << c) - 1")
    b.flags(STATUS ^ AF, f"(c > {bits - 1}) | {sign_zero_parity(value, bits)}")
    b.undefined = f"{AF | PF:#x}"
    b.put(0, value)


def _lowest(b: Builder, text: str, *, carry_when_zero: bool) -> None:
    """BLSR, BLSI, BLSMSK: CF by the source, SF and ZF by the result, AF and PF undefined."""
    bits = b.bits(0)
    b.let("s", b.get(1))
    value = b.let("v", cut(f"({text})", bits))
    carry = "(not s)" if carry_when_zero else "(s != 0)"
    b.flags(STATUS ^ AF, f"{carry} | {sign_zero_parity(value, bits)}")
    b.undefined = f"{AF | PF:#x}"
    b.put(0, value)


def _spread(b: Builder, helper: str) -> None:
    """PEXT and PDEP: no flags."""
    b.put(0, f"{helper}({b.get(1)}, {b.get(2)})")


def _checksum(b: Builder) -> None:
    """CRC32: CRC-32C of the low 32 bits of the destination, the result cleared above."""
    number = GENERAL[b.instruction.op_register(0)][0]
    value = f"crc32c(r[{number}] & 0xffffffff, {b.get(1)}, {b.bits(1) // 8})"
    b.put(0, value)


HANDLERS: Final[dict[int, Callable[[Builder], None]]] = {
    Mnemonic.AND: partial(_logic, operator="&"),
    Mnemonic.OR: partial(_logic, operator="|"),
    Mnemonic.XOR: partial(_logic, operator="^"),
    Mnemonic.TEST: partial(_logic, operator="&", store=False),
    Mnemonic.NOT: _complement,
    Mnemonic.BT: partial(_bit_test, change=""),
    Mnemonic.BTS: partial(_bit_test, change="a | 1 << o"),
    Mnemonic.BTR: partial(_bit_test, change="a & ~(1 << o)"),
    Mnemonic.BTC: partial(_bit_test, change="a ^ 1 << o"),
    Mnemonic.BSF: partial(_scan, text="(s & -s).bit_length() - 1"),
    Mnemonic.BSR: partial(_scan, text="s.bit_length() - 1"),
    Mnemonic.TZCNT: partial(_count_zeros, text="(s & -s).bit_length() - 1"),
    Mnemonic.LZCNT: partial(_count_zeros, text="{bits} - s.bit_length()"),
    Mnemonic.POPCNT: _population,
    Mnemonic.ANDN: _and_not,
    Mnemonic.BEXTR: _extract_field,
    Mnemonic.BZHI: _zero_high,
    Mnemonic.BLSR: partial(_lowest, text="s & s - 1", carry_when_zero=True),
    Mnemonic.BLSI: partial(_lowest, text="s & -s", carry_when_zero=False),
    Mnemonic.BLSMSK: partial(_lowest, text="s ^ s - 1", carry_when_zero=True),
    Mnemonic.PEXT: partial(_spread, helper="gather_bits"),
    Mnemonic.PDEP: partial(_spread, helper="scatter_bits"),
    Mnemonic.CRC32: _checksum,
}
