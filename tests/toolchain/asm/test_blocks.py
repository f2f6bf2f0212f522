"""What structured blocks emit, and what the checks let pass."""

import pytest

from firmware.abi import CALLER_SAVED
from tests.support.program import Engine
from toolchain.asm import (
    AL,
    CF,
    EAX,
    ECX,
    NZ,
    R12,
    RAX,
    RBX,
    RCX,
    RDX,
    RSI,
    RSP,
    XMM0,
    Asm,
    AsmError,
    B,
    In,
    Out,
    Reg32,
    Reg64,
    Region,
    Z,
    mem64,
    routine,
)  # fmt: skip
from toolchain.asm.assemble import assemble

PLACE = Region("place", "anywhere")


def text(a: Asm) -> str:
    """Return mnemonics with the labels before them."""
    return " ".join(
        "".join(f"{label.name}: " for label in line.labels)
        + line.mnemonic
        + (f" {line.target.name}" if line.target is not None else "")
        for line in a.lines
    )


def test_if_else_emits_one_branch_over_each_part():
    a = Asm("forms")
    with a.if_(Z):
        a.nop()
    with a.else_():
        a.hlt()
    a.ret()
    a.finish()
    assert text(a) == "jnz endif_1 nop jmp endelse_2 endif_1: hlt endelse_2: ret"


def test_else_after_a_part_that_leaves_needs_no_jump():
    a = Asm("forms")
    with a.if_(Z):
        a.ret()
    with a.else_():
        a.hlt()
    a.ret()
    a.finish()
    assert text(a) == "jnz endif_1 ret endif_1: hlt endelse_2: ret"


def test_else_after_a_nested_if_that_leaves_keeps_its_jump():
    a = Asm("forms")
    with a.if_(Z), a.if_(B):
        a.ret()
    with a.else_():
        a.hlt()
    a.ret()
    a.finish()
    # The inner end is a way out of the outer part, so the part still jumps over `else`.
    assert (
        text(a) == "jnz endif_1 jae endif_2 ret endif_2: jmp endelse_3 endif_1: hlt endelse_3: ret"
    )


def test_loop_and_block_know_their_ends():
    a = Asm("forms")
    with a.block() as out:
        with a.loop() as top:
            a.leave(Z, top)
            a.leave(B, out)
            a.again(NZ, top)
        a.nop()
    a.ret()
    a.finish()
    assert text(a) == "loop_2: jz endloop_3 jb out_1 jnz loop_2 endloop_3: nop out_1: ret"


def test_an_exception_inside_a_block_is_not_hidden():
    a = Asm("forms")
    for block in (a.if_(Z), a.loop(), a.block()):
        with pytest.raises(RuntimeError, match="inside"), block:
            raise RuntimeError("inside")


def test_conditions_have_the_intel_names_and_inverses():
    a = Asm("forms")
    a.set(NZ, AL)
    a.cmov(Z, RAX, RCX)
    a.cmov(B.inverse(), RAX, RCX)
    assert [line.mnemonic for line in a.lines] == ["setne", "cmove", "cmovae"]


@routine(saves=[RBX, R12], stack=16, clobbers=[RAX], source="none")
def framed(a: Asm) -> None:
    """Use locals below saved registers."""
    a.mov(a.local(8), 1)
    a.mov(a.local(4, 12), 2)
    a.xor(EAX, EAX)
    a.push(RAX)
    a.mov(RBX, a.local(8))  # the pushed word lies below the locals
    a.pop(RAX)
    a.mov(R12, RBX)
    a.mov(a.local(8), R12)
    a.ret()


def test_prologue_and_epilogue_mirror_each_other():
    lines = framed.lines()
    shown = [f"{n.mnemonic} {', '.join(str(op) for op in n.ops)}".strip() for n in lines]
    assert shown[:3] == ["push rbx", "push r12", "lea rsp, qword [rsp-0x10]"]
    assert shown[-4:] == ["lea rsp, qword [rsp+0x10]", "pop r12", "pop rbx", "ret"]
    assert "mov rbx, qword [rsp+0x8]" in shown
    assert "mov dword [rsp+0xc], 2" in shown


@routine(clobbers=CALLER_SAVED, outputs=[Out(RAX, "zero")], source="none")
def by_convention(a: Asm) -> None:
    """Change less than the convention allows."""
    a.xor(EAX, EAX)
    a.ret()


def test_a_convention_may_name_more_than_changes_and_yields_to_outputs():
    assert by_convention.lines()
    assert RAX not in by_convention.contract.clobbers
    assert {RCX, RDX, XMM0} <= set(by_convention.contract.clobbers)


@routine(
    inputs=[In(RSI, int, "a pointer"), In(ECX, int, "a count")],
    outputs=[Out(CF, "1 = nothing to do")],
    clobbers=[RSI, RCX],
    writes=[PLACE],
    source="none",
)
def fills(a: Asm, pointer: Reg64, count: Reg32) -> None:
    """Use flags as a result, and a register only in part of the paths."""
    a.cmp(count, 1)
    with a.if_(B):
        a.ret()
    with a.loop() as top:
        a.mov(mem64(pointer, ref=PLACE), 0)
        a.add(pointer, 8)
        a.dec(count)
        a.again(NZ, top)
    a.clc()
    a.ret()


def test_checks_pass_what_is_right():
    assert assemble(fills).code.endswith(b"\xf8\xc3")


def test_partial_writes_keep_the_rest_alive():
    @routine(inputs=[In(RAX, int, "x")], outputs=[Out(RAX, "x, low byte 1")], source="none")
    def low_byte(a: Asm, x: Reg64) -> None:
        """Replace the low byte."""
        a.mov(AL, 1)
        a.ret()

    assert low_byte.lines()

    @routine(outputs=[Out(RAX, "x, low byte 1")], clobbers=[RCX], source="none")
    def whole(a: Asm) -> None:
        """Compute RAX in vain: ECX overwrites it whole."""
        a.mov(EAX, 5)
        a.mov(RCX, RAX)
        a.mov(EAX, 1)
        a.ret()

    with pytest.raises(AsmError, match="nothing uses the result of mov"):
        whole.lines()


def test_stack_pointer_arithmetic_is_followed():
    @routine(inputs=[In(RBX, Engine, "the engine")], writes=[Engine.total], source="none")
    def moves_rsp(a: Asm, engine: Engine) -> None:
        """Make room by hand and give it back."""
        a.sub(RSP, 24)
        a.mov(engine.total, 0)
        a.add(RSP, 24)
        a.ret()

    assert moves_rsp.lines()

    @routine(source="none")
    def forgets(a: Asm) -> None:
        """Give back too little."""
        a.sub(RSP, 24)
        a.add(RSP, 16)
        a.ret()

    with pytest.raises(AsmError, match="returns with 8 bytes left on the stack"):
        forgets.lines()
