"""The values of `ctl.`: strict texts. One that breaks the grammar or a bound is no record at all."""

from firmware.fleet.tokens import PLUS, SPACE, TEXT, number_take, text_differs, word_take
from firmware.layouts.bus import BUS, FLEET_SHARDS_MAX, Bus
from firmware.layouts.fleet import (
    BOOT_CHARS,
    BOOT_DIGITS,
    DURATION_MAX_MS,
    DURATION_MIN_MS,
    FLEET_SLOTS_MAX,
    NAME_CHARS,
    NOBODY,
    RECORD_FORMAT,
    BudgetView,
    Holder,
    PlanMode,
    PlanRange,
    PlanView,
    SlotState,
    SlotView,
)
from firmware.layouts.fleet_config import NAME_MAX
from firmware.layouts.permit import PERMITS_MAX
from firmware.layouts.plan import TOTAL_MAX
from toolchain.asm import (
    AL,
    CF,
    EAX,
    ECX,
    EDX,
    NE,
    NZ,
    R8,
    R9,
    R10,
    R10D,
    R11,
    R11D,
    R12,
    R12D,
    R13,
    R13D,
    R14,
    R14D,
    R15,
    R15D,
    RAX,
    RBP,
    RCX,
    RDI,
    RDX,
    RSI,
    RSP,
    A,
    Asm,
    B,
    C,
    E,
    In,
    Label,
    Out,
    Reg32,
    Reg64,
    Region,
    Z,
    mem8,
    mem32,
    mem64,
    routine,
)
from toolchain.asm.assembler import STACK
from toolchain.layout.data import constant

NAME_CHAR, BOOT_CHAR = 1, 2
CHARS = constant(
    "fleet_chars",
    bytes(NAME_CHAR * (c in NAME_CHARS) | BOOT_CHAR * (c in BOOT_CHARS) for c in range(256)),
    "what may stand in a node's name, and in a boot",
)
COMPUTED = Region("nothing", "LEA only computes")
_LEASE_NUMBERS = ("generation", "op", "duration_ms", "epoch", "start", "count", "total")
_PLAN_NUMBERS = ("epoch", "total", "max_concurrency", "duration_ms", "slots")


def four(text: bytes) -> int:
    """Return four characters as a doubleword compares them."""
    return int.from_bytes(text, "little")


def format_take(a: Asm, text: Reg64, size: Reg32, bad: Label) -> None:
    """R8 := the end, EDX := the separator; the format number is passed."""
    a.mov(size, size)
    a.lea(R8, mem8(text, index=RCX, ref=TEXT))
    a.mov(EDX, SPACE)
    a.call(number_take)
    a.j(C, bad)
    a.cmp(RAX, RECORD_FORMAT)
    a.j(NE, bad)


def small_take(a: Asm, bad: Label) -> None:
    """EAX := the next number, of 32 bits. Clobbers RCX and R9."""
    a.call(number_take)
    a.j(C, bad)
    a.mov(RCX, RAX)
    a.shr(RCX, 32)
    a.j(NZ, bad)


def _numbers(a: Asm, count: int, bad: Label) -> None:
    """Take so many numbers of 32 bits into the locals; R12 counts."""
    a.xor(R12D, R12D)
    with a.loop() as each:
        small_take(a, bad)
        a.mov(mem32(RSP, index=R12, scale=4, ref=STACK), EAX)
        a.inc(R12D)
        a.cmp(R12D, count)
        a.again(B, each)


def _within(a: Asm, least: int, most: int, bad: Label) -> None:
    """Refuse an EAX that is not in least..most. Clobbers ECX."""
    a.lea(ECX, mem64(RAX, -least, ref=COMPUTED))
    a.cmp(ECX, most - least)
    a.j(A, bad)


def every_char(a: Asm, kind: int, bad: Label) -> None:
    """Refuse a word RDI of R11D bytes with a character of another kind. Clobbers RAX, R9, R11."""
    a.lea(R9, CHARS.address)
    with a.loop() as each:
        a.movzx(EAX, mem8(RDI, -1, index=R11, ref=TEXT))
        a.test(mem8(R9, index=RAX, ref=CHARS), kind)
        a.j(Z, bad)
        a.dec(R11D)
        a.again(NZ, each)


