"""Time for the network: link, router's neighbour entry, DHCP, DNS."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.clock import NEVER
from firmware.layouts.net import BROADCAST, CHECK_MS, NET, NetState
from firmware.layouts.node import CLOCK, NETWORK, Clock, CoreState, Network, core
from firmware.net.arp import arp_doubt, arp_lookup, cycles
from firmware.net.dhcp import dhcp_link_up, dhcp_tick
from firmware.net.ip import ip_next_hop
from firmware.nic.device import nic_link, nic_watch
from toolchain.asm import AE, EAX, EBX, EDX, RAX, RBX, RCX, Asm, B, E, In, Out, Reg32, Z, routine


@routine(
    inputs=[In(EDX, int, "host that we mean to reach; 0 = none")],
    clobbers=CALLER_SAVED,
    calls=[ip_next_hop, arp_lookup],
    source="firmware/docs/network.md#neighbours",
)
def net_keep(a: Asm, host: Reg32) -> None:
    """Keep the way to a host known, so that the first packet need not wait."""
    with a.block() as done:
        a.call(ip_next_hop)
        a.leave(B, done)
        a.cmp(EDX, BROADCAST)
        a.leave(E, done)
        a.call(arp_lookup)
    a.ret()


@routine(
    outputs=[Out(RAX, "TSC when the layer wants to run again; NEVER = without a clock")],
    clobbers=CALLER_SAVED,
    reads=[
        Clock.tsc_cycles_per_ms,
        CoreState.now,
        NetState.next_check,
        Network.link_up,
        Network.router,
        Network.dns1,
        Network.dns2,
    ],
    writes=[NetState.next_check],
    calls=[nic_watch, nic_link, arp_doubt, dhcp_link_up, net_keep, dhcp_tick],
    saves=[RBX],
    source="firmware/docs/layers.md; firmware/docs/network.md",
)
def net_tick(a: Asm) -> None:
    """Run the network's timers."""
    a.cmp(CLOCK.it.tsc_cycles_per_ms, 0)
    with a.if_(E):
        a.mov(RAX, NEVER)
        a.ret()
    a.mov(RBX, core.now)
    a.cmp(RBX, NET.it.next_check)
    with a.if_(AE):
        cycles(a, RAX, CHECK_MS)
        a.add(RAX, RBX)
        a.mov(NET.it.next_check, RAX)
        a.call(nic_watch)
        a.movzx(EBX, NETWORK.it.link_up)
        a.call(nic_link)
        a.sub(EAX, EBX)
        a.dec(EAX)
        with a.if_(Z):  # it was down and is up
            a.call(arp_doubt)
            a.call(dhcp_link_up)
        for host in (NETWORK.it.router, NETWORK.it.dns1, NETWORK.it.dns2):  # unrolled: three
            a.mov(EDX, host)
            a.call(net_keep)
    a.call(dhcp_tick)
    a.mov(RCX, NET.it.next_check)
    a.cmp(RCX, RAX)
    a.cmov(B, RAX, RCX)
    a.ret()
