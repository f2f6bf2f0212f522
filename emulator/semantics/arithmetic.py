"""Addition, subtraction, multiplication, division. SDM Vol. 2, the entry of each mnemonic."""

from collections.abc import Callable
from functools import partial
from typing import Final

from iced_x86 import Mnemonic

from emulator.semantics.builder import Builder, mask, signed
from emulator.semantics.flags import cut, difference_flags, sum_flags
from emulator.semantics.step import AF, CF, OF, PF, SF, STATUS, ZF

_RAX, _RDX = 0, 2
_AH = 8  # its lowest bit in RAX


def _sum(b: Builder, *, carry: bool) -> None:
    """ADD and ADC."""
    bits = b.bits(0)
    first, second = b.let("a", b.get(0)), b.let("b", b.get(1))
    total = b.let("t", f"{first} + {second}" + (" + (f & 1)" if carry else ""))
    value = b.let("v", cut(total, bits))
    b.flags(STATUS, sum_flags(first, second, total, value, bits))
    b.put(0, value)


def _difference(b: Builder, *, borrow: bool, store: bool) -> None:
    """SUB, SBB and CMP."""
    bits = b.bits(0)
    first, second = b.let("a", b.get(0)), b.let("b", b.get(1))
    total = b.let("t", f"{first} - {second}" + (" - (f & 1)" if borrow else ""))
    value = b.let("v", cut(total, bits))
    b.flags(STATUS, difference_flags(first, second, total, value, bits))
    if store:
        b.put(0, value)


def _increment(b: Builder) -> None:
    """INC: CF keeps its value."""
    bits = b.bits(0)
    total = b.let("t", f"{b.let('a', b.get(0))} + 1")
    value = b.let("v", cut(total, bits))
    b.flags(STATUS ^ CF, f"({sum_flags('a', '1', total, value, bits)}) & {STATUS ^ CF:#x}")
    b.put(0, value)


def _decrement(b: Builder) -> None:
    """DEC: CF keeps its value."""
    bits = b.bits(0)
    total = b.let("t", f"{b.let('a', b.get(0))} - 1")
    value = b.let("v", cut(total, bits))
    b.flags(STATUS ^ CF, f"({difference_flags('a', '1', total, value, bits)}) & {STATUS ^ CF:#x}")
    b.put(0, value)


def _negate(b: Builder) -> None:
    """NEG: 0 - operand."""
    bits = b.bits(0)
    total = b.let("t", f"-{b.let('b', b.get(0))}")
    value = b.let("v", cut(total, bits))
    b.flags(STATUS, difference_flags("0", "b", total, value, bits))
    b.put(0, value)


def _chain(b: Builder, flag: int) -> None:
    """ADCX (CF) and ADOX (OF): one flag in and out, the others untouched."""
    bits = b.bits(0)
    position = flag.bit_length() - 1
    total = b.let("t", f"{b.get(0)} + {b.get(1)} + (f >> {position} & 1)")
    b.flags(flag, f"t >> {bits} << {position}")
    b.put(0, cut(total, bits))


_MULTIPLY_UNDEFINED = SF | ZF | AF | PF
_WIDE_CARRY = CF | OF


def _multiply(b: Builder, *, sign: bool) -> None:
    """MUL and one-operand IMUL: accumulator times operand, twice as wide."""
    bits = b.bits(0)
    first, second = b.register(_RAX, bits), b.get(0)
    if sign:
        first, second = signed(first, bits), signed(b.let("s", second), bits)
    b.let("t", f"{first} * {second}")
    if sign:
        # CF and OF tell that the upper half is more than a sign extension.
        b.let("v", cut("t", bits))
        b.flags(_WIDE_CARRY, f"(0 if t == {signed('v', bits)} else {_WIDE_CARRY:#x})")
    else:
        b.flags(_WIDE_CARRY, f"({_WIDE_CARRY:#x} if t >> {bits} else 0)")
    b.undefined = f"{_MULTIPLY_UNDEFINED:#x}"
    if bits == 8:
        b.put_register(_RAX, 16, cut("t", 16))
    else:
        b.put_register(_RAX, bits, cut("t", bits))
        b.put_register(_RDX, bits, cut(f"t >> {bits}", bits))


def _signed_multiply(b: Builder) -> None:
    """IMUL with one, two or three operands; the latter two are as wide as their destination."""
    if b.instruction.op_count == 1:
        _multiply(b, sign=True)
        return
    bits = b.bits(0)
    first = b.instruction.op_count - 2
    product = f"{signed(b.get(first), bits)} * {signed(b.get(first + 1), bits)}"
    b.let("t", product)
    b.let("v", cut("t", bits))
    b.flags(_WIDE_CARRY, f"(0 if t == {signed('v', bits)} else {_WIDE_CARRY:#x})")
    b.undefined = f"{_MULTIPLY_UNDEFINED:#x}"
    b.put(0, "v")


