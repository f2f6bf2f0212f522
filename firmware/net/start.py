"""The first address of the node."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.net import (
    DHCP,
    DHCP_OPTIONS,
    Dhcp,
    DhcpMessage,
    DhcpOptions,
    DhcpState,
    DhcpType,
)
from firmware.layouts.node import NETWORK, Network
from firmware.net.dhcp import first_byte_of_host
from firmware.net.dhcp_lease import dhcp_adopt, dhcp_enter
from firmware.net.dhcp_options import dhcp_parse
from toolchain.asm import DL, EAX, ECX, EDX, NE, RBX, RSI, Asm, In, Reg32, routine


@routine(
    inputs=[
        In(RSI, DhcpMessage, "the DHCPACK of the boot ROM"),
        In(ECX, int, "its bytes; 0 = there is none"),
    ],
    clobbers=CALLER_SAVED,
    reads=[
        ConfigBlob.dhcp,
        ConfigBlob.static_ip,
        ConfigBlob.static_netmask,
        ConfigBlob.static_router,
        ConfigBlob.static_dns1,
        ConfigBlob.static_dns2,
        DhcpOptions.type,
        DhcpMessage.yiaddr,
    ],
    writes=[
        Dhcp.state,
        Network.ip,
        Network.netmask,
        Network.router,
        Network.dns1,
        Network.dns2,
        Network.configured,
    ],
    calls=[dhcp_parse, dhcp_adopt, dhcp_enter],
    saves=[RBX],
    source="facts of boot ROMs; RFC 2131 section 3.2",
)
def net_start(a: Asm, ack: DhcpMessage, length: Reg32) -> None:
    """Get the first address: configured, else the boot ROM's, else from a server.

    The ACK counts only when it is for the card that we drive (several NICs may have been tried).
    """
    network, config, own = NETWORK.it, CONFIG.it, a.label("own")
    a.cmp(config.dhcp, 1)
    with a.if_(NE):
        for source, target in (  # unrolled: five words
            (config.static_ip, network.ip),
            (config.static_netmask, network.netmask),
            (config.static_router, network.router),
            (config.static_dns1, network.dns1),
            (config.static_dns2, network.dns2),
        ):
            a.mov(EAX, source)
            a.mov(target, EAX)
        a.mov(DHCP.it.state, DhcpState.OFF)
        a.mov(network.configured, 1)
        a.ret()
    a.mov(RBX, RSI)
    a.call(dhcp_parse)
    a.jb(own)
    a.cmp(DHCP_OPTIONS.it.type, DhcpType.ACK)
    a.jne(own)
    a.mov(EDX, DhcpMessage.at(RBX).yiaddr)
    first_byte_of_host(a, DL, own)
    a.mov(RSI, RBX)
    a.call(dhcp_adopt)
    a.ret()
    a.place(own)
    a.mov(EAX, DhcpState.SELECTING)
    a.call(dhcp_enter)
    a.ret()
