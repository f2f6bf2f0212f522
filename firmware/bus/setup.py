"""The bus at boot: the node's name, the number of this boot, and a workspace for each link."""

from firmware.abi import CALLER_SAVED
from firmware.crypto.drbg import drbg_u64
from firmware.layouts.bus import BUS, LINK_SLOTS, LINKS, NODE_NAME_BYTES, Bus, BusLink
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.credentials import CREDENTIALS, SECRETS_BYTES, Credentials
from firmware.layouts.fleet_config import FLEET_CONFIG, FleetConfig
from firmware.layouts.log import BUS_NO_MEMORY, BUS_STARTED
from firmware.layouts.memory import MEMORY, Memory
from firmware.layouts.node import CORE, NETWORK, Network, Slot
from firmware.layouts.shard import ShardContext
from firmware.layouts.text import TEXT_OUT
from firmware.log import log, log_write
from firmware.memory.windows import workspace_map
from firmware.text import put_byte, put_hex
from toolchain.asm import (
    AL,
    CF,
    CL,
    EAX,
    ECX,
    EDI,
    EDX,
    NE,
    R8D,
    R9D,
    R12,
    R12D,
    R13,
    R13D,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    C,
    Out,
    routine,
)


@routine(
    clobbers=CALLER_SAVED,
    reads=[FleetConfig.node_len, FleetConfig.node, Network.mac],
    writes=[Bus.node_len, TEXT_OUT],
    calls=[put_hex],
    source="firmware/docs/bus.md#names",
)
def bus_name(a: Asm) -> None:
    """Take the operator's name for the node, or make one of the card's address."""
    a.movzx(ECX, FLEET_CONFIG.it.node_len)
    a.mov(BUS.it.node_len, CL)
    a.lea(RDI, BUS.it.node.address)
    a.lea(RSI, FLEET_CONFIG.it.node.address)
    a.test(ECX, ECX)
    with a.if_(NE):
        a.rep_movsb()
        a.ret()
    put_byte(a, "n")
    a.mov(EDX, NETWORK.it.mac.m32())
    a.bswap(EDX)
    a.call(put_hex)
    # Eight digits again, of which four are of the address.
    a.movzx(EDX, NETWORK.it.mac.m16(4))
    a.bswap(EDX)
    a.call(put_hex)
    a.mov(BUS.it.node_len, NODE_NAME_BYTES)
    a.ret()


@routine(
    clobbers=[RAX, RCX, RSI, RDI],
    reads=[FleetConfig.auth, FleetConfig.user_len, FleetConfig.password_len],
    writes=[Credentials],
    source="firmware/docs/bus.md#login",
)
def bus_credentials(a: Asm) -> None:
    """Take the login of the configuration; one that is released with the token replaces it."""
    config, mine = FLEET_CONFIG.it, CREDENTIALS.it
    for source, target in (
        (config.auth, mine.auth),
        (config.user_len, mine.user_len),
        (config.password_len, mine.password_len),
    ):  # unrolled: three bytes
        a.mov(AL, source)
        a.mov(target, AL)
    a.lea(RSI, config.user.address)
    a.lea(RDI, mine.user.address)
    a.mov(ECX, SECRETS_BYTES // 8)
    a.rep_movsq()
    a.ret()


@routine(
    outputs=[Out(CF, "1 = no memory left for a link")],
    clobbers=CALLER_SAVED,
    reads=[
        ConfigBlob.gateway_secure, FleetConfig.servers_used, FleetConfig.auth, Memory.free_pages,
        Bus.boot,
    ],
    writes=[
        Bus.boot, BusLink.context, BusLink.index, BusLink.server,
        ShardContext.unleased, Slot.context,
    ],
    calls=[bus_name, bus_credentials, drbg_u64, put_hex, workspace_map, log_write],
    saves=[RBX, R12, R13],
    source="firmware/docs/bus.md#workspaces",
)  # fmt: skip
def bus_setup(a: Asm) -> None:
    """Draw the number of this boot and give each link a workspace; nothing is dialled yet."""
    link, shard, full = BusLink.at(RBX), ShardContext.at(RAX), a.label("full")
    a.call(bus_name)
    a.call(bus_credentials)
    a.call(drbg_u64)
    a.mov(BUS.it.boot, EAX)
    a.mov(EDX, EAX)
    a.lea(RDI, BUS.it.boot_text.address)
    a.call(put_hex)

    a.lea(RBX, BUS.it.links.address)
    a.xor(R12D, R12D)
    with a.loop() as links:
        a.mov(R13D, LINK_SLOTS[0])
        a.sub(R13D, R12D)
        a.mov(EDI, R13D)
        a.call(workspace_map)
        a.j(C, full)
        a.mov(link.context, RAX)
        a.mov(shard.unleased, 1)
        # The row names the workspace, for faults; no shard is in it.
        a.shl(R13D, 4)  # a slot row is 16 bytes
        a.lea(RDX, CORE.it.slots.address)
        a.mov(Slot.at(RDX, index=R13).context, EAX)
        a.mov(EAX, R12D)
        a.mov(link.index, AL)
        # Nodes begin at different servers of the list.
        a.xor(EDX, EDX)
        a.movzx(ECX, FLEET_CONFIG.it.servers_used)
        a.test(ECX, ECX)
        with a.if_(NE):
            a.mov(EAX, BUS.it.boot)
            a.div(ECX)
        a.mov(link.server, EDX)
        a.add(RBX, BusLink.SIZE)
        a.inc(R12D)
        a.cmp(R12D, LINKS)
        a.again(NE, links)
    a.mov(EDX, BUS.it.boot)
    a.movzx(ECX, FLEET_CONFIG.it.servers_used)
    a.movzx(R8D, CONFIG.it.gateway_secure)
    a.movzx(R9D, FLEET_CONFIG.it.auth)
    log(a, BUS_STARTED)
    a.clc()
    a.ret()
    a.place(full)
    a.mov(RDX, MEMORY.it.free_pages)
    log(a, BUS_NO_MEMORY)
    a.stc()
    a.ret()
