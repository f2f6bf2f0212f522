"""A tap interface of a namespace, joined to a virtual wire in real time."""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import struct
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.simulation.clock import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.simulation.world import World
    from pxe.segment import Segment

# linux/if_tun.h
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000


def open_tap(segment: Segment) -> int:
    """Return a descriptor of the segment's tap, opened inside its namespace."""
    opened: list[int] = []

    def enter() -> None:
        with Path("/run/netns", segment.name).open("rb") as place:
            libc = ctypes.CDLL(None, use_errno=True)
            assert libc.setns(place.fileno(), 0) == 0
        tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        name = segment.taps[0].ifname.encode()
        fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH", name, IFF_TAP | IFF_NO_PI))
        opened.append(tap)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    return opened[0]


def pump(tap: int, world: World, inject: Callable[[bytes], None]) -> None:
    """Wait for frames until the world has something to do, and put them on its wire."""
    next_ns = world.events.next_time()
    wait_ns = 50 * NS_PER_MS if next_ns is None else max(0, next_ns - world.now_ns)
    ready, _, _ = select.select([tap], [], [], min(wait_ns, 50 * NS_PER_MS) / NS_PER_S)
    while ready:
        try:
            inject(os.read(tap, 65536))
        except BlockingIOError:
            return
