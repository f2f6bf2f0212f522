"""SHA-3 and SHAKE (FIPS 202): one permutation, and a sponge of any rate around it.

A message is absorbed in parts and padded; then the first bytes of the state are the digest, or the
first block of what SHAKE gives; another permutation makes the next block.
"""

from __future__ import annotations

from firmware.layouts.crypto import BUFFER_IN
from firmware.layouts.keccak import (
    KECCAK,
    KECCAK_ROUNDS,
    PADDING_END,
    ROTATIONS,
    ROUNDS,
    SIDE,
    STATE_BYTES,
    Keccak,
)
from toolchain.asm import (
    AL,
    DL,
    EAX,
    ECX,
    NE,
    NZ,
    R8,
    R9,
    R10,
    R11,
    R12,
    R13,
    R13D,
    R14,
    R15,
    R15D,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    B,
    In,
    Mem64,
    Reg8,
    Reg32,
    Reg64,
    Z,
    mem8,
    mem64,
    routine,
)

K = KECCAK.it
CLOBBERS = (RAX, RCX, RDX, RSI, RDI, R8, R9, R10, R11)
MIDDLE = 120
"""Where the pointers stand in a state, so that most lanes are within a byte's reach."""
ROW = (RAX, RCX, RDX, RBX, RBP)
"""The lanes of a row or of the columns' parities."""
EFFECT = (R8, R9, R10, R11, R12)
"""What theta adds to each column."""
TURNED, CONSTANT, LEFT = R13, R14, R15D


def _lane(pointer: Reg64, x: int, y: int) -> Mem64[int]:
    """Return lane (x, y) of the state that a pointer stands in."""
    return Keccak.at(pointer, -MIDDLE).state.m64(8 * (SIDE * y + x))


def _round(a: Asm) -> None:
    """Do one round from the state at RSI to that at RDI (FIPS 202 3.2, with its names)."""
    for x, parity in enumerate(ROW):  # unrolled: theta, five columns
        a.mov(parity, _lane(RSI, x, 0))
        for y in range(1, SIDE):
            a.xor(parity, _lane(RSI, x, y))
    for x, effect in enumerate(EFFECT):
        a.mov(effect, ROW[(x + 1) % SIDE])
        a.rol(effect, 1)
        a.xor(effect, ROW[(x - 1) % SIDE])
    for y in range(SIDE):  # unrolled: five rows
        # Rho turns a lane, pi brings it to its place: (x, y) comes from (x + 3 y, x).
        for x, lane in enumerate(ROW):
            source = (x + 3 * y) % SIDE, x
            a.mov(lane, _lane(RSI, *source))
            a.xor(lane, EFFECT[source[0]])
            if ROTATIONS[source]:
                a.rol(lane, ROTATIONS[source])
        # Chi: each lane by the two behind it.
        for x, lane in enumerate(ROW):
            a.mov(TURNED, ROW[(x + 1) % SIDE])
            a.not_(TURNED)
            a.and_(TURNED, ROW[(x + 2) % SIDE])
            a.xor(TURNED, lane)
            if (x, y) == (0, 0):
                a.xor(TURNED, mem64(CONSTANT, ref=KECCAK_ROUNDS))  # iota
            a.mov(_lane(RDI, x, y), TURNED)


@routine(
    clobbers=CLOBBERS,
    reads=[Keccak.state, KECCAK_ROUNDS],
    writes=[Keccak.state],
    saves=[RBX, RBP, R12, R13, R14, R15],
    secret=[Keccak.state],
    source="FIPS 202 3.3",
)
def keccak_f1600(a: Asm) -> None:
    """Permute the state: 24 rounds, to and fro between two places."""
    a.lea(RSI, K.state.m8(MIDDLE))
    a.lea(RDI, K.state.m8(STATE_BYTES + MIDDLE))
    a.lea(CONSTANT, KECCAK_ROUNDS.address)
    a.mov(LEFT, ROUNDS)
    with a.loop() as rounds:
        _round(a)
        a.add(CONSTANT, 8)
        a.xchg(RSI, RDI)
        a.dec(LEFT)
        a.again(NZ, rounds)
    a.ret()


@routine(
    inputs=[In(ECX, int, "bytes of a block: the rate of a Sponge")],
    clobbers=[RAX, RCX, RDI],
    writes=[Keccak.state, Keccak.filled, Keccak.rate],
    source="FIPS 202 4",
)
def keccak_start(a: Asm, rate: Reg32) -> None:
    """Begin a message: it is empty yet."""
    a.mov(K.rate, rate)
    a.mov(K.filled, 0)
    a.lea(RDI, K.state.address)
    a.mov(ECX, STATE_BYTES // 8)
    a.xor(EAX, EAX)
    a.rep_stosq()
    a.ret()


@routine(
    inputs=[
        In(RSI, int, "what comes next in the message"),
        In(ECX, int, "its bytes; 0 is allowed"),
    ],
    clobbers=CLOBBERS,
    reads=[Keccak.filled, Keccak.rate, BUFFER_IN],
    writes=[Keccak.state, Keccak.filled],
    calls=[keccak_f1600],
    saves=[R12, R13],
    secret=[Keccak.state, BUFFER_IN],
    source="FIPS 202 4, step 6",
)
def keccak_absorb(a: Asm, message: Reg64, length: Reg32) -> None:
    """Append to the message: a lane at a time where one begins, otherwise a byte."""
    at, left, taken, done = ECX, R13D, EAX, a.label("done")
    a.mov(R12, message)
    a.mov(left, length)
    with a.loop() as parts:
        single, absorbed = a.label("single"), a.label("absorbed")
        a.test(left, left)
        a.j(Z, done)
        a.mov(at, K.filled)
        a.lea(RDX, K.state.m8())
        state = Keccak.at(RDX).state
        a.test(at, 7)
        a.j(NZ, single)
        a.cmp(left, 8)
        a.j(B, single)
        a.mov(RAX, mem64(R12, ref=BUFFER_IN))
        a.xor(state.m64(index=RCX), RAX)
        a.mov(taken, 8)
        a.jmp(absorbed)
        a.place(single)
        a.movzx(EAX, mem8(R12, ref=BUFFER_IN))
        a.xor(state.m8(index=RCX), AL)
        a.mov(taken, 1)
        a.place(absorbed)
        a.add(R12, RAX)
        a.sub(left, taken)
        a.add(at, taken)
        a.mov(K.filled, at)
        a.cmp(at, K.rate)
        a.again(NE, parts)
        a.mov(K.filled, 0)
        a.call(keccak_f1600)
        a.jmp(parts.top)
    a.place(done)
    a.ret()


@routine(
    inputs=[In(DL, int, "the suffix of the Sponge")],
    clobbers=CLOBBERS,
    reads=[Keccak.filled, Keccak.rate],
    writes=[Keccak.state],
    calls=[keccak_f1600],
    secret=[Keccak.state],
    source="FIPS 202 4, step 1, and 6",
)
def keccak_finish(a: Asm, suffix: Reg8) -> None:
    """End the message; what the function gives begins the state."""
    a.lea(RSI, K.state.m8())
    state = Keccak.at(RSI).state
    a.mov(ECX, K.filled)
    a.xor(state.m8(index=RCX), suffix)
    a.mov(ECX, K.rate)
    a.xor(state.m8(-1, index=RCX), PADDING_END)
    a.jmp(keccak_f1600)
