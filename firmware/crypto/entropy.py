"""Entropy for the generator: every source is mixed in, and only a healthy one is credited.

A source is asked for eight numbers. It counts when it gave them all and they pass the test; then the
generator holds 256 bits that nobody else knows. A processor may say that it has RDRAND and serve all
ones for ever (AMD after a resume), a machine may pass through a device that gives zeros: neither
makes keys, and neither can spoil what was mixed in before.
"""

from collections.abc import Callable

from firmware.abi import CALLER_SAVED
from firmware.crypto.drbg import drbg_mix
from firmware.layouts.crypto import BUFFER_OUT, DRBG, Drbg
from firmware.layouts.entropy import (
    SAMPLE_BYTES,
    SAMPLES,
    VARYING_MIN,
    EntropySource,
    Gathered,
    SourceState,
)
from firmware.layouts.log import ENTROPY_FAILED, ENTROPY_GATHERED
from firmware.layouts.node import CLOCK, NETWORK, Clock, Network
from firmware.log import log, log_write
from firmware.virtio.rng import rng_gather
from toolchain.asm import (
    AE,
    AL,
    CF,
    EAX,
    EBX,
    ECX,
    EDX,
    NE,
    NZ,
    R8D,
    R9,
    R10,
    R10D,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    B,
    C,
    E,
    In,
    Out,
    Reg64,
    Region,
    Z,
    mem8,
    mem64,
    routine,
)
from toolchain.layout.data import Table

FEATURES, EXTENDED = 1, 7
"""CPUID leaves: the second exists when the highest one, which leaf 0 tells, is not below it."""
RDRAND_BIT = 1 << 30
"""CPUID.1:ECX (SDM volume 1, 7.3.17)."""
RDSEED_BIT = 1 << 18
"""CPUID.7.0:EBX (SDM volume 1, 7.3.17)."""
RDRAND_TRIES = 10
"""SDM volume 1, 7.3.17.1: ten tries, then the source counts as broken."""
RDSEED_TRIES = 512
"""Its numbers come from the noise itself, more slowly than several cores may ask for them."""
SUMS = Region("sums", "addition by lea; no memory is touched")

SAMPLE = In(RDI, int, "where the sample goes: 64 bytes, zeroed")
FATE = Out(EAX, "Gathered")


def _numbers(a: Asm, tries: int, ask: Callable[[], None]) -> None:
    """Fill the sample at RDI: `ask` puts a number into RAX and sets CF, or has none. Returns."""
    offset, left = EDX, ECX
    got, broken = a.label("got"), a.label("broken")
    a.xor(offset, offset)
    with a.loop() as number:
        a.mov(left, tries)
        with a.loop() as attempt:
            ask()
            a.j(C, got)
            a.pause()
            a.dec(left)
            a.again(NZ, attempt)
        a.jmp(broken)
        a.place(got)
        a.mov(mem64(RDI, index=RDX, ref=BUFFER_OUT), RAX)
        a.add(offset, 8)
        a.cmp(offset, SAMPLE_BYTES)
        a.again(B, number)
    a.xor(EAX, EAX)  # Gathered.COMPLETE
    a.ret()
    a.place(broken)
    a.mov(EAX, Gathered.BROKEN)
    a.ret()


@routine(
    inputs=[SAMPLE],
    outputs=[FATE],
    clobbers=[RCX, RDX],
    writes=[BUFFER_OUT],
    saves=[RBX],
    source="SDM volume 1, 7.3.17.2",
)
def entropy_rdseed(a: Asm, out: Reg64) -> None:
    """Gather from RDSEED; only the 64-bit form, for the narrow ones give zeros on some processors."""
    absent = a.label("absent")
    a.xor(EAX, EAX)
    a.xor(ECX, ECX)
    a.cpuid()
    a.cmp(EAX, EXTENDED)
    a.j(B, absent)
    a.mov(EAX, EXTENDED)
    a.xor(ECX, ECX)
    a.cpuid()
    a.test(EBX, RDSEED_BIT)
    a.j(Z, absent)
    _numbers(a, RDSEED_TRIES, lambda: a.rdseed(RAX))
    a.place(absent)
    a.mov(EAX, Gathered.ABSENT)
    a.ret()


@routine(
    inputs=[SAMPLE],
    outputs=[FATE],
    clobbers=[RCX, RDX],
    writes=[BUFFER_OUT],
    saves=[RBX],
    source="SDM volume 1, 7.3.17.1",
)
def entropy_rdrand(a: Asm, out: Reg64) -> None:
    """Gather from RDRAND."""
    absent = a.label("absent")
    a.mov(EAX, FEATURES)
    a.xor(ECX, ECX)
    a.cpuid()
    a.test(ECX, RDRAND_BIT)
    a.j(Z, absent)
    _numbers(a, RDRAND_TRIES, lambda: a.rdrand(RAX))
    a.place(absent)
    a.mov(EAX, Gathered.ABSENT)
    a.ret()


ENTROPY_SOURCES = Table(
    "entropy_sources",
    len(EntropySource),
    lambda: (entropy_rdseed, entropy_rdrand, rng_gather),
    "who gathers a sample, by EntropySource",
)


