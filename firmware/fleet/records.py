"""The values of `ctl.`: strict texts. One that breaks the grammar or a bound is no record at all."""

from firmware.fleet.grammar import (
    BOOT_CHAR,
    CHARS,
    NAME_CHAR,
    every_char,
    format_take,
    four,
    numbers_take,
    small_take,
    within,
)
from firmware.fleet.tokens import SPACE, TEXT, number_take, text_differs, word_take
from firmware.layouts.bus import BUS, FLEET_SHARDS_MAX, Bus
from firmware.layouts.fleet import (
    BOOT_DIGITS,
    DURATION_MAX_MS,
    DURATION_MIN_MS,
    NOBODY,
    BudgetView,
    Holder,
    SlotState,
    SlotView,
)
from firmware.layouts.fleet_config import NAME_MAX
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
    A,
    Asm,
    C,
    E,
    In,
    Out,
    Reg32,
    Reg64,
    Z,
    mem8,
    mem32,
    routine,
)

_LEASE_NUMBERS = ("generation", "op", "duration_ms", "epoch", "start", "count", "total")


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
    numbers_take(a, len(_LEASE_NUMBERS), bad)
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
    within(a, DURATION_MIN_MS, DURATION_MAX_MS, bad)
    a.place(bounds)
    # The next claim counts one more.
    a.cmp(number["generation"], 0xFFFF_FFFF)
    a.j(E, bad)
    a.mov(EAX, number["count"])
    within(a, 1, FLEET_SHARDS_MAX, bad)
    a.mov(EAX, number["total"])
    within(a, 1, TOTAL_MAX, bad)
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
    numbers_take(a, 2, bad)
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
