"""Functions that the generated text calls. Each states one rule of the SDM on plain integers."""

from typing import Final

from emulator.semantics.step import MemoryReader, ProcessorFault

# PF is set for an even number of ones in the low byte. SDM Vol. 1, 3.4.3.1.
PARITY: Final = tuple(0 if value.bit_count() & 1 else 4 for value in range(256))

# The bit-reflected polynomial 11EDC6F41H. SDM Vol. 2, CRC32.
_CASTAGNOLI = 0x82F63B78
_DIVIDE_ERROR = 0


def unsigned_divide(dividend: int, divisor: int, highest: int) -> tuple[int, int]:
    """Return quotient and remainder, or raise #DE. SDM Vol. 2, DIV.

    Raises:
        ProcessorFault: If the divisor is zero or the quotient does not fit.
    """
    if divisor == 0:
        raise ProcessorFault(_DIVIDE_ERROR, "#DE: division by zero")
    quotient, remainder = divmod(dividend, divisor)
    if quotient > highest:
        raise ProcessorFault(_DIVIDE_ERROR, f"#DE: quotient {quotient:#x} does not fit")
    return quotient, remainder


def signed_divide(dividend: int, divisor: int, lowest: int, highest: int) -> tuple[int, int]:
    """Return quotient and remainder truncated towards zero, or raise #DE. SDM Vol. 2, IDIV.

    Raises:
        ProcessorFault: If the divisor is zero or the quotient does not fit.
    """
    if divisor == 0:
        raise ProcessorFault(_DIVIDE_ERROR, "#DE: division by zero")
    quotient = abs(dividend) // abs(divisor)
    if (dividend < 0) != (divisor < 0):
        quotient = -quotient
    if not lowest <= quotient <= highest:
        raise ProcessorFault(_DIVIDE_ERROR, f"#DE: quotient {quotient:#x} does not fit")
    return quotient, dividend - quotient * divisor


def swap_bytes(value: int, size: int) -> int:
    """Return the value with its `size` bytes in reverse order."""
    return int.from_bytes(value.to_bytes(size, "little"), "big")


def gather_bits(source: int, selector: int) -> int:
    """Return the source bits under the selector, packed at the bottom. SDM Vol. 2, PEXT."""
    result = position = 0
    while selector:
        lowest = selector & -selector
        if source & lowest:
            result |= 1 << position
        position += 1
        selector ^= lowest
    return result


def scatter_bits(source: int, selector: int) -> int:
    """Return the low source bits spread over the selector's bits. SDM Vol. 2, PDEP."""
    result = position = 0
    while selector:
        lowest = selector & -selector
        if source >> position & 1:
            result |= lowest
        position += 1
        selector ^= lowest
    return result


def crc32c(start: int, value: int, size: int) -> int:
    """Return the CRC-32C accumulator after `size` more bytes, without inversions. SDM, CRC32."""
    crc = start ^ value
    for _ in range(size * 8):
        crc = crc >> 1 ^ (_CASTAGNOLI if crc & 1 else 0)
    return crc


def read_fresh(read: MemoryReader, fresh: dict[int, int], address: int, size: int) -> int:
    """Return memory as the running instruction has left it; `fresh` holds the bytes it stored."""
    data = bytearray(read(address, size).to_bytes(size, "little"))
    for offset in range(size):
        data[offset] = fresh.get(address + offset, data[offset])
    return int.from_bytes(data, "little")


def put_fresh(fresh: dict[int, int], address: int, size: int, value: int) -> None:
    """Remember the bytes of a store for `read_fresh`."""
    for offset in range(size):
        fresh[address + offset] = value >> 8 * offset & 255
