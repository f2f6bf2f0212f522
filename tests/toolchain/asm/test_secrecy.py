"""Secrets are followed through registers, flags, locals and calls; what is public stays usable."""

import pytest

from toolchain.asm import (
    ECX,
    NZ,
    RAX,
    RBX,
    RCX,
    RDI,
    RSI,
    RSP,
    Asm,
    AsmError,
    In,
    Reg64,
    Region,
    mem64,
    routine,
)
from toolchain.asm.assembler import STACK

KEY = Region("the key", "of a test")
OUT = Region("the result", "of a test")


def made(body, stack=0, clobbers=()):
    """Return a routine of a key at RSI and a result at RDI around `body`."""

    def generated(a: Asm, key: Reg64, result: Reg64) -> None:
        """Be judged."""
        a.mov(RAX, mem64(key, ref=KEY))
        body(a)
        a.mov(mem64(result, ref=OUT), RAX)
        a.ret()

    return routine(
        inputs=[In(RSI, int, "the key"), In(RDI, int, "the result")],
        clobbers=[RAX, RCX, *clobbers],
        reads=[KEY],
        writes=[OUT],
        saves=[RBX],
        stack=stack,
        secret=[KEY, OUT],
        source="none",
    )(generated)


def counted(a, *, load, store):
    """Count four turns down, in a local between them."""
    a.mov(ECX, 4)
    store(a)
    with a.loop() as top:
        a.add(RAX, RBX)
        load(a)
        a.dec(RCX)
        store(a)
        a.test(RCX, RCX)
        a.again(NZ, top)


def test_a_counter_in_a_local_beside_a_secret_is_public():
    def body(a):
        a.mov(RBX, RAX)
        a.mov(a.local(8, 0), RAX)
        counted(
            a,
            load=lambda a: a.mov(RCX, a.local(8, 8)),
            store=lambda a: a.mov(a.local(8, 8), RCX),
        )
        a.add(RAX, a.local(8, 0))

    made(body, stack=16).lines()


def refused(body, what, stack=0):
    with pytest.raises(AsmError, match=f"depends on a secret in {what}"):
        made(body, stack).lines()


def decide(a):
    """Branch on RCX."""
    a.test(RCX, RCX)
    with a.if_(NZ):
        a.inc(RAX)


def test_a_secret_comes_back_from_a_local():
    def body(a):
        a.mov(RBX, RAX)
        a.mov(a.local(8), RBX)
        a.mov(RCX, a.local(8))
        decide(a)

    refused(body, "zf", 8)


def test_a_secret_comes_back_from_a_push():
    def body(a):
        a.mov(RBX, RAX)
        a.push(RBX)
        a.pop(RCX)
        decide(a)

    refused(body, "zf")


def test_a_secret_that_goes_to_a_computed_local_may_be_anywhere():
    def body(a):
        a.xor(ECX, ECX)
        a.mov(RBX, RAX)
        a.mov(mem64(RSP, index=RCX, scale=8, ref=STACK), RBX)
        a.mov(RCX, a.local(8, 8))
        decide(a)

    refused(body, "zf", 16)


def test_whoever_lends_a_local_may_find_a_secret_in_it():
    def body(a):
        a.lea(RBX, a.local(8))
        a.add(RAX, RBX)
        a.mov(RCX, a.local(8, 8))
        decide(a)

    refused(body, "zf", 16)


def test_a_local_that_is_overwritten_is_public():
    def body(a):
        a.mov(RBX, RAX)
        a.mov(a.local(8), RBX)
        a.mov(ECX, 1)
        a.mov(a.local(8), RCX)
        a.mov(RCX, a.local(8))
        decide(a)

    made(body, stack=8).lines()


def test_a_secret_reaches_a_branch_in_a_later_turn():
    def body(a):
        a.xor(ECX, ECX)
        a.mov(RBX, RDI)
        with a.loop() as top:
            decide(a)
            a.mov(RCX, RAX)
            a.dec(RBX)
            a.again(NZ, top)

    refused(body, "zf")


def test_masks_are_the_way():
    def body(a):
        a.mov(RBX, RAX)
        a.neg(RBX)
        a.sbb(RCX, RCX)
        a.and_(RAX, RCX)
        a.cmovne(RAX, RBX)

    made(body).lines()


def test_an_index_may_not_be_a_secret():
    def body(a):
        a.mov(RCX, RAX)
        a.mov(RBX, mem64(RSI, index=RCX, ref=KEY))
        a.add(RAX, RBX)

    refused(body, "rcx")


def test_a_copy_may_not_be_as_long_as_a_secret():
    def body(a):
        a.mov(RCX, RAX)
        a.mov(RBX, RDI)
        a.rep_movsb()
        a.mov(RDI, RBX)

    with pytest.raises(AsmError, match="depends on a secret in rcx"):
        made(body, clobbers=[RSI, RDI]).lines()


def test_a_routine_may_list_what_it_only_hands_on():
    keeper = made(lambda a: a.mov(RBX, RAX))

    def generated(a: Asm, key: Reg64, result: Reg64) -> None:
        """Leave to who keeps it."""
        a.jmp(keeper)

    handing = routine(
        inputs=keeper.contract.inputs,
        clobbers=keeper.contract.clobbers,
        calls=[keeper],
        secret=[KEY, OUT],
        source="none",
    )(generated)
    assert len(handing.lines()) == 1
