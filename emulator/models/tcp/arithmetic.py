"""Words that the TCP models share."""

from typing import Any

from emulator.effects import World
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.shard import ShardContext

SPACE = 1 << 32


def later(a: int, b: int) -> int:
    """Return how far sequence number `a` lies beyond `b`; negative when before (RFC 9293 3.4)."""
    return (a - b + SPACE // 2) % SPACE - SPACE // 2


def tcp_of(w: World, shard: int) -> Any:  # noqa: ANN401 - a View by field
    """Return the control block of a shard."""
    return w.view(ShardContext, shard).tcp


def now(w: World) -> int:
    """Return the TSC of the turn."""
    return int(w.g(CORE).now)


def after(w: World, milliseconds: int) -> int:
    """Return the TSC a time from now."""
    return (now(w) + cycles(w, milliseconds)) % 2**64


def cycles(w: World, milliseconds: int) -> int:
    """Return a time in TSC cycles."""
    return int(w.g(CLOCK).tsc_cycles_per_ms) * milliseconds % 2**64
