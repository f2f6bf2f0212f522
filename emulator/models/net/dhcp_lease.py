"""Leases."""

from emulator.effects import World, model
from emulator.models.crypto.drbg import drbg_u64
from emulator.models.net.arp import cycles
from firmware.layouts.clock import NEVER
from firmware.layouts.net import (
    DHCP,
    DHCP_OPTIONS,
    LEASE_DEFAULT_S,
    LEASE_MAX_S,
    LEASE_MIN_S,
    NET,
    DhcpMessage,
    DhcpOption,
    DhcpState,
)
from firmware.layouts.node import CORE, NETWORK

FOR_EVER = 0xFFFF_FFFF


@model
def dhcp_enter(w: World, state: int) -> None:
    """A new exchange begins now."""
    dhcp, now = w.g(DHCP), w.g(CORE).now
    dhcp.state = state
    dhcp.xid = drbg_u64(w)
    dhcp.attempt = 0
    dhcp.next_at = dhcp.begun = now


@model
def dhcp_lose(w: World) -> None:
    """No address any more."""
    w.g(NETWORK).configured = 0
    w.g(NETWORK).ip = 0
    dhcp_enter(w, DhcpState.SELECTING)


@model
def dhcp_instant(w: World, seconds: int) -> int:
    """Now and so many seconds."""
    return int(w.g(CORE).now + seconds * cycles(w, 1000)) % 2**64


def spans(lease: int, t1: int, t2: int) -> tuple[int, int]:
    """Return T1 and T2 with 0 < T1 < T2 < lease, whatever the server said."""
    if not 0 < t2 < lease:
        t2 = lease - lease // 8
    if not 0 < t1 < t2:
        t1 = lease // 2 if lease // 2 < t2 else t2 // 2
    return t1, t2


@model
def dhcp_adopt(w: World, message: int) -> None:
    """What the ACK says replaces what we had; what it does not say stays."""
    dhcp, network, found = w.g(DHCP), w.g(NETWORK), w.g(DHCP_OPTIONS)

    def seen(option: DhcpOption) -> bool:
        return bool(found.seen >> option & 1)

    network.ip = w.view(DhcpMessage, message).yiaddr
    if seen(DhcpOption.NETMASK):
        network.netmask = found.netmask
    if seen(DhcpOption.ROUTER):
        network.router = found.router
    if seen(DhcpOption.DNS1):
        network.dns1, network.dns2 = found.dns1, found.dns2
    if seen(DhcpOption.SERVER):
        dhcp.server = found.server
    if dhcp.server == 0:
        dhcp.server = w.view(DhcpMessage, message).siaddr
    network.server_id = dhcp.server
    lease = max(found.lease, LEASE_MIN_S) if seen(DhcpOption.LEASE) else LEASE_DEFAULT_S
    network.lease_seconds = lease
    if lease == FOR_EVER:
        dhcp.t1_at = dhcp.t2_at = dhcp.expires_at = NEVER
    else:
        lease = min(lease, LEASE_MAX_S)
        t1, t2 = spans(lease, found.t1, found.t2)
        dhcp.t1_at = dhcp_instant(w, t1)
        dhcp.t2_at = dhcp_instant(w, t2)
        dhcp.expires_at = dhcp_instant(w, lease)
    network.configured = 1
    dhcp.state = DhcpState.BOUND
    w.g(NET).next_check = 0
    dhcp.acks += 1
