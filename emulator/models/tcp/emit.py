"""The one place where TCP segments leave the node."""

from emulator.effects import World, model
from emulator.models.net.checksum import checksum
from emulator.models.net.ip import ip_begin, ip_finish
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.node import LEASE, NETWORK
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import PROTOCOL_TCP, TCP_OUT, TcpHeader


@model
def tcp_emit(w: World, shard: int, destination: int, payload: int, length: int) -> int:
    """Header and payload into an IP frame with their checksum; nothing after the lease."""
    whose = w.view(ShardContext, shard) if shard else None
    if whose is None or not whose.unleased:
        if whose is not None and not whose.hard_stop and w.g(FLEET_CONFIG).magic == FLEET_MAGIC:
            return 0
        if whose is not None and whose.hard_stop and w.rdtsc() >= whose.hard_stop:
            return 0
        if w.g(LEASE).expired:
            return 0
    frame, blocked = ip_begin(w, destination)
    if blocked:
        return 1
    header = w.g(TCP_OUT)
    head = w.read(header.address_, header.offset // 16 * 4)
    body = w.read(payload, length) if length else b""
    total = len(head) + len(body)
    w.write(frame, head + body)
    pseudo = w.g(NETWORK).ip + destination + (PROTOCOL_TCP << 8)
    pseudo += int.from_bytes(total.to_bytes(2, "big"), "little")
    w.view(TcpHeader, frame).checksum = checksum(w, pseudo, frame, total)
    ip_finish(w, destination, total, PROTOCOL_TCP)
    return 0
