"""The WebSocket echo role of test builds: its one message buffer, and whom to dial."""

from __future__ import annotations

import enum

from firmware.layouts.config import HOST_MAX, PATH_MAX
from toolchain.asm.operands import Region
from toolchain.layout import Data, Global, Struct, bytes_, enum32, u16, u32

ECHO_MESSAGE_MAX = 65_536
"""The longest message that suites expect a client to echo (1.1.8, 10.1.1)."""
ECHO_MAGIC = 0x4F48_4345
"""`ECHO` in memory order."""
ECHO_FRAGMENT_MAX = 4_096
"""Echoes go out in fragments that fit in the transmit buffer."""


class EchoState(enum.IntEnum):
    """What the role does with its message."""

    READING = 0
    SENDING = 1


class EchoPhase(enum.IntEnum):
    """How far the role's connection has come, on a node."""

    IDLE = 0
    RESOLVE = 1
    CONNECT = 2
    TALK = 3
    END = 4


class EchoControl(Struct):
    """The datagram that makes the role dial: magic, then the target."""

    SIZE = 0x190
    magic = u32(0x00, "ECHO_MAGIC; anything else is ignored")
    host_len = u32(0x04, "bytes of host, at most HOST_MAX")
    path_len = u32(0x08, "bytes of path, at most PATH_MAX")
    port = u16(0x0C, "TCP port, little-endian")
    host = bytes_(0x10, HOST_MAX, "a dotted quad or a name")
    path = bytes_(0x90, PATH_MAX, "path and query of the request")


class Echo(Struct):
    """State of the role. One connection at a time uses it."""

    SIZE = 0x200
    state = enum32(0x00, EchoState, "see EchoState")
    length = u32(0x04, "bytes of the message in the buffer")
    sent = u32(0x08, "bytes of it that were sent")
    opcode = u32(0x0C, "opcode of its next frame; 0 after the first")
    messages = u32(0x10, "messages echoed on this connection")
    dial = u32(0x14, "set to 1 from outside: connect to the target below")
    verdicts = u32(0x18, "connections that ended")
    phase = enum32(0x1C, EchoPhase, "see EchoPhase")
    host_len = u32(0x20, "bytes of host")
    path_len = u32(0x24, "bytes of path")
    port = u16(0x28, "TCP port, host byte order")
    dials = u32(0x2C, "connections tried for this target")
    host = bytes_(0x40, HOST_MAX, "for the Host field; a dotted quad or a name")
    path = bytes_(0xC0, PATH_MAX, "path and query of the request")


ECHO = Global("echo", Echo, "the echo role")
ECHO_BUFFER = Data("echo_buffer", ECHO_MESSAGE_MAX, doc="the message that is echoed", align=64)
BUFFER = Region("the echo buffer", "ECHO_MESSAGE_MAX bytes of node memory")
