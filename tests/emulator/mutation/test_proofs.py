"""Each rule of equivalence holds where its condition does, and nowhere else."""

from emulator.mutation.operators import mutants
from emulator.mutation.proofs import Proofs
from toolchain.asm import (
    AE,
    BE,
    BL,
    CF,
    EAX,
    EBX,
    ECX,
    EDX,
    RAX,
    RCX,
    RDX,
    A,
    Asm,
    B,
    In,
    Out,
    Reg8,
    Reg32,
    Reg64,
    Z,
    routine,
)

TWO = [In(RAX, int, "a"), In(RCX, int, "b")]


def proved(subject, before, after):
    (mutant,) = [m for m in mutants(subject) if m.key == f"{before} -> {after}"]
    return Proofs().equivalent(subject, mutant)


@routine(inputs=TWO, outputs=[Out(RDX, "1 = equal")], source="tests")
def equal(a: Asm, one: Reg64, other: Reg64) -> None:
    """Compare for equality."""
    a.xor(EDX, EDX)
    a.cmp(one, other)
    with a.if_(Z):
        a.inc(EDX)
    a.ret()


@routine(inputs=TWO, outputs=[Out(RDX, "1 = below")], source="tests")
def below(a: Asm, one: Reg64, other: Reg64) -> None:
    """Compare for order."""
    a.xor(EDX, EDX)
    a.cmp(one, other)
    with a.if_(B):
        a.inc(EDX)
    a.ret()


@routine(inputs=TWO, outputs=[Out(CF, "1 = below"), Out(RDX, "1 = equal")], source="tests")
def equal_and_below(a: Asm, one: Reg64, other: Reg64) -> None:
    """Use one comparison for both."""
    a.mov(EDX, 0)
    a.cmp(one, other)
    with a.if_(Z):
        a.mov(EDX, 1)
    a.ret()


def test_a_cmp_whose_order_nobody_uses_is_symmetric():
    assert "only ZF" in proved(equal, "cmp rax, rcx", "cmp rcx, rax")
    assert proved(below, "cmp rax, rcx", "cmp rcx, rax") == ""
    assert proved(equal_and_below, "cmp rax, rcx", "cmp rcx, rax") == ""


@routine(inputs=TWO, outputs=[Out(RAX, "the smaller")], source="tests")
def smaller(a: Asm, one: Reg64, other: Reg64) -> None:
    """Take the minimum."""
    a.cmp(one, other)
    a.cmov(AE, RAX, RCX)
    a.ret()


@routine(inputs=TWO, outputs=[Out(RAX, "another")], clobbers=[RDX], source="tests")
def third(a: Asm, one: Reg64, other: Reg64) -> None:
    """Take a third value."""
    a.mov(EDX, 7)
    a.cmp(one, other)
    a.cmov(AE, RAX, RDX)
    a.ret()


@routine(inputs=TWO, outputs=[Out(RAX, "another")], clobbers=[RCX], source="tests")
def changed(a: Asm, one: Reg64, other: Reg64) -> None:
    """Change the value between comparison and move."""
    a.cmp(one, other)
    a.mov(ECX, 7)
    a.cmov(AE, RAX, RCX)
    a.ret()


def test_a_cmov_of_the_compared_values_may_move_an_equal_one():
    assert "moves an equal one" in proved(smaller, "cmovae rax, rcx", "cmova rax, rcx")
    assert proved(smaller, "cmovae rax, rcx", "cmovb rax, rcx") == ""
    assert proved(smaller, "cmovae rax, rcx", "cmovge rax, rcx") == ""
    assert proved(third, "cmovae rax, rdx", "cmova rax, rdx") == ""
    assert proved(changed, "cmovae rax, rcx", "cmova rax, rcx") == ""


@routine(inputs=TWO, outputs=[Out(RDX, "1 = zero")], clobbers=[RAX], source="tests")
def tested(a: Asm, one: Reg64, other: Reg64) -> None:
    """Test what an ADD has just left."""
    a.mov(EDX, 0)
    a.add(RAX, other)
    a.test(RAX, RAX)
    with a.if_(Z):
        a.inc(EDX)
    a.ret()


@routine(inputs=TWO, outputs=[Out(RDX, "1 = not above 0")], clobbers=[RAX], source="tests")
def tested_for_carry(a: Asm, one: Reg64, other: Reg64) -> None:
    """Use CF, which TEST clears and ADD does not."""
    a.mov(EDX, 0)
    a.add(RAX, other)
    a.test(RAX, RAX)
    with a.if_(BE):
        a.inc(EDX)
    a.ret()


@routine(inputs=TWO, outputs=[Out(RDX, "1 = zero")], clobbers=[RAX], source="tests")
def tested_other(a: Asm, one: Reg64, other: Reg64) -> None:
    """Test the register that ADD did not change."""
    a.mov(EDX, 0)
    a.add(RAX, other)
    a.test(RCX, RCX)
    with a.if_(Z):
        a.add(RDX, RAX)
    a.ret()


