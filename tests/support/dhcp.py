"""A DHCP client in any state, and what servers answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulator.simulation import dhcp_message as dm
from emulator.simulation.dhcp_message import DhcpMessage
from firmware.layouts.config import CONFIG
from firmware.layouts.node import CORE
from firmware.net.dhcp import dhcp_input, dhcp_link_up, dhcp_tick
from firmware.net.start import net_start
from tests.support.lab import Lab
from tests.support.net import IP, MAC, NEEDED, ROUTER, SECOND, START, NetBench, ip32

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firmware.layouts.net import DhcpState

LAB = Lab(*NEEDED, dhcp_tick, dhcp_link_up, net_start, slots=0)
SERVER, OTHER, DNS = "10.0.0.1", "10.0.0.66", "10.0.0.3"
XID = 0x1234_5678


def raw(text: str) -> bytes:
    """Return the four bytes of an address."""
    return bytes(map(int, text.split(".")))


def answer(
    kind: int,
    options: Sequence[tuple[int, bytes]] = (),
    *,
    xid: int = XID,
    address: str = IP,
    server: str = SERVER,
    mac: bytes = MAC,
    **fields: object,
) -> bytes:
    """Return what a server answers; without a name it says not who it is."""
    listed = [(dm.OPT_TYPE, bytes([kind]))]
    if server:
        listed.append((dm.OPT_SERVER, raw(server)))
    message = DhcpMessage(2, int.from_bytes(xid.to_bytes(4, "little"), "big"), mac)
    message.options = [*listed, *options]
    message.yiaddr = raw(address)
    for name, value in fields.items():
        setattr(message, name, value)
    return message.encode()


WHOLE = (
    (dm.OPT_MASK, raw("255.255.255.0")),
    (dm.OPT_ROUTER, raw(ROUTER)),
    (dm.OPT_DNS, raw(DNS) + raw("10.0.0.4")),
    (dm.OPT_LEASE, (3600).to_bytes(4, "big")),
)


def client(state: DhcpState, *, configured: bool = False, lease: int = 3600) -> NetBench:
    """Return a node in a state of its exchange; configured, it has a lease of so many seconds."""
    bench = NetBench(LAB, configured=configured)
    dhcp = bench.dhcp
    dhcp.state, dhcp.xid, dhcp.server = state, XID, ip32(SERVER)
    dhcp.offered, dhcp.begun = ip32(IP), START
    if configured:
        dhcp.t1_at, dhcp.t2_at = START + lease // 2 * SECOND, START + lease * 7 // 8 * SECOND
        dhcp.expires_at = START + lease * SECOND
    return bench


def take(bench: NetBench, payload: bytes) -> Any:
    """Let an answer come, and return the state after it."""
    at = LAB.machine.alloc(1600)
    LAB.machine.write(at, payload + bytes(64))
    bench.call(dhcp_input, message=at, length=len(payload))
    return bench.dhcp.state


def tick(bench: NetBench) -> int:
    """Let the timers look, and return when they want to look again."""
    return bench.call(dhcp_tick).outputs["rax"]


def now_of(bench: NetBench) -> Any:
    """Return the time of a node."""
    return bench.lab.g(CORE).now


def messages(bench: NetBench) -> list[DhcpMessage]:
    """Return what the client has sent since the last look."""
    return [DhcpMessage.decode(frame[42:342]) for frame in bench.sent() if frame[23:24] == b"\x11"]


def start(bench: NetBench, payload: bytes) -> None:
    """Start the network with what the boot ROM had as its ACK."""
    LAB.g(CONFIG).dhcp = 1
    at = LAB.machine.alloc(1600)
    LAB.machine.write(at, payload + bytes(300))
    bench.call(net_start, ack=at, length=len(payload))
