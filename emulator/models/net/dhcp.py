"""The DHCP client's decisions."""

from emulator.effects import World, model
from emulator.models.crypto.drbg import drbg_u64
from emulator.models.net.arp import cycles
from emulator.models.net.dhcp_lease import dhcp_adopt, dhcp_enter, dhcp_lose
from emulator.models.net.dhcp_options import dhcp_parse
from emulator.models.net.dhcp_send import dhcp_send
from emulator.models.net.ip import is_host
from firmware.layouts.clock import NEVER
from firmware.layouts.net import (
    DHCP,
    DHCP_OPTIONS,
    DHCP_TRIES,
    NET,
    DhcpMessage,
    DhcpState,
    DhcpType,
)
from firmware.layouts.node import CLOCK, CORE, NETWORK

S = DhcpState


def _expected(w: World, yiaddr: int) -> bool:
    """Whether an ACK is for the address and from the server that we asked."""
    dhcp, server = w.g(DHCP), w.g(DHCP_OPTIONS).server
    if dhcp.state == S.REQUESTING:
        return bool(yiaddr == dhcp.offered and server in (0, dhcp.server))
    mine = yiaddr == w.g(NETWORK).ip
    return bool(
        mine
        and (dhcp.state == S.REBINDING or (dhcp.state == S.RENEWING and server in (0, dhcp.server)))
    )


@model
def dhcp_input(w: World, message: int, length: int) -> None:
    """OFFER while selecting, ACK and NAK while asking; nothing else."""
    dhcp, found, counters = w.g(DHCP), w.g(DHCP_OPTIONS), w.g(NET).counters
    if dhcp_parse(w, message, length):
        counters.dhcp_bad += 1
        return
    got = w.view(DhcpMessage, message)
    state = dhcp.state
    ours = got.xid == dhcp.xid
    if ours and found.type == DhcpType.OFFER and state == S.SELECTING:
        if is_host(got.yiaddr) and found.server:
            dhcp.offered, dhcp.server = got.yiaddr, found.server
            dhcp.state, dhcp.attempt, dhcp.next_at = S.REQUESTING, 0, 0
            return
    elif ours and found.type == DhcpType.ACK and _expected(w, got.yiaddr):
        dhcp_adopt(w, message)
        return
    elif ours and found.type == DhcpType.NAK:
        chosen = found.server == dhcp.server and state in (S.REQUESTING, S.RENEWING)
        if chosen or state == S.REBINDING:
            dhcp.naks += 1
            dhcp_lose(w)
            dhcp.next_at = w.g(CORE).now + cycles(w, 1000)
            return
    counters.dhcp_others += 1


@model
def dhcp_patience(w: World) -> int:
    """Doubling seconds with jitter before a lease, halves of what is left with one."""
    dhcp, now = w.g(DHCP), w.g(CORE).now
    ends = {S.RENEWING: dhcp.t2_at, S.REBINDING: dhcp.expires_at}
    if dhcp.state in ends:
        left = (ends[dhcp.state] - now) % 2**64
        return int(now + max(left // 2, cycles(w, 60_000))) % 2**64
    jitter = drbg_u64(w) % 1024 - 512
    wait = 1000 * 2 ** min(dhcp.attempt, 6) + jitter
    return int(now + wait * w.g(CLOCK).tsc_cycles_per_ms) % 2**64


@model
def dhcp_tick(w: World) -> int:
    """RFC 2131 figure 5, driven by time."""
    dhcp, now = w.g(DHCP), w.g(CORE).now
    if not w.g(CLOCK).tsc_cycles_per_ms or dhcp.state == S.OFF:
        return NEVER
    if dhcp.state == S.BOUND:
        if now < dhcp.t1_at:
            return int(dhcp.t1_at)
        dhcp_enter(w, S.RENEWING)
    if dhcp.state == S.RENEWING and now >= dhcp.t2_at:
        dhcp_enter(w, S.REBINDING)
    if dhcp.state == S.REBINDING and now >= dhcp.expires_at:
        dhcp_lose(w)
    if now >= dhcp.next_at:
        if dhcp.state == S.REQUESTING and dhcp.attempt >= DHCP_TRIES:
            dhcp_enter(w, S.SELECTING)
        if dhcp_send(w):
            dhcp.next_at = now + cycles(w, 1000)
        else:
            dhcp.next_at = dhcp_patience(w)
            dhcp.attempt += 1
    limits = {S.RENEWING: dhcp.t2_at, S.REBINDING: dhcp.expires_at}
    return int(min(dhcp.next_at, limits.get(dhcp.state, NEVER)))


@model
def dhcp_link_up(w: World) -> None:
    """Renew a lease that can end, else start anew; nothing with a static address."""
    dhcp = w.g(DHCP)
    if dhcp.state == S.OFF or (dhcp.state >= S.BOUND and dhcp.t1_at == NEVER):
        return
    dhcp_enter(w, S.RENEWING if dhcp.state >= S.BOUND else S.SELECTING)
