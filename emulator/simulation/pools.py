"""What a node must have back once nothing is under way: transmit buffers, ring pages, spans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.devices.virtio_net import TX
from firmware.layouts.nic import NIC

if TYPE_CHECKING:
    from emulator.simulation.node import ImageNode


def free_transmit_buffers(node: ImageNode) -> int:
    """Return how many transmit buffers are free, or will be when the next one is needed."""
    nic = node.g(NIC)
    returned: int = node.card.queues[TX].returned - nic.tx.seen & 0xFFFF
    return int(nic.tx_free_count) + returned


def leaks(node: ImageNode, transmit_buffers: int) -> list[str]:
    """Say what is still held by a node at rest.

    Args:
        node: with all shards READY and nothing on its way.
        transmit_buffers: how many were free after its boot.
    """
    found = []
    free = free_transmit_buffers(node)
    if free != transmit_buffers:
        found.append(f"{free} of {transmit_buffers} transmit buffers are free")
    for slot in range(node.facts.shards):
        tcp, websocket = node.shard(slot).tcp, node.shard(slot).websocket
        held = {
            "ring_ready": tcp.ring_ready,
            "spans_used": tcp.spans_used,
            "pending": websocket.pending,
        }
        found += [f"slot {slot}: {name} is {value}" for name, value in held.items() if value]
    return found
