"""Error sites: every place that can fail has a number, declared once.

`last_error = layer << 24 | site << 16 | detail`. The decoder, the log text and the documents read
`SITES`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass


class Layer(enum.IntEnum):
    """The layer byte of an error."""

    NONE = 0
    CPU = 1
    NIC = 2
    NET = 3
    TCP = 4
    TLS = 5
    WEBSOCKET = 6
    JSON = 7
    GATEWAY = 8
    SHARD = 9
    NODE = 10
    X509 = 11
    BUS = 12
    FLEET = 13
    EVENTS = 14


@dataclass(frozen=True)
class Site:
    """One place that can fail."""

    layer: Layer
    number: int
    name: str
    meaning: str

    @property
    def code(self) -> int:
        """The error with detail 0."""
        return self.layer << 24 | self.number << 16


SITES: dict[int, Site] = {}
DETAILS: dict[Site, Callable[[int], str]] = {}
"""How a site's detail is written, where a number alone says nothing."""


def site(layer: Layer, number: int, name: str, meaning: str) -> Site:
    """Declare a site; numbers are unique within a layer."""
    made = Site(layer, number, name, meaning)
    if made.code in SITES:
        raise ValueError(f"{layer.name} site {number} is both {SITES[made.code].name} and {name}")
    SITES[made.code] = made
    return made


# firmware/cpu
CPU_FAULT = site(Layer.CPU, 1, "fault", "the shard's own code faulted; detail = exception number")

# firmware/nic
NIC_UNSUPPORTED = site(Layer.NIC, 1, "unsupported", "the PCI function is no virtio-net device")
NIC_RESET_STUCK = site(Layer.NIC, 2, "reset_stuck", "the device does not read back status 0")
NIC_QUEUE = site(
    Layer.NIC, 3, "queue", "a queue is missing, too long or of an odd size; detail = entries"
)
NIC_FEATURES = site(Layer.NIC, 4, "features", "the device refuses the features it must accept")
NIC_BAR = site(Layer.NIC, 5, "bar", "a register structure lies outside what can be reached")
NIC_RING = site(Layer.NIC, 6, "ring", "used.idx is ahead of what was given; detail = difference")
NIC_DEVICE = site(Layer.NIC, 7, "device", "the device gave up or is gone; detail = its status")
NIC_STALLED = site(Layer.NIC, 8, "stalled", "the device sends nothing any more")


def describe(error: int) -> str:
    """Return an error as text for people."""
    if error == 0:
        return "none"
    found = SITES.get(error & 0xFFFF_0000)
    if found is None:
        return f"{error:#010x}"
    detail = error & 0xFFFF
    told = DETAILS.get(found, str)(detail) if detail else ""
    return f"{found.layer.name.lower()}.{found.name}" + (f"({told})" if told else "")
