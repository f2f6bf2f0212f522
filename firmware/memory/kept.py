"""The pages that a warm reset keeps: their sum, and the node's own facts in the first of them."""

from firmware.layouts.survivor import (
    KEPT,
    SUMMED_QUADS,
    SURVIVAL,
    SURVIVOR,
    Survival,
    Survivor,
)
from toolchain.asm import (
    ECX,
    NZ,
    RAX,
    RCX,
    RDI,
    RSI,
    Asm,
    In,
    Out,
    Reg32,
    Reg64,
    Z,
    mem64,
    routine,
)

SUM_START = 0x5348_4152_4446_5753
SUM_FACTOR = 0x0100_0193
SUM_TURN = 29


@routine(
    inputs=[In(RSI, int, "first quadword"), In(ECX, int, "quadwords, at least 1")],
    outputs=[Out(RAX, "their sum; that of zeros is not zero")],
    clobbers=[RCX, RSI],
    reads=[KEPT],
    source="firmware/docs/boot.md#kept-pages",
)
def kept_sum(a: Asm, first: Reg64, count: Reg32) -> None:
    """Sum quadwords so that no change of one of them goes unseen; a few hundred instructions."""
    a.mov(RAX, SUM_START)
    with a.loop() as each:
        a.xor(RAX, mem64(first, ref=KEPT))
        a.rol(RAX, SUM_TURN)
        a.imul(RAX, RAX, SUM_FACTOR)
        a.add(first, 8)
        a.dec(count)
        a.again(NZ, each)
    a.ret()


@routine(
    clobbers=[RAX, RCX, RSI, RDI],
    reads=[Survival.page, Survivor],
    writes=[Survivor],
    calls=[kept_sum],
    source="firmware/docs/boot.md#kept-pages",
)
def survivor_store(a: Asm) -> None:
    """Write the node's own facts to the page that a warm reset keeps."""
    a.mov(RDI, SURVIVAL.it.page)
    a.test(RDI, RDI)
    with a.if_(Z):
        a.ret()
    a.lea(RSI, SURVIVOR.it.boots)
    a.mov(ECX, SUMMED_QUADS)
    a.call(kept_sum)
    a.mov(SURVIVOR.it.sum, RAX)
    a.lea(RSI, SURVIVOR.address)
    a.mov(ECX, Survivor.SIZE // 8)
    a.rep_movsq()
    a.ret()
