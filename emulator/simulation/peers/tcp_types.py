"""Words that the parts of the TCP peer share: states, settings, counters, sequence arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from emulator.simulation.clock import NS_PER_MS, NS_PER_S

SEQ_MASK = 0xFFFFFFFF


class State(StrEnum):
    """Connection states of RFC 9293 section 3.3.2."""

    CLOSED = "CLOSED"
    SYN_SENT = "SYN-SENT"
    SYN_RECEIVED = "SYN-RECEIVED"
    ESTABLISHED = "ESTABLISHED"
    FIN_WAIT_1 = "FIN-WAIT-1"
    FIN_WAIT_2 = "FIN-WAIT-2"
    CLOSE_WAIT = "CLOSE-WAIT"
    CLOSING = "CLOSING"
    LAST_ACK = "LAST-ACK"
    TIME_WAIT = "TIME-WAIT"


# States in which our own data or FIN may still travel.
SENDING = frozenset(
    (State.ESTABLISHED, State.CLOSE_WAIT, State.FIN_WAIT_1, State.CLOSING, State.LAST_ACK)
)
# States in which the peer's data still counts.
RECEIVING = frozenset((State.ESTABLISHED, State.FIN_WAIT_1, State.FIN_WAIT_2))


def distance(a: int, b: int) -> int:
    """Return `a - b` of two sequence numbers as a signed 32-bit number."""
    return ((a - b + 0x80000000) & SEQ_MASK) - 0x80000000


@dataclass(frozen=True, slots=True)
class TcpConfig:
    """How one side of a connection behaves; times in nanoseconds, sizes in bytes.

    Args:
        mss: largest segment we accept, offered in the SYN; None leaves the option out.
        scale: window scale shift that we offer; None leaves the option out.
        sack: offer and use selective acknowledgements (RFC 2018).
        receive_buffer: unread bytes that we hold.
        isn: initial sequence number; None takes a random one.
        rto_initial_ns: retransmission timeout before the first sample (RFC 6298: 1 s).
        rto_min_ns: lower bound; 200 ms is what large servers use.
        rto_max_ns: upper bound.
        syn_retries: retransmissions of a SYN or SYN-ACK before giving up.
        retries: retransmissions of data before giving up.
        delayed_ack_ns: 0 acknowledges at once, otherwise the longest delay (RFC 9293 3.8.6.3).
        time_wait_ns: length of TIME-WAIT.
        keepalive_ns: idle time before a keepalive probe; 0 sends none.
        initial_segments: initial congestion window in segments (RFC 6928).
        segment_size: cut our own data smaller than the MSS allows; 0 does not.
        syn_options: option bytes of our SYN or SYN-ACK as they are, for malformed ones.
        bad_ack_every_ns: shortest time between answers to unacceptable segments without data.
    """

    mss: int | None = 1460
    scale: int | None = 7
    sack: bool = True
    receive_buffer: int = 262_144
    isn: int | None = None
    rto_initial_ns: int = NS_PER_S
    rto_min_ns: int = 200 * NS_PER_MS
    rto_max_ns: int = 60 * NS_PER_S
    syn_retries: int = 5
    retries: int = 10
    delayed_ack_ns: int = 0
    time_wait_ns: int = 60 * NS_PER_S
    keepalive_ns: int = 0
    initial_segments: int = 10
    segment_size: int = 0
    syn_options: bytes | None = None
    bad_ack_every_ns: int = 500 * NS_PER_MS


@dataclass(slots=True)
class TcpStats:
    """What happened on one connection."""

    segments_in: int = 0
    segments_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    retransmitted: int = 0
    timeouts: int = 0
    fast_retransmits: int = 0
    duplicate_acks: int = 0
    out_of_order: int = 0
    unacceptable: int = 0
    challenge_acks: int = 0
    probes: int = 0
