"""The compression of SHA-256 and SHA-512 (FIPS 180-4 6.2.2 and 6.4.2) on every processor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from firmware.crypto.sha2 import CLOBBERS, SAVES, SCHEDULE, SHA256, SHA512, Sha2
from firmware.layouts.crypto import BUFFER_IN, Hash
from toolchain.asm import (
    EAX,
    ECX,
    NZ,
    R8,
    R9,
    R10,
    R11,
    R12,
    R13,
    R14,
    R15,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    In,
    Out,
    Reg32,
    Reg64,
    routine,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from toolchain.asm import Routine
    from toolchain.asm.registers import Reg

VARIABLES = (RAX, RBX, RCX, RDX, R8, R9, R10, R11)
Amounts = tuple[int, int, int]


class Rounds:
    """The rounds of one block: who holds which variable, and where the schedule lies."""

    def __init__(self, a: Asm, kind: Sha2) -> None:
        self.a, self.kind = a, kind
        self.variables = [kind.reg(r) for r in VARIABLES]
        self.word, self.x, self.y = (kind.reg(r) for r in (R12, R13, R14))
        # The b XOR c of a round, which was the a XOR b of the round before.
        self.differ = kind.reg(R15)

    def begin(self) -> None:
        """Take the variables from the hash at RDI."""
        for n, variable in enumerate(self.variables):  # unrolled: eight words
            self.a.mov(variable, self.kind.state(n))

    def end(self) -> None:
        """Add the variables to the state of the hash at RDI, and keep them."""
        for n, variable in enumerate(self.variables):  # unrolled: eight words
            self.a.add(variable, self.kind.state(n))
            self.a.mov(self.kind.state(n), variable)

    def first_difference(self) -> None:
        """Make what the first round wants of the round before."""
        self.a.mov(self.differ, self.variables[1])
        self.a.xor(self.differ, self.variables[2])

    def wipe(self) -> None:
        """Erase the schedule: what was hashed may be a secret."""
        self.a.xor(EAX, EAX)
        for n in range(self.kind.block // 8):  # unrolled: quadwords of the schedule
            self.a.mov(self.a.local(8, 8 * n), RAX)

    def schedule(self, n: int) -> Any:  # noqa: ANN401 - Mem32 or Mem64
        """Return the schedule's word of round `n`."""
        return self.a.local(self.kind.word, n % SCHEDULE * self.kind.word)

    def turned(self, into: Any, value: Any, amounts: Amounts, _spare: Any) -> None:  # noqa: ANN401
        """Set `into` to the value turned right by each of three growing amounts, together."""
        first, second, third = amounts
        self.a.mov(into, value)
        self.a.ror(into, third - second)
        self.a.xor(into, value)
        self.a.ror(into, second - first)
        self.a.xor(into, value)
        self.a.ror(into, first)

    def mixed(self, into: Any, value: Any, amounts: Amounts) -> None:  # noqa: ANN401
        """Set `into` to the small sigma of the value, which is lost."""
        first, second, shift = amounts
        self.a.mov(into, value)
        self.a.ror(into, second - first)
        self.a.xor(into, value)
        self.a.ror(into, first)
        self.a.shr(value, shift)
        self.a.xor(into, value)

    def load(self, n: int) -> None:
        """Take word `n` of the block at RSI."""
        self.a.mov(self.word, self.kind.mem(RSI, n * self.kind.word, BUFFER_IN))
        self.a.bswap(self.word)
        self.a.mov(self.schedule(n), self.word)

    def extend(self, n: int) -> None:
        """Make the word of round `n` from those 16, 15, 7 and 2 rounds before."""
        a = self.a
        a.mov(self.y, self.schedule(n + 1))
        a.mov(self.x, self.schedule(n + 14))
        self.mixed(self.word, self.y, self.kind.mixes[0])
        self.mixed(self.y, self.x, self.kind.mixes[1])
        a.add(self.word, self.schedule(n))
        a.add(self.word, self.schedule(n + 9))
        a.add(self.word, self.y)
        a.mov(self.schedule(n), self.word)

    def take(self, into: Any, n: int) -> None:  # noqa: ANN401 - Reg32 or Reg64
        """Add word and constant of round `n`."""
        self.a.add(into, self.kind.mem(RBP, n * self.kind.word, self.kind.constants))
        self.a.add(into, self.word)

    def turn(self, n: int) -> None:
        """Do round `n` (FIPS 180-4 6.2.2 step 3); the variables move one on."""
        a, (va, vb, _, vd, ve, vf, vg, vh) = self.a, self.variables
        self.take(vh, n)
        a.mov(self.x, vf)
        a.xor(self.x, vg)
        a.and_(self.x, ve)
        a.xor(self.x, vg)
        self.turned(self.y, ve, self.kind.sums[1], self.word)
        a.add(vh, self.x)
        a.add(vh, self.y)
        a.add(vd, vh)
        # The majority is b, unless a differs from it as c does.
        a.mov(self.word, va)
        a.xor(self.word, vb)
        a.and_(self.differ, self.word)
        a.xor(self.differ, vb)
        self.turned(self.y, va, self.kind.sums[0], self.x)
        a.add(vh, self.differ)
        a.add(vh, self.y)
        self.word, self.differ = self.differ, self.word
        self.variables = [self.variables[-1], *self.variables[:-1]]


