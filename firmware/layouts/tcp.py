"""The TCP control block of one shard (RFC 9293 names), and what the node shares among them."""

from __future__ import annotations

import enum

from firmware.errors import Layer, site
from firmware.layouts.net import FIRST_PORT
from firmware.limits import SHARDS_MAX
from toolchain.asm.operands import Region
from toolchain.layout import (
    Global,
    Struct,
    array,
    be16,
    be32,
    bytes_,
    enum32,
    flags32,
    ptr,
    u8,
    u16,
    u32,
    u64,
)


class TcpState(enum.IntEnum):
    """RFC 9293 3.3.2, plus FAILED: the connection is gone and the lifecycle has to act."""

    CLOSED = 0
    SYN_SENT = 1
    ESTABLISHED = 2
    FIN_WAIT_1 = 3
    FIN_WAIT_2 = 4
    CLOSE_WAIT = 5
    CLOSING = 6
    LAST_ACK = 7
    TIME_WAIT = 8
    FAILED = 9


class TcpFlag(enum.IntFlag):
    """Bits of `TcpContext.flags`."""

    FIN_QUEUED = 1 << 0
    ACK_NOW = 1 << 1
    SYN_DUE = 1 << 2
    RETRANSMIT_DUE = 1 << 3
    RECOVERY = 1 << 4
    FIN_SEEN = 1 << 5
    SACK_OK = 1 << 6
    BLOCKED = 1 << 7


class TcpControl(enum.IntFlag):
    """Control bits of a segment (RFC 9293 3.1)."""

    FIN = 0x01
    SYN = 0x02
    RST = 0x04
    PSH = 0x08
    ACK = 0x10


class TcpOption(enum.IntEnum):
    """Option kinds (RFC 9293 3.2, RFC 7323, RFC 2018)."""

    END = 0
    NOP = 1
    MSS = 2
    SCALE = 3
    SACK_PERMITTED = 4
    SACK = 5


TCP_REFUSED = site(Layer.TCP, 1, "refused", "the server answered our SYN with a reset")
TCP_RESET = site(Layer.TCP, 2, "reset", "the server reset the connection")
TCP_TIMED_OUT = site(Layer.TCP, 3, "timed_out", "nothing we sent was acknowledged within 30 s")
TCP_KEEPALIVE = site(Layer.TCP, 4, "keepalive", "the server answered no keepalive")

HEADER_BYTES = 20
OPTIONS_MAX = 40
PROTOCOL_TCP = 6
MSS_DEFAULT = 536
"""RFC 9293 3.7.1: what a peer without an MSS option takes."""
MSS_LEAST = 64
"""An MSS below this would only multiply our headers."""
SCALE_PRESENT = 0x80
SCALE_MAX = 14
SPANS_MAX = 4
"""Islands of data beyond a hole; four fit into one SACK option (RFC 2018 3)."""
PORTS = 65536 - FIRST_PORT

RTO_INITIAL_MS = 1_000
RTO_AFTER_SYN_LOSS_MS = 3_000
"""RFC 6298 5.7."""
RTO_LEAST_MS = 200
"""RFC 6298 2.4 says SHOULD 1 s. A heartbeat is one small segment with nothing behind it, so only
the timer repairs its loss; 200 ms is what the servers at the other end use."""
RTO_MOST_MS = 60_000
BACKOFF_MOST = 6
GIVE_UP_MS = 30_000
"""User timeout (RFC 9293 3.8.3): short enough that the session can still be resumed."""
ACK_DELAY_MS = 40
"""RFC 9293 3.8.6.3 allows 500 ms."""
KEEP_IDLE_MS = 60_000
KEEP_PROBE_MS = 10_000
KEEP_PROBES = 3
CHALLENGE_MS = 500
"""RFC 5961 7: at most one challenge ACK in this time, for each connection."""
REFUSE_MS = 10
"""At most one reset for a segment that belongs to nobody in this time, for the node."""
BLOCKED_MS = 5
"""How soon a segment that found no frame or no next hop is tried again."""
TIME_WAIT_MS = 10_000
"""A new connection takes another random port, so 2 MSL would only hold the workspace."""

PAYLOAD = Region("the segment's payload", "in the received frame, bounded by its length")
RING = Region("the receive ring", "RING_BYTES at ring_base, mapped twice in a row")
TRANSMIT = Region("the transmit buffer", "TX_BYTES at tx_base")
ADDRESS = Region("an address", "arithmetic by LEA: nothing is read or written")


class TcpSpan(Struct):
    """Bytes [start, end) that arrived beyond a hole, as sequence numbers."""

    SIZE = 8
    start = u32(0x00, "first sequence number")
    end = u32(0x04, "first sequence number after it")


