"""The reliable queue."""

from emulator.effects import World, model
from emulator.models.tcp.arithmetic import tcp_of
from firmware.layouts.shard import ShardContext
from firmware.limits import TX_BYTES


@model
def tcp_reserve(w: World, shard: int, length: int) -> tuple[int, int]:
    """Give room after the queue; move the queue to the front only when that is what it takes."""
    tcp, base = tcp_of(w, shard), w.view(ShardContext, shard).tx_base
    waiting = tcp.tx_end - tcp.tx_start
    if waiting + length > TX_BYTES and tcp.tx_end + length > TX_BYTES:
        return 0, 1
    if tcp.tx_end + length > TX_BYTES:
        w.write(base, w.read(base + tcp.tx_start, waiting) if waiting else b"")
        tcp.tx_start, tcp.tx_end = 0, waiting
    return base + tcp.tx_end, 0


@model
def tcp_commit(w: World, shard: int, length: int) -> None:
    """Written bytes join the queue."""
    tcp_of(w, shard).tx_end += length
