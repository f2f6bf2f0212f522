"""Answers to compare-and-swaps."""

from typing import Any

from emulator.effects import World, model
from emulator.models.fleet.held import entries, held_grant
from emulator.models.fleet.tokens import key_find, key_number
from emulator.models.log import log_write
from firmware.fleet.answer import NAMED
from firmware.layouts.bus import BUS_IN
from firmware.layouts.fleet import (
    FLEET,
    OPS_MAX,
    HeldPhase,
)
from firmware.layouts.log import FLEET_RELEASED


@model
def answer_read(w: World) -> tuple[int, int]:
    """A sequence above zero, no error, and the stream's name."""
    message = w.g(BUS_IN)
    at, end = message.body, message.body + message.body_len
    taken = not message.status and key_find(w, at, end, w.address("fleet_error_key"), 8)[0]
    if taken and not key_find(w, at, end, w.address(NAMED), NAMED.size)[0]:
        missing, sequence = key_number(w, at, end, w.address("fleet_seq_key"), 6)
        if not missing and sequence:
            return 0, sequence
    w.g(FLEET).refused += 1
    return 1, 0


def _asked(w: World, inbox: int) -> tuple[Any, Any] | None:
    """Return the entry, and the operation unless the release was asked for."""
    for held in entries(w):
        if held.phase in (HeldPhase.NONE, HeldPhase.GONE):
            continue
        if held.phase == HeldPhase.RELEASING and held.release_inbox == inbox:
            return held, None
        for n in range(OPS_MAX):
            if held.ops[n].op and held.ops[n].inbox == inbox:
                return held, held.ops[n]
    return None


@model
def lease_answered(w: World, inbox: int) -> int:
    """A grant, the end of a release, or no news."""
    found = _asked(w, inbox)
    if found is None:
        return 1
    held, op = found
    refused, revision = answer_read(w)
    if refused:
        return 0
    if op is not None:
        held_grant(w, held.address_, op.address_, revision, 0)
    else:
        held.phase = HeldPhase.NONE
        log_write(w, 0, FLEET_RELEASED, held.slot, held.generation, 1, 0)
    return 0