@routine(
    inputs=[
        In(RSI, int, "the text, at the node of a holder"),
        In(R8, int, "its end"),
        In(EDX, int, "the separator, SPACE"),
    ],
    outputs=[
        Out(CF, "1 = there are not two such words"),
        Out(EAX, "Holder"),
        Out(EDX, "SPACE"),
        Out(RSI, "the next token, or the end"),
    ],
    clobbers=[RCX, RDI, R9, R11],
    reads=[TEXT, CHARS, Bus.node_len],
    calls=[word_take, text_differs],
    saves=[RBP, R12, R13, R14],
    source="firmware/docs/fleet.md#records",
)
def holder_take(a: Asm, text: Reg64, end: Reg64, separator: Reg32) -> None:
    """Take node and boot of a holder, or the two dashes of nobody; tell whose they are."""
    node, node_bytes, boot = R12, R13D, R14
    bad, out, other = a.label("bad"), a.label("out"), a.label("other")
    a.call(word_take)
    a.j(C, bad)
    a.mov(node, RDI)
    a.mov(node_bytes, ECX)
    a.call(word_take)
    a.j(C, bad)
    a.mov(boot, RDI)
    a.mov(RBP, RSI)

    # Nobody: both are a dash.
    with a.block() as somebody:
        a.cmp(ECX, len(NOBODY))
        a.leave(NE, somebody)
        a.cmp(node_bytes, len(NOBODY))
        a.j(NE, bad)
        a.cmp(mem8(node, ref=TEXT), NOBODY[0])
        a.j(NE, bad)
        a.cmp(mem8(boot, ref=TEXT), NOBODY[0])
        a.j(NE, bad)
        a.xor(EAX, EAX)  # Holder.NOBODY
        a.jmp(out)
    a.cmp(ECX, BOOT_DIGITS)
    a.j(NE, bad)
    a.mov(R11D, ECX)
    every_char(a, BOOT_CHAR, bad)
    a.cmp(node_bytes, NAME_MAX)
    a.j(A, bad)
    a.mov(R11D, node_bytes)
    a.mov(RDI, node)
    every_char(a, NAME_CHAR, bad)

    a.mov(RSI, node)
    a.mov(ECX, node_bytes)
    a.lea(RDI, BUS.it.node.address)
    a.movzx(EDX, BUS.it.node_len)
    a.call(text_differs)
    a.j(C, other)
    a.mov(RSI, boot)
    a.mov(ECX, BOOT_DIGITS)
    a.lea(RDI, BUS.it.boot_text.address)
    a.mov(EDX, ECX)
    a.call(text_differs)
    a.j(C, other)
    a.mov(EAX, Holder.MINE)
    a.jmp(out)
    a.place(other)
    a.mov(EAX, Holder.OTHER)
    a.place(out)
    a.mov(RSI, RBP)
    a.mov(EDX, SPACE)
    a.clc()
    a.ret()
    a.place(bad)
    a.xor(EAX, EAX)
    a.mov(EDX, SPACE)
    a.stc()
    a.ret()


@routine(
    inputs=[
        In(RSI, int, "a value of ctl.lease.<slot>"),
        In(ECX, int, "its bytes"),
        In(RDX, SlotView, "where it goes"),
    ],
    outputs=[Out(CF, "1 = it cannot be read: the slot is ABSENT")],
    clobbers=[RAX, RCX, RDX, RSI, RDI, R8, R9, R11],
    reads=[TEXT],
    writes=[
        SlotView.state,
        SlotView.mine,
        SlotView.generation,
        SlotView.op,
        SlotView.duration_ms,
        SlotView.epoch,
        SlotView.start,
        SlotView.count,
        SlotView.total,
    ],
    calls=[number_take, word_take, holder_take],
    saves=[R12, R13, R14, R15],
    stack=32,
    source="firmware/docs/fleet.md#records",
)
def lease_record(a: Asm, text: Reg64, size: Reg32, view: SlotView) -> None:
    """Read a lease; nothing of one that cannot be read is kept."""
    view, state, holder = SlotView.at(R13), R14D, R15D
    number = {name: a.local(4, 4 * n) for n, name in enumerate(_LEASE_NUMBERS)}
    bad, bounds, held = a.label("bad"), a.label("bounds"), a.label("held")
    a.mov(R13, RDX)
    a.mov(view.state, SlotState.ABSENT)
    a.mov(view.mine, 0)
    format_take(a, text, size, bad)
    a.call(word_take)
    a.j(C, bad)
    a.cmp(ECX, 4)
    a.j(NE, bad)
    a.mov(EAX, mem32(RDI, ref=TEXT))
    a.mov(state, SlotState.HELD)
    a.cmp(EAX, four(b"held"))
    with a.if_(NE):
        a.cmp(EAX, four(b"free"))
        a.j(NE, bad)
        a.mov(state, SlotState.FREE)
    a.call(holder_take)
    a.j(C, bad)
    a.mov(holder, EAX)
    _numbers(a, len(_LEASE_NUMBERS), bad)
    a.cmp(RSI, R8)
    a.j(NE, bad)

    # A free slot has no holder and no duration, a held one has both.
    a.mov(EAX, number["duration_ms"])
    a.cmp(state, SlotState.HELD)
    a.j(E, held)
    a.or_(EAX, holder)
    a.j(NZ, bad)
    a.jmp(bounds)
    a.place(held)
    a.test(holder, holder)
    a.j(Z, bad)
    _within(a, DURATION_MIN_MS, DURATION_MAX_MS, bad)
    a.place(bounds)
    # The next claim counts one more.
    a.cmp(number["generation"], 0xFFFF_FFFF)
    a.j(E, bad)
    a.mov(EAX, number["count"])
    _within(a, 1, FLEET_SHARDS_MAX, bad)
    a.mov(EAX, number["total"])
    _within(a, 1, TOTAL_MAX, bad)
    a.mov(EAX, number["start"])
    a.mov(ECX, number["count"])
    a.add(RAX, RCX)
    a.mov(ECX, number["total"])
    a.cmp(RAX, RCX)
    a.j(A, bad)

    for name in _LEASE_NUMBERS:  # unrolled: seven numbers
        a.mov(EAX, number[name])
        a.mov(getattr(view, name), EAX)
    a.mov(EAX, state)
    a.mov(view.state, AL)
    a.cmp(holder, Holder.MINE)
    a.set(E, view.mine)
    a.clc()
    a.ret()
    a.place(bad)
    a.stc()
    a.ret()


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
    _numbers(a, len(_PLAN_NUMBERS), bad)
    for name, least, most in (
        ("total", 1, TOTAL_MAX),
        ("max_concurrency", 1, PERMITS_MAX),
        ("duration_ms", DURATION_MIN_MS, DURATION_MAX_MS),
        ("slots", 1, FLEET_SLOTS_MAX),
    ):  # fmt: skip - four bounds, unrolled
        a.mov(EAX, number[name])
        _within(a, least, most, bad)

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
        _within(a, 1, FLEET_SHARDS_MAX, bad)
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