def _blocks(a: Asm, kind: Sha2) -> None:
    """Emit: mix ECX > 0 whole blocks at RSI into the hash at RDI, and leave RSI behind them."""
    rounds = Rounds(a, kind)
    blocks, left = a.local(4, kind.block), a.local(4, kind.block + 8)
    a.mov(blocks, ECX)
    rounds.begin()
    with a.loop() as block:
        a.lea(RBP, kind.constants.address)
        rounds.first_difference()
        for n in range(SCHEDULE):  # unrolled: the first sixteen rounds
            rounds.load(n)
            rounds.turn(n)
        a.mov(left, kind.rounds // SCHEDULE - 1)
        with a.loop() as more:
            a.add(RBP, SCHEDULE * kind.word)
            for n in range(SCHEDULE):  # unrolled: sixteen rounds more
                rounds.extend(n)
                rounds.turn(n)
            a.dec(left)
            a.again(NZ, more)
        rounds.end()
        a.add(RSI, kind.block)
        a.dec(blocks)
        a.again(NZ, block)
    rounds.wipe()
    a.ret()


def declared(
    kind: Sha2, name: str, emit: Callable[[Asm, Sha2], None], clobbers: Sequence[Reg]
) -> Routine:
    """Declare a variant of the compression.

    Args:
        kind: Of which hash.
        name: The routine's.
        emit: Emits its body.
        clobbers: What it changes beside the output.
    """

    def body(a: Asm, work: Hash, blocks: Reg64, count: Reg32) -> None:
        """Mix whole blocks into the state."""
        emit(a, kind)

    # Its model stands where it is emitted.
    body.__name__, body.__module__ = name, emit.__module__
    return routine(
        inputs=[
            In(RDI, Hash, "the hash"),
            In(RSI, int, f"the blocks; {kind.block} bytes each"),
            In(ECX, int, "how many; at least one"),
        ],
        outputs=[Out(RSI, "the first byte behind them")],
        clobbers=clobbers,
        reads=[Hash.state, kind.constants, BUFFER_IN],
        writes=[Hash.state],
        saves=SAVES,
        stack=kind.block + 16,
        secret=[Hash.state, BUFFER_IN],
        source="FIPS 180-4 6.2.2 and 6.4.2",
    )(body)


sha256_blocks_base = declared(SHA256, "sha256_blocks_base", _blocks, CLOBBERS)
sha512_blocks_base = declared(SHA512, "sha512_blocks_base", _blocks, CLOBBERS)
