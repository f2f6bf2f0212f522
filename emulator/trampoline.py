"""The machine code that enters native routines with a given register state and stores the result.

Everything is addressed relative to RIP, so that all sixteen registers are free for the routine.
"""

import functools
from collections.abc import Iterable
from typing import Final

from iced_x86 import Code, Encoder, Instruction, MemoryOperand, Register, Register_

PAGE: Final = 0x1000
TRAMPOLINE_BASE: Final = 0x5F00_0000
FRAME_BASE: Final = TRAMPOLINE_BASE + PAGE

# The frame that the trampoline loads from and stores to, as offsets in bytes from FRAME_BASE.
GPR, FLAGS, TARGET, HOST_RSP, EXIT_MARK = 0, 128, 136, 144, 152
GUEST_GS, GUEST_FS, HOST_GS, HOST_FS, USE_BASES, XMM = 160, 168, 176, 184, 192, 208
FRAME_SIZE: Final = XMM + 16 * 16

_GENERAL = (
    *(Register.RAX, Register.RCX, Register.RDX, Register.RBX),
    *(Register.RSP, Register.RBP, Register.RSI, Register.RDI),
    *(Register.R8, Register.R9, Register.R10, Register.R11),
    *(Register.R12, Register.R13, Register.R14, Register.R15),
)
# System V preserves these for our caller.
_HOST_SAVED = (
    *(Register.RBX, Register.RBP, Register.R12),
    *(Register.R13, Register.R14, Register.R15),
)
_LOAD, _STORE = Code.MOV_R64_RM64, Code.MOV_RM64_R64
_SAVE_BASES = (
    (Code.RDFSBASE_R64, Code.WRFSBASE_R64, HOST_FS, GUEST_FS),
    (Code.RDGSBASE_R64, Code.WRGSBASE_R64, HOST_GS, GUEST_GS),
)


def _frame(offset: int) -> MemoryOperand:
    """Return the operand of a frame field."""
    return MemoryOperand(Register.RIP, displ=FRAME_BASE + offset, displ_size=8)


def assemble(instructions: Iterable[Instruction], start: int = 0) -> bytes:
    """Return the bytes of instructions for an address."""
    encoder = Encoder(64)
    position = start
    for instruction in instructions:
        position += encoder.encode(instruction, position)
    return encoder.take_buffer()


def _vector(number: int) -> Register_:
    return Register_(Register.XMM0 + number)


def _if_bases(block: Iterable[Instruction], start: int) -> bytes:
    """Return code that skips the block unless the call sets segment bases.

    Not every kernel lets a user process run WRFSBASE, and most calls do not need it.
    """
    test = [Instruction.create_mem_i32(Code.CMP_RM8_IMM8, _frame(USE_BASES), 0)]
    head = assemble(test, start)
    body = assemble(block, start + len(head) + 2)
    return head + bytes((0x74, len(body))) + body  # JE over the body


def _enter_bases() -> list[Instruction]:
    block = []
    for read, write, host, guest in _SAVE_BASES:
        block.append(Instruction.create_reg(read, Register.RAX))
        block.append(Instruction.create_mem_reg(_STORE, _frame(host), Register.RAX))
        block.append(Instruction.create_reg_mem(_LOAD, Register.RAX, _frame(guest)))
        block.append(Instruction.create_reg(write, Register.RAX))
    return block


def _leave_bases() -> list[Instruction]:
    block = []
    for _, write, host, _ in _SAVE_BASES:
        block.append(Instruction.create_reg_mem(_LOAD, Register.RAX, _frame(host)))
        block.append(Instruction.create_reg(write, Register.RAX))
    return block


def _enter(start: int) -> bytes:
    new = Instruction
    first = [new.create_reg(Code.PUSH_R64, register) for register in _HOST_SAVED]
    first.append(new.create_mem_reg(_STORE, _frame(HOST_RSP), Register.RSP))
    code = assemble(first, start)
    code += _if_bases(_enter_bases(), start + len(code))
    second = [
        new.create_reg_mem(Code.MOVDQU_XMM_XMMM128, _vector(number), _frame(XMM + 16 * number))
        for number in range(16)
    ]
    second.append(new.create_mem(Code.PUSH_RM64, _frame(FLAGS)))
    second.append(new.create(Code.POPFQ))
    # From here on nothing may change a flag.
    second += [
        new.create_reg_mem(_LOAD, register, _frame(GPR + 8 * number))
        for number, register in enumerate(_GENERAL)
    ]
    second.append(new.create_mem(Code.JMP_RM64, _frame(TARGET)))
    return code + assemble(second, start + len(code))


def _leave(start: int) -> bytes:
    new = Instruction
    first = [
        new.create_mem_reg(_STORE, _frame(GPR + 8 * number), register)
        for number, register in enumerate(_GENERAL)
    ]
    first.append(new.create_reg_mem(_LOAD, Register.RSP, _frame(HOST_RSP)))
    first.append(new.create(Code.PUSHFQ))
    first.append(new.create_mem(Code.POP_RM64, _frame(FLAGS)))
    first.append(new.create(Code.CLD))
    first += [
        new.create_mem_reg(Code.MOVDQU_XMMM128_XMM, _frame(XMM + 16 * number), _vector(number))
        for number in range(16)
    ]
    code = assemble(first, start)
    code += _if_bases(_leave_bases(), start + len(code))
    last = [new.create_reg(Code.POP_R64, register) for register in reversed(_HOST_SAVED)]
    last.append(new.create(Code.RETNQ))
    return code + assemble(last, start + len(code))


@functools.cache
def trampoline() -> tuple[bytes, int, int]:
    """Return the trampoline's bytes and the addresses of its two exits.

    Code that was entered leaves through either exit; the frame's EXIT_MARK tells which.
    """

    def mark(value: int) -> Instruction:
        return Instruction.create_mem_i32(Code.MOV_RM8_IMM8, _frame(EXIT_MARK), value)

    code = _enter(TRAMPOLINE_BASE)
    exit_1 = TRAMPOLINE_BASE + len(code)
    code += assemble([mark(0)], exit_1)
    common = TRAMPOLINE_BASE + len(code)
    code += _leave(common)
    exit_2 = TRAMPOLINE_BASE + len(code)
    code += assemble([mark(1), Instruction.create_branch(Code.JMP_REL32_64, common)], exit_2)
    return code, exit_1, exit_2


EXIT: Final = trampoline()[1]
EXIT_2: Final = trampoline()[2]


def jump_to(address: int) -> bytes:
    """Return 14 bytes that jump to any address and change no register: `jmp [rip]`, pointer."""
    return b"\xff\x25\0\0\0\0" + address.to_bytes(8, "little")
