"""An operation on a lease."""

from emulator.effects import World, model
from emulator.models.crypto.drbg import drbg_u64
from emulator.models.fleet.cas import cas_send
from emulator.models.fleet.texts import lease_text
from firmware.layouts.fleet import (
    FLEET,
    OPS_MAX,
    HeldSlot,
)
from firmware.layouts.node import CLOCK

WORD = 2**64


@model
def jitter(w: World, milliseconds: int) -> int:
    """Uniform below the span."""
    span = milliseconds * w.g(CLOCK).tsc_cycles_per_ms % WORD
    return int(drbg_u64(w) * span // WORD)


@model
def op_send(w: World, held: int, expected: int) -> int:
    """The time comes before the bytes."""
    slot, fleet = w.view(HeldSlot, held), w.g(FLEET)
    sent = w.rdtsc()
    fleet.op += 1
    number = int(fleet.op)
    lease_text(w, held, number, 1)
    refused, inbox = cas_send(w, expected)
    if refused:
        return 1
    place = slot.ops_next % OPS_MAX
    slot.ops_next = place + 1
    op = slot.ops[place]
    op.sent_at, op.op, op.inbox = sent, number, inbox
    slot.sent_at, slot.last_op = sent, number
    slot.retry_at = jitter(w, 400) + 600 * w.g(CLOCK).tsc_cycles_per_ms + sent
    return 0
