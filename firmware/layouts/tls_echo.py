"""The TLS echo role of test builds: whom to connect to, and what it has seen."""

from __future__ import annotations

import enum

from firmware.layouts.config import HOST_MAX
from toolchain.asm.operands import Region
from toolchain.layout import Global, Struct, bytes_, enum32, u8, u16, u32, u64

TLS_ECHO_MAGIC = 0x4F45_4C54
"""`TLEO` in memory order."""
SAY_MAX = 128
ECHO_RECORD_MAX = 4_096
"""Answers go out in records that fit in the transmit buffer."""
STORE_MAX = 0x500
"""Anchors that come while the node runs, as a trust store: what one datagram surely carries."""
SHORT_RUN = 64
"""A shorter run is asked to grow first: many tiny records become few of ours."""


class TlsEchoPhase(enum.IntEnum):
    """How far the role's connection has come, on a node."""

    IDLE = 0
    RESOLVE = 1
    PREPARE = 2
    CONNECT = 3
    HANDSHAKE = 4
    SAY = 5
    TALK = 6
    END = 7


class TlsEchoControl(Struct):
    """The datagram that makes the role connect; a datagram that is a trust store replaces the node's."""

    SIZE = 0x1A8
    magic = u32(0x00, "TLS_ECHO_MAGIC; anything else is ignored")
    host_len = u32(0x04, "bytes of host, at most HOST_MAX")
    name_len = u32(0x08, "bytes of name, at most HOST_MAX")
    say_len = u32(0x0C, "bytes of say, at most SAY_MAX")
    limit = u32(
        0x10, "received bytes after which the role ends the connection; 0 = the server does"
    )
    port = u16(0x14, "TCP port, little-endian")
    quiet = u8(0x16, "1 = what comes is counted, not sent back")
    unnamed = u8(0x17, "1 = the server is not told the name (no SNI)")
    unix_time = u64(0x18, "the date from now on, Unix seconds; 0 = as it is")
    host = bytes_(0x20, HOST_MAX, "whom to connect to: a dotted quad or a name")
    name = bytes_(0xA0, HOST_MAX, "whom the certificate has to be for, and SNI")
    say = bytes_(0x120, SAY_MAX, "what the role says first")
    hybrid = u8(0x1A0, "Hybrid: what hellos say of X25519MLKEM768 from now on")


class TlsEcho(Struct):
    """State of the role. One connection at a time uses it."""

    SIZE = 0x1A0 + STORE_MAX
    dial = u32(0x00, "1 = connect to the target below")
    host_len = u32(0x04, "bytes of host")
    name_len = u32(0x08, "bytes of name")
    say_len = u32(0x0C, "bytes of say that were not said")
    limit = u32(0x10, "received bytes after which the connection ends; 0 = none")
    port = u16(0x14, "TCP port, host byte order")
    quiet = u8(0x16, "1 = what comes is not sent back")
    unnamed = u8(0x17, "1 = no SNI")
    received = u32(0x18, "bytes received on this connection")
    phase = enum32(0x1C, TlsEchoPhase, "see TlsEchoPhase")
    host = bytes_(0x20, HOST_MAX, "a dotted quad or a name")
    name = bytes_(0xA0, HOST_MAX, "for SNI and the certificate")
    say = bytes_(0x120, SAY_MAX, "what is said first")
    store = bytes_(0x1A0, STORE_MAX, "the TrustStore that came last, whole", align=8)


TLS_ECHO = Global("tls_echo", TlsEcho, "the TLS echo role")
STREAM_IN = Region("the received stream", "as many bytes as tls_readable shows")
STREAM_OUT = Region("the stream being sent", "as many bytes as were reserved")
