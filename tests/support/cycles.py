"""Core cycles of a routine on this processor: the least of many short batches.

Other work on the machine only ever adds, so the least is the figure. The time-stamp counter has a
rate of its own; a chain of multiplications of known length tells core cycles from its ticks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firmware.abi import CALLER_SAVED
from firmware.crypto.limbs import LEAF_SAVES
from tests.support.processor import Processor
from toolchain.asm import (
    NZ,
    R12,
    R13,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    In,
    Out,
    Reg64,
    Region,
    mem64,
    routine,
)
from toolchain.asm.registers import WHOLE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.support.lab import Lab
    from toolchain.asm import Routine

ARGUMENTS = Region("the arguments", "one quadword for each input of the routine")
CHAIN, CHAIN_CYCLES = 1000, 3
"""Multiplications that wait for each other; each takes three cycles on every processor since 2008."""
BATCHES, BATCH_TICKS = 300, 100_000


def _declared(body: Callable[..., None], target: Routine | None) -> Routine:
    return routine(
        inputs=[In(RDI, int, "the arguments"), In(RSI, int, "how many times")],
        outputs=[Out(RAX, "ticks")],
        clobbers=CALLER_SAVED,
        reads=[ARGUMENTS] if target is not None and target.contract.inputs else [],
        calls=[target] if target is not None else [],
        saves=LEAF_SAVES,
        stack=24,
        guard=True,
        source="none",
    )(body)


def timed(target: Routine) -> Routine:
    """Return a routine that calls the target so many times and returns the ticks that it took."""

    def body(a: Asm, arguments: Reg64, count: Reg64) -> None:
        """Take the time of some calls; the target may change every register."""
        a.mov(a.local(8, 0), count)
        a.mov(a.local(8, 8), arguments)
        _start(a)
        with a.loop() as calls:
            a.mov(RAX, a.local(8, 8))
            for n, i in enumerate(target.contract.inputs):
                a.mov(WHOLE[i.reg.full], mem64(RAX, 8 * n, ref=ARGUMENTS))
            a.call(target)
            a.mov(RCX, a.local(8, 0))
            a.dec(RCX)
            a.mov(a.local(8, 0), RCX)
            a.again(NZ, calls)
        _stop(a)

    body.__name__ = f"timed_{target.name}"
    return _declared(body, target)


def _start(a: Asm) -> None:
    a.lfence()
    a.rdtsc64()
    a.mov(a.local(8, 16), RAX)


def _stop(a: Asm) -> None:
    a.rdtscp()
    a.shl(RDX, 32)
    a.or_(RAX, RDX)
    a.sub(RAX, a.local(8, 16))
    a.ret()


def _chain() -> Routine:
    def timed_chain(a: Asm, arguments: Reg64, count: Reg64) -> None:
        """Take the time of multiplications that wait for each other."""
        a.mov(R12, count)
        a.mov(R13, arguments)
        _start(a)
        with a.loop() as calls:
            for _ in range(CHAIN):  # unrolled: the loop costs nothing against it
                a.imul(R13, R13)
            a.dec(R12)
            a.again(NZ, calls)
        a.mov(RBX, R13)
        a.mov(a.local(8, 0), RBX)
        _stop(a)

    return _declared(timed_chain, None)


CHAINED = _chain()


def _ticks(
    lab: Lab, measured: Routine, arguments: Sequence[int], memory: Sequence[tuple[int, bytes]]
) -> float:
    """Return the least ticks of one call, over BATCHES batches."""
    at = lab.machine.alloc(8 * max(len(arguments), 1))
    lab.machine.write(at, b"".join(n.to_bytes(8, "little") for n in arguments))
    for address, contents in memory:
        lab.machine.write(address, contents)
    processor = Processor(lab, seconds=60)

    def least(count: int, batches: int) -> int:
        call = processor.call(measured, arguments=at, count=count)
        return min(result.registers[0] for result in processor.run([call] * batches))

    count = max(1, BATCH_TICKS // max(least(1, 20), 1))
    return least(count, BATCHES) / count


def cycles(
    lab: Lab,
    measured: Routine,
    memory: Sequence[tuple[int, bytes]] = (),
    **inputs: int,
) -> float:
    """Return the core cycles of one call, the loads of its arguments included.

    Args:
        lab: In whose memory `measured`, made by `timed`, and CHAINED are linked.
        measured: What is measured.
        memory: Set before.
        inputs: The inputs of the target.
    """
    (target,) = measured.contract.calls
    if set(inputs) != set(target.parameters):
        raise TypeError(f"{target.name} takes {target.parameters}, got {tuple(inputs)}")
    ticks = _ticks(lab, measured, [inputs[name] for name in target.parameters], memory)
    return ticks * CHAIN * CHAIN_CYCLES / _ticks(lab, CHAINED, [], ())