@routine(
    inputs=[In(RSI, int, "a value of ctl.ident.<key>"), In(ECX, int, "its bytes")],
    outputs=[
        Out(CF, "1 = it cannot be read"),
        Out(EAX, "Holder"),
        Out(R10D, "number of the operation in its holder's counting"),
    ],
    clobbers=[RCX, RDX, RSI, RDI, R8, R9, R11],
    calls=[number_take, holder_take],
    saves=[R12],
    source="firmware/docs/fleet.md#records",
)
def ticket_record(a: Asm, text: Reg64, size: Reg32) -> None:
    """Read an Identify ticket: who took it last."""
    bad = a.label("bad")
    format_take(a, text, size, bad)
    a.call(holder_take)
    a.j(C, bad)
    a.mov(R12D, EAX)
    small_take(a, bad)
    a.mov(R10D, EAX)
    small_take(a, bad)  # the shard
    a.cmp(RSI, R8)
    a.j(NE, bad)
    a.mov(EAX, R12D)
    a.clc()
    a.ret()
    a.place(bad)
    a.xor(EAX, EAX)
    a.xor(R10D, R10D)
    a.stc()
    a.ret()


@routine(
    inputs=[
        In(RSI, int, "a value of ctl.budget"),
        In(ECX, int, "its bytes"),
        In(RDX, BudgetView, "where it goes"),
    ],
    outputs=[Out(CF, "1 = it cannot be read")],
    clobbers=[RAX, RCX, RDX, RSI, RDI, R8, R9, R11],
    reads=[TEXT, CHARS],
    writes=[BudgetView.remaining, BudgetView.total],
    calls=[number_take, word_take],
    saves=[R12, R13],
    stack=8,
    source="firmware/docs/fleet.md#records",
)
def budget_record(a: Asm, text: Reg64, size: Reg32, budget: BudgetView) -> None:
    """Read the session starts that are left; who wrote it does not matter."""
    budget, bad = BudgetView.at(R13), a.label("bad")
    a.mov(R13, RDX)
    format_take(a, text, size, bad)
    _numbers(a, 2, bad)
    a.call(word_take)
    a.j(C, bad)
    a.cmp(ECX, NAME_MAX)
    a.j(A, bad)
    a.mov(R11D, ECX)
    every_char(a, NAME_CHAR, bad)
    small_take(a, bad)  # the operation
    a.cmp(RSI, R8)
    a.j(NE, bad)
    a.mov(EAX, a.local(4, 0))
    a.cmp(EAX, a.local(4, 4))
    a.j(A, bad)
    a.mov(budget.remaining, EAX)
    a.mov(EAX, a.local(4, 4))
    a.mov(budget.total, EAX)
    a.clc()
    a.ret()
    a.place(bad)
    a.stc()
    a.ret()
