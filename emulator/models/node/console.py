"""The operator's serial line."""

from emulator.effects import World, model
from emulator.models.log import log_write
from emulator.models.node.lease_orders import lease_arm, lease_end, lease_renew
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
from firmware.layouts.control import ControlResult
from firmware.layouts.log import LEASE_BAD_COMMAND
from firmware.layouts.node import CLOCK, CORE

COM1, LINE_STATUS = 0x3F8, 0x3FD


@model
def parse_milliseconds(w: World, digits: int, count: int) -> tuple[int, int]:
    """Decimal, 1 to 2**32 - 1."""
    text = w.read(digits, count) if count else b""
    if not text or not all(0x30 <= c <= 0x39 for c in text):
        return 1, 0
    value = int(text)
    return (0, value) if 1 <= value <= 2**32 - 1 else (1, 0)


def _milliseconds(w: World, prefix: bytes) -> int | None:
    console = w.g(CONSOLE)
    digits, count = console.line.address + len(prefix), console.length - len(prefix)
    bad, value = parse_milliseconds(w, digits, count)
    return None if bad else value


def _obey(w: World) -> ControlResult:
    """Say what became of the line."""
    console = w.g(CONSOLE)
    line = console.line[0 : console.length] if console.length <= CONSOLE_LINE_MAX else b""
    for prefix, order in ((LEASE_ARM, lease_arm), (LEASE_RENEW, lease_renew)):
        if line.startswith(prefix):
            span = _milliseconds(w, prefix)
            return ControlResult.ARGUMENT if span is None else ControlResult(order(w, span))
    return ControlResult(lease_end(w)) if line == LEASE_EXPIRE else ControlResult.VERB


@model
def console_command(w: World) -> None:
    """A line that is no order, or whose order was refused, is logged; once a second at most."""
    console, now, result = w.g(CONSOLE), w.g(CORE).now, _obey(w)
    if result != ControlResult.DONE and now >= console.quiet_until:
        console.quiet_until = now + w.g(CLOCK).tsc_cycles_per_ms * BAD_QUIET_MS
        log_write(w, 0, LEASE_BAD_COMMAND, console.length, result, 0, 0)


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
