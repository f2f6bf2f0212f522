"""Answers to strangers."""

from emulator.effects import World, model
from firmware.layouts.net import NET
from firmware.layouts.node import CORE

PER_TURN = 16


@model
def net_answer(w: World) -> int:
    """Sixteen in a turn; a turn is known by its time."""
    net, now = w.g(NET), w.g(CORE).now
    given = net.answers if net.answers_at == now else 0
    if net.answers_at != now:
        net.answers_at, net.answers = now, 0
    if given >= PER_TURN:
        net.counters.answers_held += 1
        return 1
    net.answers = given + 1
    return 0