def _mulx(b: Builder) -> None:
    """MULX: RDX times operand 2, no flags; operand 0 gets the upper half and wins if both agree."""
    bits = b.bits(0)
    b.let("t", f"{b.register(_RDX, bits)} * {b.get(2)}")
    b.put(1, cut("t", bits))
    b.put(0, f"t >> {bits}")


def _divide(b: Builder, *, sign: bool) -> None:
    """DIV and IDIV: the double-wide accumulator, quotient truncated towards zero."""
    bits = b.bits(0)
    if bits == 8:
        dividend = b.register(_RAX, 16)
    else:
        high, low = b.register(_RDX, bits), b.register(_RAX, bits)
        dividend = f"({high} << {bits} | {low})"
    divisor = b.let("s", b.get(0))
    if sign:
        dividend, divisor = signed(dividend, 2 * bits), signed(divisor, bits)
        limit = 1 << (bits - 1)
        b.let("q, m", f"signed_divide({dividend}, {divisor}, {-limit}, {limit - 1})")
    else:
        b.let("q, m", f"unsigned_divide({dividend}, {divisor}, {mask(bits)})")
    b.undefined = f"{STATUS:#x}"
    b.put_register(_RAX, bits, cut("q", bits))
    if bits == 8:
        b.put_register(_RAX, 8, cut("m", 8), _AH)
    else:
        b.put_register(_RDX, bits, cut("m", bits))


def _exchange_add(b: Builder) -> None:
    """XADD: the source gets the old destination, then the destination the sum."""
    bits = b.bits(0)
    first, second = b.let("a", b.get(0)), b.let("b", b.get(1))
    b.let("t", f"{first} + {second}")
    b.let("v", cut("t", bits))
    b.flags(STATUS, sum_flags(first, second, "t", "v", bits))
    b.put(1, first)
    b.put(0, "v")


def _compare_exchange(b: Builder) -> None:
    """CMPXCHG: flags of accumulator - destination; memory is written in either case.

    The SDM's pseudocode also writes the register destination when the values differ; processors
    leave it, so nothing is claimed about the upper half of a 32-bit register in that case.
    """
    bits = b.bits(0)
    first, second = b.let("a", b.register(_RAX, bits)), b.let("b", b.get(0))
    b.let("t", f"{first} - {second}")
    b.let("v", cut("t", bits))
    b.flags(STATUS, difference_flags(first, second, "t", "v", bits))
    with b.block("if v"):
        b.put_register(_RAX, bits, second)
    if b.is_memory(0):
        b.put(0, f"{second} if v else {b.get(1)}")
    else:
        with b.block("if not v"):
            b.put(0, b.get(1))


def _compare_exchange_wide(b: Builder) -> None:
    """CMPXCHG8B and CMPXCHG16B: RDX:RAX against memory, RCX:RBX in; only ZF changes."""
    half = b.bits(0) // 2
    low, high = b.register(_RAX, half), b.register(_RDX, half)
    b.let("m", b.get(0))
    b.let("e", f"m == ({high} << {half} | {low})")
    b.flags(ZF, f"({ZF:#x} if e else 0)")
    with b.block("if not e"):
        b.put_register(_RAX, half, cut("m", half))
        b.put_register(_RDX, half, f"m >> {half}")
    b.put(0, f"({b.register(1, half)} << {half} | {b.register(3, half)}) if e else m")


HANDLERS: Final[dict[int, Callable[[Builder], None]]] = {
    Mnemonic.ADD: partial(_sum, carry=False),
    Mnemonic.ADC: partial(_sum, carry=True),
    Mnemonic.SUB: partial(_difference, borrow=False, store=True),
    Mnemonic.SBB: partial(_difference, borrow=True, store=True),
    Mnemonic.CMP: partial(_difference, borrow=False, store=False),
    Mnemonic.INC: _increment,
    Mnemonic.DEC: _decrement,
    Mnemonic.NEG: _negate,
    Mnemonic.ADCX: partial(_chain, flag=CF),
    Mnemonic.ADOX: partial(_chain, flag=OF),
    Mnemonic.MUL: partial(_multiply, sign=False),
    Mnemonic.IMUL: _signed_multiply,
    Mnemonic.MULX: _mulx,
    Mnemonic.DIV: partial(_divide, sign=False),
    Mnemonic.IDIV: partial(_divide, sign=True),
    Mnemonic.XADD: _exchange_add,
    Mnemonic.CMPXCHG: _compare_exchange,
    Mnemonic.CMPXCHG8B: _compare_exchange_wide,
    Mnemonic.CMPXCHG16B: _compare_exchange_wide,
}
