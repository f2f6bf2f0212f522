"""The operator's serial line."""

from emulator.effects import World, model
from emulator.models.log import log_write
from emulator.models.node.lease import expire_lease, lease_grant, lease_tick
from firmware.layouts.console import (
    BAD_QUIET_MS,
    CONSOLE,
    CONSOLE_BURST,
    CONSOLE_LINE_MAX,
    LEASE_ARM,
    LEASE_EXPIRE,
    LEASE_RENEW,
    NO_PORT,
)
from firmware.layouts.log import LEASE_BAD_COMMAND, LEASE_GRANTED
from firmware.layouts.node import CLOCK, CORE, LEASE

COM1, LINE_STATUS = 0x3F8, 0x3FD


@model
def parse_milliseconds(w: World, digits: int, count: int) -> tuple[int, int]:
    """Decimal, 1 to 2**32 - 1."""
    text = w.read(digits, count) if count else b""
    if not text or not all(0x30 <= c <= 0x39 for c in text):
        return 1, 0
    value = int(text)
    return (0, value) if 1 <= value <= 2**32 - 1 else (1, 0)


def _number(w: World, prefix: bytes) -> int:
    console = w.g(CONSOLE)
    bad, value = parse_milliseconds(
        w, console.line.address + len(prefix), console.length - len(prefix)
    )
    return 0 if bad else value


@model
def console_command(w: World) -> None:
    """Arm takes a grant, renew moves the deadline of a valid one, expire ends it now.

    Without a clock a span has no length, and nothing can be granted.
    """
    lease_tick(w)
    console, lease, now = w.g(CONSOLE), w.g(LEASE), w.g(CORE).now
    cycles = w.g(CLOCK).tsc_cycles_per_ms
    line = console.line[0 : console.length] if console.length <= CONSOLE_LINE_MAX else b""
    if line.startswith(LEASE_ARM):
        span = _number(w, LEASE_ARM) * cycles % 2**64
        if span:
            lease_grant(w, (now + span) % 2**64)
            return
    elif line.startswith(LEASE_RENEW):
        span = _number(w, LEASE_RENEW) * cycles % 2**64
        if span and not lease.expired:
            lease.deadline = now + span
            log_write(w, 0, LEASE_GRANTED, lease.generation, span, 0, 0)
            return
    elif line == LEASE_EXPIRE and not lease.expired:
        lease.deadline = now
        expire_lease(w)
        return
    if now >= console.quiet_until:
        console.quiet_until = now + cycles * BAD_QUIET_MS
        log_write(w, 0, LEASE_BAD_COMMAND, console.length, 0, 0, 0)


@model
def console_poll(w: World) -> None:
    """Carriage returns are ignored; a line that is too long is one bad command."""
    console = w.g(CONSOLE)
    for _ in range(CONSOLE_BURST):
        status = w.port_in(LINE_STATUS)
        if status == NO_PORT or not status & 1:
            return
        byte = w.port_in(COM1)
        if byte == ord("\n"):
            console_command(w)
            console.length = 0
            return
        if byte == ord("\r"):
            continue
        if console.length < CONSOLE_LINE_MAX:
            console.line[console.length] = byte
            console.length += 1
        else:
            console.length = CONSOLE_LINE_MAX + 1
