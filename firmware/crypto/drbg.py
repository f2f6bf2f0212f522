"""Random bytes for the node: ChaCha20 with fast key erasure (decision 29).

A refill makes four blocks from the key; the first 32 bytes become the next key at once, so nobody
who reads the memory later can tell what was served before. Served bytes are zeroed.
"""

from firmware.abi import CALLER_SAVED
from firmware.crypto.chacha20 import chacha20_block
from firmware.layouts.crypto import (
    BUFFER_OUT,
    CHACHA_BLOCK_BYTES,
    CHACHA_CONSTANTS,
    CHACHA_KEY_BYTES,
    DRBG,
    DRBG_POOL_BYTES,
    Drbg,
)
from firmware.layouts.entropy import SAMPLE_BYTES
from toolchain.asm import (
    EAX,
    EBX,
    ECX,
    EDX,
    R8D,
    R9,
    R9D,
    R12,
    R13,
    R13D,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    B,
    In,
    Out,
    Reg32,
    Reg64,
    Z,
    routine,
)


@routine(
    clobbers=CALLER_SAVED,
    reads=[Drbg.pool],
    writes=[Drbg],
    calls=[chacha20_block],
    saves=[R12, R13],
    secret=[Drbg.key, Drbg.pool],
    source="decision 29; RFC 8439 2.3",
)
def drbg_refill(a: Asm) -> None:
    """Fill the pool and replace the key by its first 32 bytes."""
    state = Drbg.at(R12)
    filled = R13D
    a.lea(R12, DRBG.address)
    for n in range(2):  # unrolled: two quadwords of constants
        word = int.from_bytes(CHACHA_CONSTANTS[8 * n : 8 * n + 8], "little")
        a.mov(RAX, word)
        a.mov(state.constants.m64(8 * n), RAX)
    a.mov(state.counter, 0)
    a.xor(filled, filled)
    with a.loop() as block:
        a.mov(RSI, R12)
        a.lea(RDI, state.pool.m8(index=R13))
        a.call(chacha20_block)
        a.inc(state.counter)
        a.add(filled, CHACHA_BLOCK_BYTES)
        a.cmp(filled, DRBG_POOL_BYTES)
        a.again(B, block)
    a.xor(EDX, EDX)
    for n in range(CHACHA_KEY_BYTES // 8):  # unrolled: the new key leaves the pool
        a.mov(RAX, state.pool.m64(8 * n))
        a.mov(state.key.m64(8 * n), RAX)
        a.mov(state.pool.m64(8 * n), RDX)
    a.mov(state.available, DRBG_POOL_BYTES - CHACHA_KEY_BYTES)
    a.inc(state.refills)
    a.ret()


@routine(
    outputs=[Out(RAX, "64 random bits")],
    clobbers=CALLER_SAVED,
    reads=[Drbg.available, Drbg.pool],
    writes=[Drbg.available, Drbg.pool],
    calls=[drbg_refill],
    secret=[RAX, Drbg.pool],
    source="decision 29",
)
def drbg_u64(a: Asm) -> None:
    """Serve eight random bytes."""
    state = Drbg.at(RSI)
    a.cmp(DRBG.it.available, 8)
    with a.if_(B):
        a.call(drbg_refill)
    a.lea(RSI, DRBG.address)
    offset = ECX
    a.mov(offset, DRBG_POOL_BYTES)
    a.sub(offset, state.available)
    a.sub(state.available, 8)
    a.mov(RAX, state.pool.m64(index=RCX))
    a.xor(EDX, EDX)
    a.mov(state.pool.m64(index=RCX), RDX)
    a.ret()


@routine(
    inputs=[In(RDI, int, "where they go"), In(ECX, int, "bytes; 0 is allowed")],
    clobbers=CALLER_SAVED,
    reads=[Drbg.available, Drbg.pool],
    writes=[Drbg.available, Drbg.pool, BUFFER_OUT],
    calls=[drbg_refill],
    saves=[RBX, R12],
    secret=[Drbg.pool, BUFFER_OUT],
    source="decision 29",
)
def drbg_bytes(a: Asm, out: Reg64, length: Reg32) -> None:
    """Serve any number of random bytes."""
    state = Drbg.at(RDX)
    left, target, count, offset = EBX, R12, R8D, R9
    done = a.label("done")
    a.mov(left, length)
    a.mov(target, out)
    with a.loop() as part:
        a.test(left, left)
        a.jz(done)
        a.cmp(DRBG.it.available, 0)
        with a.if_(Z):
            a.call(drbg_refill)
        a.lea(RDX, DRBG.address)
        a.mov(R9D, DRBG_POOL_BYTES)
        a.mov(count, state.available)
        a.sub(R9D, count)
        a.cmp(count, left)
        a.cmov(A, count, left)

        a.lea(RSI, state.pool.m8(index=offset))
        a.mov(RDI, target)
        a.mov(ECX, count)
        a.rep_movsb()
        a.mov(target, RDI)
        # What was served is forgotten.
        a.lea(RDI, state.pool.m8(index=offset))
        a.mov(ECX, count)
        a.xor(EAX, EAX)
        a.rep_stosb()
        a.sub(state.available, count)
        a.sub(left, count)
        a.jmp(part.top)
    a.place(done)
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[Drbg.seed],
    writes=[Drbg.key, Drbg.seed],
    calls=[drbg_refill],
    secret=[Drbg.key, Drbg.seed],
    source="decision 29",
)
def drbg_mix(a: Asm) -> None:
    """Mix the seed buffer into the key, half by half, and make both unrecoverable."""
    state = Drbg.at(RSI)
    for half in range(0, SAMPLE_BYTES, CHACHA_KEY_BYTES):  # unrolled: two halves
        a.lea(RSI, DRBG.address)
        a.xor(EDX, EDX)
        for n in range(0, CHACHA_KEY_BYTES, 8):  # unrolled: four quadwords
            a.mov(RAX, state.seed.m64(half + n))
            a.xor(state.key.m64(n), RAX)
            a.mov(state.seed.m64(half + n), RDX)
        a.call(drbg_refill)
    a.ret()
