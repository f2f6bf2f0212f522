"""Writes the Python text of one instruction: operands in, operands out.

The text is the body of `step(r, read, outside)`. `r` is the state before, `n` a copy that becomes
the state after, `f` the flags before.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from iced_x86 import Instruction, MemorySizeExt, OpKind, Register

MASK64: Final = 2**64 - 1

_LEGACY = ("AX", "CX", "DX", "BX", "SP", "BP", "SI", "DI")
_LOW8 = ("AL", "CL", "DL", "BL", "SPL", "BPL", "SIL", "DIL")


def _register_table() -> dict[int, tuple[int, int, int]]:
    """Return (number, size in bits, lowest bit) of every general register."""
    table: dict[int, tuple[int, int, int]] = {}
    for number in range(16):
        old = number < 8
        names = {
            64: "R" + _LEGACY[number] if old else f"R{number}",
            32: "E" + _LEGACY[number] if old else f"R{number}D",
            16: _LEGACY[number] if old else f"R{number}W",
            8: _LOW8[number] if old else f"R{number}L",
        }
        for bits, name in names.items():
            table[getattr(Register, name)] = (number, bits, 0)
    for number, name in enumerate(("AH", "CH", "DH", "BH")):
        table[getattr(Register, name)] = (number, 8, 8)
    return table


GENERAL: Final = _register_table()
IMMEDIATES: Final = frozenset(
    {
        OpKind.IMMEDIATE8,
        OpKind.IMMEDIATE16,
        OpKind.IMMEDIATE32,
        OpKind.IMMEDIATE64,
        OpKind.IMMEDIATE8TO16,
        OpKind.IMMEDIATE8TO32,
        OpKind.IMMEDIATE8TO64,
        OpKind.IMMEDIATE32TO64,
    }
)
SEGMENT_BASES: Final = {Register.FS: "outside.fs_base", Register.GS: "outside.gs_base"}
STRING_KINDS: Final = {
    OpKind.MEMORY_ESDI: 16,
    OpKind.MEMORY_ESEDI: 32,
    OpKind.MEMORY_ESRDI: 64,
    OpKind.MEMORY_SEG_SI: 16,
    OpKind.MEMORY_SEG_ESI: 32,
    OpKind.MEMORY_SEG_RSI: 64,
}


def mask(bits: int) -> int:
    """Return a number with the lowest `bits` bits set."""
    return (1 << bits) - 1


def signed(text: str, bits: int) -> str:
    """Return text that reads the unsigned `text` as a two's complement number."""
    sign = 1 << (bits - 1)
    return f"(({text} ^ {sign:#x}) - {sign:#x})"


def moved_bit(text: str, source: int, target: int) -> str:
    """Return text that isolates bit `source` and places it at bit `target`."""
    shift = f">> {source - target}" if source >= target else f"<< {target - source}"
    return f"({text}) {shift} & {1 << target:#x}"


