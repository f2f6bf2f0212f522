"""Shifts and rotates. SDM Vol. 2, SAL/SAR/SHL/SHR, RCL/RCR/ROL/ROR, SHLD, SHRD.

The count is masked to 5 bits (6 for 64-bit operands). A masked count of zero changes no flag.
OF is defined for a masked count of one only.
"""

from collections.abc import Callable
from typing import Final

from iced_x86 import Mnemonic

from emulator.semantics.builder import GENERAL, Builder, mask, moved_bit, signed
from emulator.semantics.flags import cut, sign_zero_parity
from emulator.semantics.step import AF, CF, OF, STATUS


def _masked_count(b: Builder, operand: int, bits: int) -> str:
    """Name the masked count `c`."""
    count_mask = 63 if bits == 64 else 31
    if b.instruction.op_count <= operand:
        return b.let("c", "1")
    return b.let("c", f"{b.get(operand)} & {count_mask}")


def _shift(value: str, carry: str, overflow: str, *, carry_lost: bool) -> Callable[[Builder], None]:
    """Return the handler of SHL, SHR or SAR.

    Args:
        value: Text of the result from `a` (unsigned), `s` (signed) and `c`, before cutting.
        carry: Text of CF, 0 or 1.
        overflow: Name of the value whose top bit, XOR CF if it is `v`, gives OF; "0" = OF clear.
        carry_lost: CF is undefined from a count of the operand size on.
    """

    def handler(b: Builder) -> None:
        bits = b.bits(0)
        fields = {"bits": bits, "signed": signed("a", bits)}
        b.let("a", b.get(0))
        _masked_count(b, 1, bits)
        b.let("v", cut(f"({value.format(**fields)})", bits))
        b.let("u", "0")
        with b.block("if c"):
            b.let("k", carry.format(**fields))
            over = {
                "v": f"{moved_bit('v', bits - 1, 11)} ^ k << 11",
                "a": moved_bit("a", bits - 1, 11),
                "0": "0",
            }[overflow]
            b.flags(STATUS, f"k | ({over}) | {sign_zero_parity('v', bits)}")
            lost = f" | ({CF} if c >= {bits} else 0)" if carry_lost else ""
            b.let("u", f"{AF} | (0 if c == 1 else {OF}){lost}")
        b.undefined = "u"
        b.put(0, "v")

    return handler


def _rotate(value: str, carry: str, overflow: str) -> Callable[[Builder], None]:
    """Return the handler of ROL or ROR; the distance is the masked count modulo the size."""

    def handler(b: Builder) -> None:
        bits = b.bits(0)
        fields = {"bits": bits, "top": bits - 1, "next": bits - 2}
        b.let("a", b.get(0))
        _masked_count(b, 1, bits)
        b.let("d", f"c & {bits - 1}")
        b.let("v", cut(f"({value.format(**fields)})", bits))
        b.let("u", "0")
        with b.block("if c"):
            b.let("k", carry.format(**fields))
            b.flags(CF | OF, f"k | ({overflow.format(**fields)}) << 11")
            b.let("u", f"0 if c == 1 else {OF}")
        b.undefined = "u"
        b.put(0, "v")

    return handler


def _rotate_through_carry(*, left: bool) -> Callable[[Builder], None]:
    """Return the handler of RCL or RCR: a rotate of size + 1 bits, CF above the operand."""

    def handler(b: Builder) -> None:
        bits = b.bits(0)
        whole = bits + 1
        b.let("a", b.get(0))
        _masked_count(b, 1, bits)
        b.let("d", f"c % {whole}" if left else f"-c % {whole}")
        b.let("x", f"a | (f & 1) << {bits}")
        b.let("x", cut(f"(x << d | x >> {whole} - d)", whole))
        b.let("v", cut("x", bits))
        b.let("u", "0")
        with b.block("if c"):
            b.let("k", f"x >> {bits}")
            # RCL compares the new top bit with the new CF, RCR the old ones.
            over = f"v >> {bits - 1} ^ k" if left else f"a >> {bits - 1} ^ f & 1"
            b.flags(CF | OF, f"k | ({over}) << 11")
            b.let("u", f"0 if c == 1 else {OF}")
        b.undefined = "u"
        b.put(0, "v")

    return handler


def _shift_double(*, left: bool) -> Callable[[Builder], None]:
    """Return the handler of SHLD or SHRD; a count above the size leaves everything undefined."""

    def handler(b: Builder) -> None:
        bits = b.bits(0)
        b.let("a", b.get(0))
        b.let("b", b.get(1))
        _masked_count(b, 2, bits)
        if left:
            b.let("v", cut(f"((a << {bits} | b) << c >> {bits})", bits))
            carry = f"a << c >> {bits} & 1"
        else:
            b.let("v", cut(f"((b << {bits} | a) >> c)", bits))
            carry = "a >> c - 1 & 1"
        b.let("u", "0")
        with b.block("if c"):
            b.let("k", carry)
            over = moved_bit("v ^ a", bits - 1, 11)
            b.flags(STATUS, f"k | {over} | {sign_zero_parity('v', bits)}")
            b.let("u", f"{STATUS} if c > {bits} else {AF} if c == 1 else {AF | OF}")
        b.undefined = "u"
        if b.is_memory(0):
            b.put(0, f"None if c > {bits} else v" if bits == 16 else "v")
            return
        b.put(0, "v")
        if bits == 16:
            number = GENERAL[b.instruction.op_register(0)][0]
            b.undefined_registers = f"(({number}, {mask(16):#x}),) if c > 16 else ()"

    return handler


def _shift_plain(text: str) -> Callable[[Builder], None]:
    """Return the handler of SHLX, SHRX or SARX: no flags."""

    def handler(b: Builder) -> None:
        bits = b.bits(0)
        b.let("a", b.get(1))
        b.let("c", f"{b.get(2)} & {bits - 1}")
        b.put(0, cut(f"({text.format(signed=signed('a', bits))})", bits))

    return handler


def _rotate_plain(b: Builder) -> None:
    """RORX: no flags."""
    bits = b.bits(0)
    b.let("a", b.get(1))
    count = b.instruction.immediate8 & (bits - 1)
    b.put(0, cut(f"(a >> {count} | a << {bits - count})", bits))


_SHL = _shift("a << c", "a << c >> {bits} & 1", "v", carry_lost=True)

HANDLERS: Final[dict[int, Callable[[Builder], None]]] = {
    Mnemonic.SHL: _SHL,
    Mnemonic.SAL: _SHL,
    Mnemonic.SHR: _shift("a >> c", "a >> c - 1 & 1", "a", carry_lost=True),
    Mnemonic.SAR: _shift("{signed} >> c", "{signed} >> c - 1 & 1", "0", carry_lost=False),
    Mnemonic.ROL: _rotate("a << d | a >> {bits} - d", "v & 1", "v >> {top} ^ k"),
    Mnemonic.ROR: _rotate("a >> d | a << {bits} - d", "v >> {top}", "(v >> {next} ^ k) & 1"),
    Mnemonic.RCL: _rotate_through_carry(left=True),
    Mnemonic.RCR: _rotate_through_carry(left=False),
    Mnemonic.SHLD: _shift_double(left=True),
    Mnemonic.SHRD: _shift_double(left=False),
    Mnemonic.SHLX: _shift_plain("a << c"),
    Mnemonic.SHRX: _shift_plain("a >> c"),
    Mnemonic.SARX: _shift_plain("{signed} >> c"),
    Mnemonic.RORX: _rotate_plain,
}
