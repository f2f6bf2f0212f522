"""The retransmission timer (RFC 6298)."""

from emulator.effects import World, model
from emulator.models.tcp.arithmetic import after, cycles, now, tcp_of
from firmware.layouts.clock import NEVER
from firmware.layouts.tcp import GIVE_UP_MS, RTO_LEAST_MS, RTO_MOST_MS


@model
def tcp_arm(w: World, shard: int) -> None:
    """Ring after rto * 2**backoff, at most a minute; give up 30 s after the first start."""
    tcp = tcp_of(w, shard)
    delay = (tcp.rto << tcp.backoff) % 2**64
    tcp.rtx_at = now(w) + min(delay, cycles(w, RTO_MOST_MS))
    if tcp.give_up_at == NEVER:
        tcp.give_up_at = after(w, GIVE_UP_MS)


@model
def tcp_measure(w: World, shard: int) -> None:
    """RFC 6298 2.2 and 2.3 in integers: alpha 1/8, beta 1/4, K 4."""
    tcp = tcp_of(w, shard)
    sample = min((now(w) - tcp.rtt_at) % 2**64, cycles(w, RTO_MOST_MS))
    tcp.rtt_at = 0
    if tcp.srtt == 0:
        smooth, variation = sample, sample // 2
    else:
        difference = abs(tcp.srtt - sample)
        smooth = tcp.srtt + sample // 8 - tcp.srtt // 8
        variation = tcp.rttvar + difference // 4 - tcp.rttvar // 4
    tcp.srtt, tcp.rttvar = max(smooth, 1), variation
    timeout = tcp.srtt + 4 * tcp.rttvar
    tcp.rto = min(max(timeout, cycles(w, RTO_LEAST_MS)), cycles(w, RTO_MOST_MS))