class Builder:
    """Collect the text of one instruction.

    Attributes:
        instruction: The instruction being translated.
        undefined: Text for the mask of undefined flags.
        undefined_registers: Text for the undefined registers.
        next_rip: Text for the next RIP.
        once: Whether a repeated string instruction does one visit only.
    """

    def __init__(self, instruction: Instruction, *, once: bool = False) -> None:
        self.instruction = instruction
        self.once = once
        self.undefined = "0"
        self.undefined_registers = "()"
        self.next_rip = "NEXT"
        self.write_list = ""
        self._lines: list[str] = []
        self._indent = ""
        self._writes: list[str] = []
        self._addresses: dict[int, str] = {}

    def line(self, text: str) -> None:
        """Append one line of the body."""
        self._lines.append(self._indent + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Indent the lines of the block; memory writes are not lines and stay outside."""
        self.line(f"{head}:")
        outer, self._indent = self._indent, self._indent + " "
        yield
        self._indent = outer

    def let(self, name: str, text: str) -> str:
        """Give a value a name and return the name."""
        self.line(f"{name} = {text}")
        return name

    def flags(self, changed: int, text: str) -> None:
        """Replace the EFLAGS bits of `changed` by the value of `text`."""
        self.line(f"n[17] = f & {~changed:#x} | {text}")

    def bits(self, operand: int) -> int:
        """Return the size of an operand in bits; an immediate has that of operand 0."""
        kind = self.instruction.op_kind(operand)
        if kind == OpKind.REGISTER:
            return GENERAL[self.instruction.op_register(operand)][1]
        if kind == OpKind.MEMORY or kind in STRING_KINDS:
            return MemorySizeExt.size(self.instruction.memory_size) * 8
        return self.bits(0)

    def is_memory(self, operand: int) -> bool:
        """Tell whether an operand lies in memory."""
        return self.instruction.op_kind(operand) == OpKind.MEMORY

    def effective_address(self) -> str:
        """Return text for the offset of the memory operand, cut to the address size.

        Source: SDM Vol. 1, 3.7.5.
        """
        ins = self.instruction
        if ins.is_ip_rel_memory_operand:
            return f"{ins.ip_rel_memory_address:#x}"
        terms: list[str] = []
        bits = 32 if ins.memory_displ_size == 4 else 64
        for register, scale in ((ins.memory_base, 1), (ins.memory_index, ins.memory_index_scale)):
            if register in GENERAL:
                number, width, _ = GENERAL[register]
                # POP computes its address after RSP has moved, so RSP comes from `n`.
                source = f"{'n' if number == 4 else 'r'}[{number}]"
                if width == 8:  # XLATB adds AL
                    source = f"({source} & 255)"
                else:
                    bits = width
                terms.append(source if scale == 1 else f"{source} * {scale}")
        displacement = ins.memory_displacement & mask(bits)
        if displacement or not terms:
            terms.append(f"{displacement:#x}")
        if len(terms) == 1 and (bits == 64 or terms[0].startswith("0x")) and "*" not in terms[0]:
            return terms[0]
        return f"({' + '.join(terms)}) & {mask(bits):#x}"

    def address(self, operand: int) -> str:
        """Return the name of the linear address of a memory operand."""
        if operand not in self._addresses:
            text = self.effective_address()
            base = SEGMENT_BASES.get(self.instruction.memory_segment)
            if base is not None:
                text = f"(({text}) + {base}) & {MASK64:#x}"
            self._addresses[operand] = self.let(f"ea{operand}", text)
        return self._addresses[operand]

    def register(self, number: int, bits: int, low: int = 0) -> str:
        """Return text for the value of a register before the instruction."""
        if bits == 64:
            return f"r[{number}]"
        shifted = f"r[{number}] >> {low}" if low else f"r[{number}]"
        return f"({shifted} & {mask(bits):#x})"

    def put_register(self, number: int, bits: int, text: str, low: int = 0) -> None:
        """Set a register; 32 bits clear the upper half, 8 and 16 bits keep the rest.

        Source: SDM Vol. 1, 3.4.1.1.
        """
        if bits >= 32:
            self.line(f"n[{number}] = {text}")
            return
        keep = MASK64 ^ (mask(bits) << low)
        value = f"({text}) << {low}" if low else f"({text})"
        self.line(f"n[{number}] = n[{number}] & {keep:#x} | {value}")

    def get(self, operand: int) -> str:
        """Return text for an operand's value before the instruction, cut to its size."""
        ins = self.instruction
        kind = ins.op_kind(operand)
        if kind == OpKind.REGISTER:
            return self.register(*GENERAL[ins.op_register(operand)])
        if kind == OpKind.MEMORY:
            return f"read({self.address(operand)}, {self.bits(operand) // 8})"
        return f"{ins.immediate(operand) & mask(self.bits(operand)):#x}"

    def put(self, operand: int, text: str) -> None:
        """Set an operand to a value already cut to its size."""
        ins = self.instruction
        if ins.op_kind(operand) == OpKind.REGISTER:
            number, bits, low = GENERAL[ins.op_register(operand)]
            self.put_register(number, bits, text, low)
        else:
            self.write(self.address(operand), self.bits(operand) // 8, text)

    def write(self, address: str, size: int, text: str) -> None:
        """Write `size` bytes of memory."""
        self._writes.append(f"({address}, {size}, {text}),")

    def text(self) -> str:
        """Return the complete source of the step maker."""
        writes = self.write_list or f"({' '.join(self._writes)})"
        result = f"(INS, n, {writes}, {self.undefined}, {self.undefined_registers})"
        body = [
            "f = r[17]",
            "n = [*r]",
            *self._lines,
            f"n[16] = {self.next_rip}",
            f"return new(Step, {result})",
        ]
        head = "def make(INS, IP, NEXT, TARGET):\n def step(r, read, outside=NOTHING):\n"
        return head + "".join(f"  {line}\n" for line in body) + " return step\n"