class TcpContext(Struct):
    """TCP page of one shard."""

    SIZE = 0x400
    state = enum32(0x00, TcpState, "see TcpState")
    error = u32(0x04, "last_error of the layer; why FAILED")
    remote_ip = u32(0x08, "network byte order as loaded from the wire")
    remote_port = u16(0x0C, "host byte order")
    local_port = u16(0x0E, "host byte order")
    flags = flags32(0x10, TcpFlag, "see TcpFlag")
    # Send sequence space (RFC 9293 3.3.1).
    iss = u32(0x14, "initial send sequence number")
    snd_una = u32(0x18, "oldest unacknowledged; the byte at tx_start")
    snd_nxt = u32(0x1C, "next to send; goes back to snd_una on a timeout")
    snd_max = u32(0x20, "one beyond the highest ever sent")
    snd_wnd = u32(0x24, "the peer's window, scaled; bytes")
    snd_wl1 = u32(0x28, "sequence of the last window update")
    snd_wl2 = u32(0x2C, "acknowledgement of the last window update")
    snd_wnd_max = u32(0x30, "largest window the peer ever offered; bytes")
    snd_mss = u32(0x34, "payload of our segments; bytes, MSS_LEAST..SEND_PAYLOAD_MAX")
    # Congestion (RFC 5681, RFC 6582); bytes.
    cwnd = u32(0x38, "congestion window")
    ssthresh = u32(0x3C, "slow start threshold")
    recover = u32(0x40, "snd_max when fast recovery began")
    # Receive sequence space.
    rcv_nxt = u32(0x44, "next expected")
    rcv_adv = u32(0x48, "right edge of the window we offered last; never moves back")
    fin_seq = u32(0x4C, "sequence of the peer's FIN while FIN_SEEN")
    # Buffers.
    tx_start = u32(0x50, "offset in the transmit buffer of snd_una")
    tx_end = u32(0x54, "offset after the last committed byte")
    ring_head = u32(0x58, "offset in the ring of the next byte to read; below RING_BYTES")
    ring_ready = u32(0x5C, "bytes in order from ring_head on")
    rtt_seq = u32(0x60, "the acknowledgement that ends the running measurement")
    retransmits = u32(0x64, "segments sent again on this connection")
    snd_scale = u8(0x68, "shift of the peer's window")
    backoff = u8(0x69, "doublings of rto")
    dup_acks = u8(0x6A, "duplicate acknowledgements in a row")
    ack_owed = u8(0x6B, "segments in order since our last acknowledgement")
    keep_tries = u8(0x6C, "keepalives without an answer")
    spans_used = u8(0x6D, "rows of spans in use")
    # Round trips (RFC 6298); TSC cycles.
    srtt = u64(0x70, "smoothed round trip; 0 = not measured")
    rttvar = u64(0x78, "its variation")
    rto = u64(0x80, "retransmission timeout before doublings")
    rtt_at = u64(0x88, "TSC when the running measurement began; 0 = none runs")
    # Deadlines; TSC, NEVER = not set.
    rtx_at = u64(0x90, "retransmit, or probe a closed window")
    give_up_at = u64(0x98, "fail unless something is acknowledged before")
    ack_at = u64(0xA0, "a delayed acknowledgement is due")
    keep_at = u64(0xA8, "the next keepalive is due")
    wait_at = u64(0xB0, "TIME_WAIT ends")
    challenge_at = u64(0xB8, "no challenge ACK before this TSC; 0 = never sent one")
    spans = array(0x100, TcpSpan, SPANS_MAX, "islands beyond rcv_nxt, disjoint; the newest last")


class TcpHeader(Struct):
    """A TCP header as on the wire (RFC 9293 3.1)."""

    SIZE = HEADER_BYTES + OPTIONS_MAX
    source = be16(0x00, "source port")
    destination = be16(0x02, "destination port")
    sequence = be32(0x04, "sequence number")
    acknowledgement = be32(0x08, "acknowledgement number; counts only with ACK")
    offset = u8(0x0C, "header length in words, times 16")
    control = u8(0x0D, "TcpControl")
    window = be16(0x0E, "window, unscaled")
    checksum = u16(0x10, "as the checksum routine returns it")
    urgent = u16(0x12, "always 0")
    options = bytes_(0x14, OPTIONS_MAX, "up to 40 bytes of options", align=4)


class TcpSegment(Struct):
    """The received segment that is being handled, parsed to host byte order."""

    SIZE = 0x38
    sequence = u32(0x00, "SEG.SEQ")
    acknowledgement = u32(0x04, "SEG.ACK")
    window = u32(0x08, "SEG.WND, unscaled")
    control = flags32(0x0C, TcpControl, "control bits")
    length = u32(0x10, "bytes of payload")
    options_length = u32(0x14, "bytes of options, at most 40")
    payload = ptr(0x18, "first byte of the payload, in the received frame")
    options = ptr(0x20, "first byte of the options")
    source_ip = u32(0x28, "who sent it, as loaded from the wire")
    source_port = u16(0x2C, "host byte order")
    destination_port = u16(0x2E, "host byte order")


class TcpPorts(Struct):
    """Who owns which local port, and what keeps resets to strangers rare."""

    SIZE = 0x4000 + 8 * SHARDS_MAX + 0x40
    owner = bytes_(
        0x0000,
        PORTS,
        "slot of the shard that last took the port; its local_port tells whether it still has it",
    )
    contexts = bytes_(0x4000, 8 * SHARDS_MAX, "ShardContext by slot; 0 = never connected", align=8)
    refuse_at = u64(0x4000 + 8 * SHARDS_MAX, "no reset to strangers before this TSC")
    refused = u64(0x4008 + 8 * SHARDS_MAX, "resets sent to strangers since boot")


class TcpIsn(Struct):
    """The keyed function behind initial sequence numbers: a ChaCha20 matrix (RFC 6528)."""

    SIZE = 0x80
    constants = bytes_(0x00, 16, "the ChaCha20 constants", align=16)
    key = bytes_(0x10, 32, "secret of this boot", align=16)
    keyed = u32(0x30, "1 = the key is drawn; block counter of the function")
    local_ip = u32(0x34, "nonce: our address")
    remote_ip = u32(0x38, "nonce: the peer's address")
    remote_port = u16(0x3C, "nonce: the peer's port")
    local_port = u16(0x3E, "nonce: our port")
    block = bytes_(0x40, 64, "what the function returned", align=16)


TCP_OUT = Global("tcp_out", TcpHeader, "header of the segment that is being sent", align=16)
TCP_IN = Global("tcp_in", TcpSegment, "the segment that is being handled", align=16)
TCP_PORTS = Global("tcp_ports", TcpPorts, "local ports of the node", align=64)
TCP_ISN = Global("tcp_isn_state", TcpIsn, "initial sequence numbers", align=64)