@routine(
    outputs=[Out(CF, "1 = no random source gives such numbers")],
    clobbers=[RAX, RCX, RDX, RSI, RDI, R8D, R9, R10],
    reads=[Drbg.seed],
    secret=[Drbg.seed],
    source="firmware/docs/entropy.md#test",
)
def entropy_judge(a: Asm) -> None:
    """Test the sample in the seed buffer: no number of equal bits, none twice, no bits that stand still.

    Without a branch on a number: the verdict is all that time may tell.
    """
    state = Drbg.at(RSI)
    bad, always, ever, number, other = R8D, R9, R10, RAX, RDI
    a.lea(RSI, DRBG.address)
    a.xor(bad, bad)
    a.mov(always, -1)
    a.xor(R10D, R10D)
    a.xor(ECX, ECX)
    with a.loop() as each:
        a.mov(number, state.seed.m64(index=RCX, scale=8))
        a.and_(always, number)
        a.or_(ever, number)
        a.cmp(number, 1)
        a.adc(bad, 0)  # it is zero
        a.lea(other, mem8(number, 1, ref=SUMS))
        a.cmp(other, 1)
        a.adc(bad, 0)  # it is all ones
        a.lea(EDX, mem8(RCX, 1, ref=SUMS))
        with a.loop() as later:
            a.cmp(EDX, SAMPLES)
            a.leave(AE, later)
            a.mov(other, state.seed.m64(index=RDX, scale=8))
            a.xor(other, number)
            a.cmp(other, 1)
            a.adc(bad, 0)  # it comes again
            a.inc(EDX)
            a.jmp(later.top)
        a.inc(ECX)
        a.cmp(ECX, SAMPLES)
        a.again(B, each)

    # What was neither always set nor never set.
    varying = EDX
    a.xor(ever, always)
    a.xor(varying, varying)
    a.mov(ECX, 64)
    with a.loop() as count:
        a.shr(ever, 1)
        a.adc(varying, 0)
        a.dec(ECX)
        a.again(NZ, count)
    a.cmp(varying, VARYING_MIN)
    a.adc(bad, 0)
    a.neg(bad)  # CF = 1 unless it is zero
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[
        Network.mac,
        Clock.unix_time,
        Clock.boot_tsc,
        Drbg.seeded,
        Drbg.sources,
        ENTROPY_SOURCES,
    ],
    writes=[Drbg.seed, Drbg.weak, Drbg.seeded, Drbg.sources],
    calls=[drbg_mix, entropy_judge, log_write],
    indirect=lambda: (entropy_rdseed, entropy_rdrand, rng_gather),
    saves=[RBX],
    source="firmware/docs/entropy.md; decision 29",
)
def entropy_gather(a: Asm) -> None:
    """Mix every source into the generator, and say which were credited; may be repeated."""
    g, states, source = DRBG.it, Drbg.at(RSI), EBX
    # What tells nodes and boots apart comes first, so that entropy meets a changed key.
    a.rdtsc64()
    a.mov(g.seed.m64(0), RAX)
    a.mov(EAX, NETWORK.it.mac.m32(0))
    a.mov(g.seed.m32(8), EAX)
    a.movzx(EAX, NETWORK.it.mac.m16(4))
    a.mov(g.seed.m32(12), EAX)
    a.mov(RAX, CLOCK.it.unix_time)
    a.mov(g.seed.m64(16), RAX)
    a.mov(RAX, CLOCK.it.boot_tsc)
    a.mov(g.seed.m64(24), RAX)
    a.call(drbg_mix)
    a.cmp(g.seeded, 0)
    with a.if_(E):
        a.mov(g.weak, 1)

    a.xor(source, source)
    with a.loop() as each:
        next_, failed, mix = a.label("next"), a.label("failed"), a.label("mix")
        a.lea(RAX, ENTROPY_SOURCES.address)
        a.lea(RDI, g.seed.address)  # zeroed by drbg_mix
        a.call_indirect(mem64(RAX, index=RBX, scale=8, ref=ENTROPY_SOURCES))
        a.lea(RSI, DRBG.address)
        a.cmp(EAX, Gathered.BROKEN)
        a.j(E, failed)
        with a.if_(AE):
            a.mov(states.sources.m8(index=RBX), SourceState.ABSENT)
            a.jmp(next_)
        a.call(entropy_judge)
        a.lea(RSI, DRBG.address)
        a.j(C, failed)
        a.mov(states.sources.m8(index=RBX), SourceState.CREDITED)
        a.mov(g.weak, 0)
        a.jmp(mix)
        a.place(failed)
        a.mov(AL, states.sources.m8(index=RBX))
        a.mov(states.sources.m8(index=RBX), SourceState.FAILED)
        a.cmp(AL, SourceState.FAILED)
        with a.if_(NE):
            a.mov(EDX, source)
            log(a, ENTROPY_FAILED)
        # Whatever it gave: it cannot take away what is there already.
        a.place(mix)
        a.call(drbg_mix)
        a.place(next_)
        a.inc(source)
        a.cmp(source, len(EntropySource))
        a.again(B, each)
    a.inc(g.seeded)
    a.movzx(EDX, g.sources.m8(EntropySource.RDSEED))
    a.movzx(ECX, g.sources.m8(EntropySource.RDRAND))
    a.movzx(R8D, g.sources.m8(EntropySource.VIRTIO_RNG))
    log(a, ENTROPY_GATHERED)
    a.ret()
