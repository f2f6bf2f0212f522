"""What an answer says of the links to NATS."""

from firmware.layouts.bus import BUS, LINKS, BusLink
from firmware.layouts.shard import ShardContext
from firmware.layouts.status import StatusLink, StatusReply
from firmware.layouts.tcp import TcpContext
from toolchain.asm import AX, EAX, ECX, NZ, RAX, RBX, RCX, RDI, RDX, RSI, Asm, In, Z, routine


@routine(
    inputs=[In(RDI, StatusReply, "where the node part goes; zeroed")],
    clobbers=[RAX, RCX, RDX, RSI],
    reads=[
        BusLink.context, BusLink.state, BusLink.error, BusLink.version, BusLink.ups,
        BusLink.failures, BusLink.denials, TcpContext.remote_ip, TcpContext.remote_port,
    ],
    writes=[StatusReply.fleet, StatusLink],
    saves=[RBX],
    source="firmware/docs/bus.md#diagnostics",
)  # fmt: skip
def describe_links(a: Asm, reply: StatusReply) -> None:
    """Fill the part of the links; a node without a fleet has none."""
    link, place, shard = BusLink.at(RSI), StatusLink.at(RDX), ShardContext.at(RBX)
    a.lea(RSI, BUS.it.links.address)
    a.lea(RDX, reply.links.address)
    a.mov(ECX, LINKS)
    with a.loop() as links:
        a.mov(RBX, link.context)
        a.test(RBX, RBX)
        a.leave(Z, links)
        a.mov(reply.fleet, 1)
        for source, target in (
            (link.state, place.state),
            (link.error, place.error),
            (link.version, place.version),
            (link.ups, place.ups),
            (link.failures, place.failures),
            (link.denials, place.denials),
            (shard.tcp.remote_ip, place.ip),
        ):  # fmt: skip - seven doublewords, unrolled
            a.mov(EAX, source)
            a.mov(target, EAX)
        a.mov(AX, shard.tcp.remote_port)
        a.mov(place.port, AX)
        a.add(RSI, BusLink.SIZE)
        a.add(RDX, StatusLink.SIZE)
        a.dec(ECX)
        a.again(NZ, links)
    a.ret()
