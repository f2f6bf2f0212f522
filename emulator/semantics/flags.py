"""Text for the status flags of a result. SDM Vol. 1, 3.4.3.1 and appendix A."""

from emulator.semantics.builder import mask, moved_bit


def sign_zero_parity(value: str, bits: int) -> str:
    """Return text for SF, ZF and PF of the named value."""
    sign = f"{value} >> {bits - 8} & 0x80" if bits > 8 else f"{value} & 0x80"
    return f"PARITY[{value} & 255] | ({sign}) | (0 if {value} else 0x40)"


def sum_flags(first: str, second: str, total: str, value: str, bits: int) -> str:
    """Return text for the six flags of `total` = first + second + carry, `value` cut to size."""
    overflow = moved_bit(f"({first} ^ {value}) & ({second} ^ {value})", bits - 1, 11)
    return (
        f"{total} >> {bits} | ({first} ^ {second} ^ {value}) & 0x10 | {overflow} | "
        + sign_zero_parity(value, bits)
    )


def difference_flags(first: str, second: str, total: str, value: str, bits: int) -> str:
    """Return text for the six flags of `total` = first - second - borrow, `value` cut to size."""
    overflow = moved_bit(f"({first} ^ {second}) & ({first} ^ {value})", bits - 1, 11)
    return (
        f"{total} >> {bits} & 1 | ({first} ^ {second} ^ {value}) & 0x10 | {overflow} | "
        + sign_zero_parity(value, bits)
    )


def cut(text: str, bits: int) -> str:
    """Return text that keeps the low `bits` bits."""
    return f"{text} & {mask(bits):#x}"
