"""The value of `ctl.plan`: mode, numbers, and the ranges of its slots."""

from firmware.fleet.grammar import format_take, four, numbers_take, small_take, within
from firmware.fleet.tokens import PLUS, SPACE, TEXT, number_take, word_take
from firmware.layouts.bus import FLEET_SHARDS_MAX
from firmware.layouts.fleet import (
    DURATION_MAX_MS,
    DURATION_MIN_MS,
    FLEET_SLOTS_MAX,
    PlanMode,
    PlanRange,
    PlanView,
)
from firmware.layouts.permit import PERMITS_MAX
from firmware.layouts.plan import TOTAL_MAX
from toolchain.asm import (
    CF,
    EAX,
    ECX,
    EDX,
    NE,
    R8,
    R9,
    R10,
    R10D,
    R12,
    R12D,
    R13,
    R14,
    R14D,
    RAX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    B,
    C,
    E,
    In,
    Out,
    Reg32,
    Reg64,
    mem8,
    mem32,
    routine,
)

_PLAN_NUMBERS = ("epoch", "total", "max_concurrency", "duration_ms", "slots")


@routine(
    inputs=[
        In(RSI, int, "a value of ctl.plan"),
        In(ECX, int, "its bytes"),
        In(RDX, PlanView, "where it goes"),
    ],
    outputs=[Out(CF, "1 = it cannot be read: the mode is UNKNOWN")],
    clobbers=[RAX, RCX, RDX, RSI, RDI, R8, R9, R10],
    reads=[TEXT, PlanRange.start],
    writes=[
        PlanView.mode,
        PlanView.epoch,
        PlanView.total,
        PlanView.max_concurrency,
        PlanView.duration_ms,
        PlanView.slots,
        PlanRange.start,
        PlanRange.count,
    ],
    calls=[number_take, word_take],
    saves=[R12, R13, R14],
    stack=24,
    source="firmware/docs/fleet.md#records",
)
def plan_record(a: Asm, text: Reg64, size: Reg32, plan: PlanView) -> None:
    """Read a plan; its mode is written last, and without one nothing of it counts."""
    plan, mode, covered = PlanView.at(R13), R14D, R10D
    number = {name: a.local(4, 4 * n) for n, name in enumerate(_PLAN_NUMBERS)}
    bad = a.label("bad")
    a.mov(R13, RDX)
    a.mov(plan.mode, PlanMode.UNKNOWN)
    format_take(a, text, size, bad)
    a.call(word_take)
    a.j(C, bad)
    a.mov(mode, PlanMode.ACTIVE)
    with a.block() as known:
        active = a.label("active")
        a.cmp(ECX, len(b"active"))
        a.j(E, active)
        a.mov(mode, PlanMode.DRAIN)
        a.cmp(ECX, len(b"drain"))
        a.j(NE, bad)
        a.cmp(mem32(RDI, ref=TEXT), four(b"drai"))
        a.j(NE, bad)
        a.cmp(mem8(RDI, 4, ref=TEXT), ord("n"))
        a.j(NE, bad)
        a.jmp(known)
        a.place(active)
        a.cmp(mem32(RDI, ref=TEXT), four(b"acti"))
        a.j(NE, bad)
        a.cmp(mem32(RDI, 2, ref=TEXT), four(b"tive"))
        a.j(NE, bad)
    numbers_take(a, len(_PLAN_NUMBERS), bad)
    for name, least, most in (
        ("total", 1, TOTAL_MAX),
        ("max_concurrency", 1, PERMITS_MAX),
        ("duration_ms", DURATION_MIN_MS, DURATION_MAX_MS),
        ("slots", 1, FLEET_SLOTS_MAX),
    ):  # fmt: skip - four bounds, unrolled
        a.mov(EAX, number[name])
        within(a, least, most, bad)

    # Ranges in ascending order, so that no shard is in two of them.
    shards = PlanRange.at(RDI)
    a.lea(RDI, plan.ranges.address)
    a.xor(covered, covered)
    a.xor(R12D, R12D)
    with a.loop() as ranges:
        a.mov(EDX, PLUS)
        small_take(a, bad)
        a.cmp(EAX, covered)
        a.j(B, bad)
        a.mov(shards.start, EAX)
        a.mov(EDX, SPACE)
        small_take(a, bad)
        a.mov(shards.count, EAX)
        within(a, 1, FLEET_SHARDS_MAX, bad)
        a.mov(covered, shards.start)
        a.mov(ECX, covered)
        a.add(RCX, RAX)
        a.mov(covered, ECX)
        a.mov(EAX, number["total"])
        a.cmp(RCX, RAX)
        a.j(A, bad)
        a.add(RDI, PlanRange.SIZE)
        a.inc(R12D)
        a.cmp(R12D, number["slots"])
        a.again(B, ranges)
    a.cmp(RSI, R8)
    a.j(NE, bad)
    for name in _PLAN_NUMBERS:  # unrolled: five numbers
        a.mov(EAX, number[name])
        a.mov(getattr(plan, name), EAX)
    a.mov(plan.mode, mode)
    a.clc()
    a.ret()
    a.place(bad)
    a.stc()
    a.ret()
