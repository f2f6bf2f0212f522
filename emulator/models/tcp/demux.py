"""From the bytes of a frame to the connection that they are for."""

from emulator.effects import World, model
from emulator.models.net.checksum import checksum
from emulator.models.tcp.arithmetic import tcp_of
from firmware.layouts.net import FIRST_PORT
from firmware.layouts.tcp import (
    HEADER_BYTES,
    PROTOCOL_TCP,
    TCP_IN,
    TCP_PORTS,
    TcpHeader,
    TcpState,
)


@model
def tcp_parse(w: World, segment: int, length: int, source: int, destination: int) -> int:
    """A header of 20 to 60 bytes inside the segment, and a sum that fits."""
    got = w.g(TCP_IN)
    if length < HEADER_BYTES:
        return 1
    header = w.view(TcpHeader, segment)
    size = header.offset // 16 * 4
    if not HEADER_BYTES <= size <= length:
        return 1
    pseudo = source + destination + (PROTOCOL_TCP << 8)
    pseudo += int.from_bytes((length % 2**16).to_bytes(2, "big"), "little")
    if checksum(w, pseudo, segment, length):
        return 1
    got.options, got.options_length = segment + HEADER_BYTES, size - HEADER_BYTES
    got.payload, got.length = segment + size, length - size
    got.sequence, got.acknowledgement = header.sequence, header.acknowledgement
    got.window, got.control = header.window, header.control
    got.source_ip = source
    got.source_port, got.destination_port = header.source, header.destination
    return 0


@model
def tcp_find(w: World) -> int:
    """The live connection with this local port, remote address and remote port."""
    got, ports = w.g(TCP_IN), w.g(TCP_PORTS)
    if got.destination_port < FIRST_PORT:
        return 0
    owner = ports.owner[got.destination_port - FIRST_PORT]
    shard = int.from_bytes(ports.contexts[8 * owner : 8 * owner + 8], "little")
    if not shard:
        return 0
    tcp = tcp_of(w, shard)
    mine = tcp.local_port, tcp.remote_port, tcp.remote_ip
    theirs = got.destination_port, got.source_port, got.source_ip
    live = tcp.state not in (TcpState.CLOSED, TcpState.FAILED)
    return shard if live and mine == theirs else 0
