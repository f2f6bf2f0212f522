"""`Asm` collects the instructions of one routine: methods to emit, blocks and labels to steer."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolchain.asm.blocks import Block, If, Loop
from toolchain.asm.encode import choose
from toolchain.asm.errors import AsmError
from toolchain.asm.instructions import Instructions
from toolchain.asm.operands import BY_SIZE, Mem, Mem64, Region
from toolchain.asm.registers import RAX, RDX, RSP, Reg8, Reg64

if TYPE_CHECKING:
    import iced_x86 as ix

    from toolchain.asm.conditions import Condition
    from toolchain.asm.routine import Routine

STACK = Region("the stack", "locals of the running routine")
_HERE = str(Path(__file__).parent)
# iced and NASM know each condition of setcc and cmovcc under one name.
_CANONICAL = {"z": "e", "nz": "ne", "c": "b", "nc": "ae", "nb": "ae"}


@dataclass(eq=False)
class Label:
    """A place in the routine; `Asm.place` puts it before the next instruction."""

    name: str
    where: str = ""


@dataclass(frozen=True)
class Offset:
    """The address of a symbol as an immediate (16- and 32-bit code, or `mov r64, imm64`)."""

    symbol: Any
    addend: int = 0

    def __str__(self) -> str:
        return f"{self.symbol.name}+{self.addend:#x}" if self.addend else str(self.symbol.name)


@dataclass
class Line:
    """One emitted instruction with its origin.

    `target` is the label of a branch, or the routine of a call or tail jump; `code` are the bytes of
    anything else, before fixups.
    """

    mnemonic: str
    ops: tuple[Any, ...]
    file: str
    lineno: int
    labels: list[Label] = field(default_factory=list)
    ins: ix.Instruction | None = None
    target: Label | Routine | None = None
    code: bytes = b""

    @property
    def where(self) -> str:
        """`file:line` of the call that emitted it."""
        return f"{self.file}:{self.lineno}"


class Asm(Instructions):
    """The instructions of one routine, in order.

    Args:
        name: Symbol of the routine, for messages.
        bits: 16, 32 or 64.
        saves: Registers pushed by the prologue and popped by every `ret`.
        locals_bytes: Stack bytes below the saved registers, a multiple of 8.
        declared: File and line of the declaration, the origin of the prologue.
    """

    def __init__(
        self,
        name: str,
        bits: int = 64,
        saves: tuple[Reg64, ...] = (),
        locals_bytes: int = 0,
        declared: tuple[str, int] | None = None,
    ) -> None:
        self.name, self.bits = name, bits
        self._declared = declared
        self.lines: list[Line] = []
        self.closed_if: tuple[int, Label] | None = None
        self._pending: list[Label] = []
        self._placed: set[Label] = set()
        self._unopened: dict[int, tuple[object, str]] = {}
        self._counter = 0
        self._saves, self._locals = saves, locals_bytes
        self._pushed = 0
        for reg in saves:
            self.push(reg)
        if locals_bytes:
            self.lea(RSP, Mem64(RSP, -locals_bytes, ref=STACK))
        self._pushed = 0
        self._declared = None

    # -- plumbing ---------------------------------------------------------------------------------
    def _origin(self) -> tuple[str, int]:
        if self._declared is not None:
            return self._declared
        frame = sys._getframe(2)
        while frame.f_back is not None and (frame.f_code.co_filename.startswith(_HERE)):
            frame = frame.f_back
        return frame.f_code.co_filename, frame.f_lineno

    def _append(
        self,
        mnemonic: str,
        ops: tuple[Any, ...],
        ins: ix.Instruction | None,
        target: Label | Routine | None = None,
        code: bytes = b"",
    ) -> None:
        file, lineno = self._origin()
        line = Line(mnemonic, ops, file, lineno, self._pending, ins, target, code)
        self._pending = []
        self.lines.append(line)

    def error(self, what: str, instead: str) -> AsmError:
        """Return an `AsmError` at the place in the generator that is running."""
        file, lineno = self._origin()
        return AsmError(what, instead, routine=self.name, where=f"{file}:{lineno}")

    def emit(self, mnemonic: str, *ops: Any) -> None:  # noqa: ANN401 - the typed methods narrow it
        """Append one instruction in its shortest encoding."""
        self._plain(mnemonic, ops)
        if mnemonic == "push":
            self._pushed += self.bits // 8
        elif mnemonic == "pop":
            self._pushed -= self.bits // 8

    def _plain(self, mnemonic: str, ops: tuple[Any, ...]) -> None:
        try:
            ins, code = choose(mnemonic, ops, self.bits)
        except AsmError as problem:
            raise self.error(problem.what, problem.instead) from None
        self._append(mnemonic, ops, ins, None, code)

    # -- labels and branches ----------------------------------------------------------------------
    def label(self, name: str) -> Label:
        """Make a label; it must be placed once."""
        file, lineno = self._origin()
        self._counter += 1
        return Label(name, f"{file}:{lineno}")

    def place(self, label: Label) -> None:
        """Put the label before the next instruction."""
        if label in self._placed:
            raise self.error(f"label {label.name} is placed twice", "place each label once")
        self._placed.add(label)
        self._pending.append(label)

    def _fresh(self, stem: str) -> Label:
        self._counter += 1
        return Label(f"{stem}_{self._counter}")

    def j(self, condition: Condition, target: Label | Routine) -> None:
        """Branch when the condition holds."""
        self._append(f"j{condition.name}", (), None, target)

    def jmp(self, target: Label | Routine) -> None:
        """Jump to a label, or to a routine as a tail call (after the epilogue)."""
        if not isinstance(target, Label):
            self._epilogue()
        self._append("jmp", (), None, target)

    def jz(self, target: Label) -> None:
        """Branch when ZF = 1."""
        self._append("jz", (), None, target)

    def jnz(self, target: Label) -> None:
        """Branch when ZF = 0."""
        self._append("jnz", (), None, target)

    def je(self, target: Label) -> None:
        """Branch when equal."""
        self._append("je", (), None, target)

    def jne(self, target: Label) -> None:
        """Branch when not equal."""
        self._append("jne", (), None, target)

    def jb(self, target: Label) -> None:
        """Branch when below, unsigned."""
        self._append("jb", (), None, target)

    def jae(self, target: Label) -> None:
        """Branch when above or equal, unsigned."""
        self._append("jae", (), None, target)

    def call(self, target: Routine) -> None:
        """Call a routine; its clobbers become ours."""
        self._append("call", (), None, target)

    def call_indirect(self, pointer: Reg64 | Mem64[Any]) -> None:
        """Call through a pointer that holds one of the contract's `indirect` routines."""
        self._plain("call", (pointer,))

    def ret(self) -> None:
        """Release locals, pop the saved registers, return."""
        self._epilogue()
        self._plain("ret", ())

    def _epilogue(self) -> None:
        if self._locals:
            self.lea(RSP, Mem64(RSP, self._locals, ref=STACK))
        pushed = self._pushed
        for reg in reversed(self._saves):
            self.pop(reg)
        self._pushed = pushed

    def int_(self, vector: int) -> None:
        """Raise a software interrupt (BIOS calls)."""
        self._plain("int", (vector,))

    def far_call(self, pointer: Mem[Any]) -> None:
        """Call through a segment:offset pointer in memory (the PXE entry point)."""
        self._plain("call far", (pointer,))

    def far_jmp(self, selector: int, target: Routine) -> None:
        """Load CS and jump: the way from 16- to 32- and from 32- to 64-bit code."""
        self._append("jmp far", (selector,), None, target)

    # -- blocks -----------------------------------------------------------------------------------
    def _block(self, block: object) -> None:
        file, lineno = self._origin()
        self._unopened[id(block)] = (block, f"{file}:{lineno}")

    def opened(self, block: object) -> None:
        """Note that a block was entered; called by the block."""
        self._unopened.pop(id(block), None)

    def if_(self, condition: Condition) -> If:
        """Run the block when the condition holds: `with a.if_(Z): ...`."""
        end = self._fresh("endif")
        block = If(self, end)
        self._block(block)
        self.j(condition.inverse(), end)
        return block

    def else_(self) -> If:
        """Run the block when the `if_` just closed did not: `with a.else_(): ...`."""
        if self.closed_if is None or self.closed_if[0] != len(self.lines):
            raise self.error("else_ does not follow an if_ block", "put it right after the block")
        start = self.closed_if[1]
        self._pending.remove(start)
        end = self._fresh("endelse")
        if self.lines[-1].mnemonic not in TERMINATORS or self._pending:
            self._append("jmp", (), None, end)
        self._pending.append(start)
        block = If(self, end)
        self._block(block)
        return block

    def loop(self) -> Loop:
        """Repeat: `with a.loop() as top: ...; a.again(NZ, top)`."""
        block = Loop(self, self._fresh("loop"), self._fresh("endloop"))
        self._block(block)
        return block

    def again(self, condition: Condition, loop: Loop) -> None:
        """Go back to the start of the loop when the condition holds."""
        self.j(condition, loop.top)

    def leave(self, condition: Condition, out: Label | Loop) -> None:
        """Leave the block or loop when the condition holds."""
        self.j(condition, out.out if isinstance(out, Loop) else out)

    def block(self) -> Block:
        """Group instructions; `a.leave(cc, out)` jumps past the end."""
        block = Block(self, self._fresh("out"))
        self._block(block)
        return block

    # -- small macros -----------------------------------------------------------------------------
    def rdtsc64(self) -> None:
        """RAX := the 64-bit time-stamp counter. Clobbers RDX and flags."""
        self.rdtsc()
        self.shl(RDX, 32)
        self.or_(RAX, RDX)

    def cmov(self, condition: Condition, dst: Any, src: Any) -> None:  # noqa: ANN401
        """Move when the condition holds."""
        self.emit("cmov" + _CANONICAL.get(condition.name, condition.name), dst, src)

    def set(self, condition: Condition, dst: Reg8 | Mem[Any]) -> None:
        """Set a byte to the condition's truth."""
        self.emit("set" + _CANONICAL.get(condition.name, condition.name), dst)

    def local(self, size: int, offset: int = 0) -> Any:  # noqa: ANN401 - width by `size`
        """Return the local of `size` bytes at `offset` into the routine's locals."""
        if offset + size > self._locals:
            raise self.error(
                f"local at {offset} of {size} bytes does not fit in stack={self._locals}",
                "raise `stack` in the contract",
            )
        return BY_SIZE[size](RSP, offset + self._pushed, ref=STACK)

    def finish(self) -> None:
        """Check that every label and block was used as it must be."""
        for block, where in self._unopened.values():
            raise AsmError(
                f"{type(block).__name__.lower()} block is never entered",
                "write it as `with a....:`",
                routine=self.name,
                where=where,
            )
        if self._pending:
            raise AsmError(
                f"label {self._pending[0].name} is at the end with no instruction",
                "end the routine with a.ret() or a jump",
                routine=self.name,
                where=self.lines[-1].where if self.lines else "",
            )
        for line in self.lines:
            if isinstance(line.target, Label) and line.target not in self._placed:
                raise AsmError(
                    f"{line.mnemonic} to label {line.target.name}, which is never placed",
                    "place it with a.place(label)",
                    routine=self.name,
                    where=line.where,
                )


TERMINATORS = frozenset({"ret", "jmp", "jmp far", "iretq", "iretd", "iret", "ud2", "retf"})