@routine(inputs=TWO, outputs=[Out(RDX, "1 = zero")], clobbers=[RAX], source="tests")
def tested_from_two(a: Asm, one: Reg64, other: Reg64) -> None:
    """Come to the TEST on a second way, with other flags."""
    a.mov(EDX, 0)
    here = a.label("here")
    a.cmp(RAX, 9)
    a.j(A, here)
    a.add(RAX, other)
    a.place(here)
    a.test(RAX, RAX)
    with a.if_(Z):
        a.inc(EDX)
    a.ret()


def test_a_test_of_a_fresh_result_repeats_its_flags():
    assert "repeats the flags" in proved(tested, "test rax, rax", "nop")
    assert proved(tested_for_carry, "test rax, rax", "nop") == ""
    assert proved(tested_other, "test rcx, rcx", "nop") == ""
    assert proved(tested_from_two, "test rax, rax", "nop") == ""


@routine(inputs=[In(BL, int, "a")], outputs=[Out(RDX, "1 = above")], clobbers=[RAX], source="tests")
def byte_above(a: Asm, value: Reg8) -> None:
    """Compare a byte with a number."""
    a.xor(EDX, EDX)
    a.movzx(EAX, value)
    a.cmp(EAX, 9)
    with a.if_(A):
        a.inc(EDX)
    a.ret()


@routine(
    inputs=[In(EBX, int, "a")], outputs=[Out(RDX, "1 = above")], clobbers=[RAX], source="tests"
)
def word_above(a: Asm, value: Reg32) -> None:
    """Compare 32 bits with a number."""
    a.xor(EDX, EDX)
    a.mov(EAX, value)
    a.cmp(EAX, 9)
    with a.if_(A):
        a.inc(EDX)
    a.ret()


def test_the_sign_of_a_zero_extended_byte_does_not_matter():
    assert "zero-extended" in proved(byte_above, "jbe endif_1", "jle endif_1")
    assert proved(byte_above, "jbe endif_1", "jb endif_1") == ""
    assert proved(word_above, "jbe endif_1", "jle endif_1") == ""


@routine(inputs=TWO, outputs=[Out(RDX, "-1, 0 or 1")], source="tests")
def ordered(a: Asm, one: Reg64, other: Reg64) -> None:
    """Ask for equality first, then for order."""
    a.xor(EDX, EDX)
    a.cmp(one, other)
    with a.if_(Z):
        a.ret()
    with a.if_(A):
        a.inc(EDX)
        a.ret()
    a.dec(RDX)
    a.ret()


@routine(inputs=TWO, outputs=[Out(RDX, "0 or 1")], source="tests")
def equal_too(a: Asm, one: Reg64, other: Reg64) -> None:
    """Ask for order where equal values come to, too."""
    here, out = a.label("here"), a.label("out")
    a.xor(EDX, EDX)
    a.cmp(one, other)
    a.jnz(here)
    a.cmp(one, 9)
    a.place(here)
    a.j(BE, out)
    a.inc(EDX)
    a.place(out)
    a.ret()


def test_where_equality_is_ruled_out_its_edge_does_not_matter():
    assert "ZF clear" in proved(ordered, "jbe endif_2", "jb endif_2")
    assert proved(ordered, "jbe endif_2", "ja endif_2") == ""
    assert proved(ordered, "jbe endif_2", "jle endif_2") == ""
    assert proved(below, "jae endif_1", "ja endif_1") == ""
    assert proved(equal_too, "jbe out", "jb out") == ""


@routine(inputs=TWO, outputs=[Out(CF, "0"), Out(RDX, "0 or 1")], source="tests")
def clear_twice(a: Asm, one: Reg64, other: Reg64) -> None:
    """Clear CF where it is clear on both ways."""
    a.mov(EDX, 0)
    a.test(one, other)
    with a.if_(Z):
        a.inc(EDX)
    a.clc()
    a.ret()


@routine(inputs=TWO, outputs=[Out(CF, "0"), Out(RDX, "0 or more")], source="tests")
def clear_once(a: Asm, one: Reg64, other: Reg64) -> None:
    """Clear CF where an addition may have set it."""
    a.mov(EDX, 0)
    a.test(one, other)
    with a.if_(Z):
        a.add(RDX, other)
    a.clc()
    a.ret()


@routine(outputs=[Out(CF, "0")], source="tests")
def clear_first(a: Asm) -> None:
    """Clear the caller's CF."""
    a.clc()
    a.ret()


def test_a_clc_is_needed_where_cf_may_be_set():
    assert "CLC changes nothing" in proved(clear_twice, "clc", "nop")
    assert proved(clear_once, "clc", "nop") == ""
    assert proved(clear_first, "clc", "nop") == ""


@routine(inputs=TWO, outputs=[Out(RAX, "another")], source="tests")
def jumps(a: Asm, one: Reg64, other: Reg64) -> None:
    """Jump over something, and over nothing."""
    far, near = a.label("far"), a.label("near")
    a.cmp(one, other)
    a.jz(near)
    a.mov(RAX, other)
    a.jmp(far)
    a.place(near)
    a.mov(RAX, 1)
    a.jmp(far)
    a.place(far)
    a.ret()


def test_a_jump_to_the_next_instruction_does_nothing():
    assert proved(jumps, "jmp far", "nop") == ""
    assert "does nothing" in proved(jumps, "jmp far", "nop #2")
    assert proved(jumps, "jz near", "nop") == ""
