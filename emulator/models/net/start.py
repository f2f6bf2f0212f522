"""The first address."""

from emulator.effects import World, model
from emulator.models.net.dhcp_lease import dhcp_adopt, dhcp_enter
from emulator.models.net.dhcp_options import dhcp_parse
from emulator.models.net.ip import is_host
from firmware.layouts.config import CONFIG
from firmware.layouts.net import DHCP, DHCP_OPTIONS, DhcpMessage, DhcpState, DhcpType
from firmware.layouts.node import NETWORK


@model
def net_start(w: World, ack: int, length: int) -> None:
    """Configured, else the boot ROM's lease when it is for this card, else our own exchange."""
    config, network = w.g(CONFIG), w.g(NETWORK)
    if config.dhcp != 1:
        for name in ("ip", "netmask", "router", "dns1", "dns2"):
            setattr(network, name, getattr(config, f"static_{name}"))
        w.g(DHCP).state = DhcpState.OFF
        network.configured = 1
        return
    usable = (
        not dhcp_parse(w, ack, length)
        and w.g(DHCP_OPTIONS).type == DhcpType.ACK
        and is_host(w.view(DhcpMessage, ack).yiaddr)
    )
    if usable:
        dhcp_adopt(w, ack)
    else:
        dhcp_enter(w, DhcpState.SELECTING)
