"""Timers of the network."""

from emulator.effects import World, model
from emulator.models.net.arp import arp_doubt, arp_lookup, cycles
from emulator.models.net.dhcp import dhcp_link_up, dhcp_tick
from emulator.models.net.ip import ip_next_hop
from emulator.models.nic.device import nic_link, nic_watch
from firmware.layouts.clock import NEVER
from firmware.layouts.net import BROADCAST, CHECK_MS, NET
from firmware.layouts.node import CLOCK, CORE, NETWORK


@model
def net_keep(w: World, host: int) -> None:
    """Look the next hop up, unless it is everybody."""
    hop, refused = ip_next_hop(w, host)
    if not refused and hop is not None and hop != BROADCAST:
        arp_lookup(w, hop)


@model
def net_tick(w: World) -> int:
    """Card, link and neighbours twice a second, DHCP whenever it asked for."""
    net, network, now = w.g(NET), w.g(NETWORK), w.g(CORE).now
    if not w.g(CLOCK).tsc_cycles_per_ms:
        return NEVER
    if now >= net.next_check:
        net.next_check = now + cycles(w, CHECK_MS)
        nic_watch(w)
        was = network.link_up
        if nic_link(w) == was + 1:
            arp_doubt(w)
            dhcp_link_up(w)
        for host in (network.router, network.dns1, network.dns2):
            net_keep(w, host)
    return int(min(dhcp_tick(w), net.next_check))
