"""The byte stream under a shard whose TCP is somebody else's: the ring filled, the buffer drained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from firmware.limits import RING_BYTES

if TYPE_CHECKING:
    from emulator.machine import Machine


def receive(machine: Machine, shard: Any, data: bytes) -> None:  # noqa: ANN401 - a View by field
    """Let bytes arrive in order, behind those that the shard has already.

    Raises:
        ValueError: They do not fit in the ring.
    """
    tcp = shard.tcp
    if tcp.ring_ready + len(data) > RING_BYTES:
        raise ValueError(f"{len(data)} bytes do not fit in the ring")
    if data:
        at = (tcp.ring_head + tcp.ring_ready) % RING_BYTES
        machine.write(shard.ring_base + at, data)
    tcp.ring_ready += len(data)


def take_sent(machine: Machine, shard: Any) -> bytes:  # noqa: ANN401 - a View by field
    """Return what was committed since the last time, and count it as acknowledged."""
    tcp = shard.tcp
    start, end = tcp.tx_start, tcp.tx_end
    sent = machine.read(shard.tx_base + start, end - start) if end > start else b""
    tcp.tx_start = tcp.tx_end = 0
    return sent
