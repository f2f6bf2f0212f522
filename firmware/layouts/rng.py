"""virtio-rng: one queue with one buffer, behind the NIC's part of the DMA window."""

from __future__ import annotations

from firmware.layouts.entropy import SAMPLE_BYTES
from firmware.layouts.nic import DMA_USED, QUEUE_BYTES, Capability, Transport, Virtqueue
from firmware.limits import DMA_BYTES, WINDOW_DMA
from toolchain.asm import Region
from toolchain.layout import Global, Struct, array, enum32, nested, ptr, u32

RNG_QUEUE = WINDOW_DMA + DMA_USED
RNG_BUFFER = RNG_QUEUE + QUEUE_BYTES
if RNG_BUFFER + SAMPLE_BYTES > WINDOW_DMA + DMA_BYTES:
    raise ValueError("the DMA window has no room for virtio-rng; lower RX_BUFFERS_MAX")
RNG_QUEUE_SIZE = 8
"""Entries of a modern queue at most; a legacy device dictates its own."""
RNG_WAIT_BITS = 32
"""A sample may take 2^32 cycles: 1 to 4 s on processors of 4 to 1 GHz. A device answers in microseconds, but a
busy host may keep it waiting; and the watchdog, ten seconds, has begun."""


class Rng(Struct):
    """State of the driver; the mappings of the windows outlive a second sample."""

    SIZE = 0xC0
    function = u32(0x00, "bus << 8 | device << 3 | function")
    transport = enum32(0x04, Transport, "how registers are reached; NONE = nothing was started")
    port = u32(0x08, "legacy: first port of BAR 0")
    common = ptr(0x10, "modern: CommonConfig; 0 = not mapped yet")
    window = ptr(0x18, "modern: start of the notify structure; 0 = not mapped yet")
    queue = nested(0x20, Virtqueue, "its one queue")
    capabilities = array(0x60, Capability, 5, "by CapabilityType; row 0 is unused")


RNG = Global("rng", Rng, "state of the virtio-rng driver", align=64)
RNG_BYTES = Region("the buffer of virtio-rng", "SAMPLE_BYTES at RNG_BUFFER, in WINDOW_DMA")
