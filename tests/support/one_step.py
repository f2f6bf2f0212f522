"""One instruction by the Python semantics, from a state with all registers known."""

import pytest
from iced_x86 import Decoder, Instruction

from emulator.semantics import Outside, Step, compile_instruction

RIP = 0x6000_0000
RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI = range(8)
CF, PF, AF, ZF, SF, DF, OF = 0x1, 0x4, 0x10, 0x40, 0x80, 0x400, 0x800
ONES = 2**64 - 1
FILL = 0x1111_1111_1111_1111


def decode(data: str, ip: int = RIP) -> Instruction:
    """Decode 64-bit code."""
    return Decoder(64, bytes.fromhex(data), ip=ip).decode()


def run(
    data: str,
    registers: dict[int, int] | None = None,
    *,
    flags: int = 0x202,
    memory: dict[int, bytes] | None = None,
    outside: Outside | None = None,
) -> Step:
    """Run one instruction; registers not given hold FILL, memory not given must not be read."""
    state = [FILL] * 16 + [RIP, flags]
    for number, value in (registers or {}).items():
        state[number] = value

    def read(address: int, size: int) -> int:
        for start, content in (memory or {}).items():
            if start <= address and address + size <= start + len(content):
                return int.from_bytes(content[address - start : address - start + size], "little")
        pytest.fail(f"reads {size} bytes at {address:#x}")

    return compile_instruction(decode(data))(state, read, outside or Outside())
