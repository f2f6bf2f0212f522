"""Operator commands on the serial line: one line each, for a single node (decision 19)."""

from __future__ import annotations

from toolchain.layout import Global, Struct, bytes_, u32, u64
from toolchain.layout.data import constant

CONSOLE_LINE_MAX = 64
CONSOLE_BURST = 64
"""Bytes taken from the port in one turn."""
BAD_QUIET_MS = 1000
"""Bad commands are logged once in this time: noise on the line must not drive other lines out."""
NO_PORT = 0xFF
"""What the line status reads when there is no port."""


class Console(Struct):
    """The line that is being typed."""

    SIZE = 0x60
    length = u32(0x00, "bytes of `line` so far; CONSOLE_LINE_MAX + 1 = too long, skip to its end")
    quiet_until = u64(0x08, "TSC before which another bad command is not logged")
    line = bytes_(0x10, CONSOLE_LINE_MAX, "without its end")


CONSOLE = Global("console", Console, "the line that is being typed")

LEASE_ARM = b"lease arm "
LEASE_RENEW = b"lease renew "
LEASE_EXPIRE = b"lease expire"
TEXT_LEASE_ARM = constant("text_lease_arm", LEASE_ARM, "command: take a grant of so many ms")
TEXT_LEASE_RENEW = constant("text_lease_renew", LEASE_RENEW, "command: move the deadline")
TEXT_LEASE_EXPIRE = constant("text_lease_expire", LEASE_EXPIRE, "command: expire now")
