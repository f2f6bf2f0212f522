"""virtio-rng: its one buffer, asked for until it is full; the device off before and after."""

from emulator.effects import World, model
from emulator.models.pci import pci_command, pci_read
from emulator.models.virtio.config import virtio_capabilities
from emulator.models.virtio.registers import (
    virtio_reset_ports,
    virtio_reset_window,
)
from emulator.models.virtio.rng_start import BUS_BITS, BUS_OFF, P_STATUS, rng_ports, rng_windows
from firmware.layouts.boot import BOOT
from firmware.layouts.entropy import Gathered
from firmware.layouts.memory import MEMORY
from firmware.layouts.nic import AvailableRing, Descriptor, Transport, UsedRing
from firmware.layouts.rng import RNG, RNG_BUFFER, RNG_WAIT_BITS
from firmware.limits import WINDOW_DMA


@model
def rng_fetch(w: World) -> int:
    """One buffer, whatever is missing of 64 bytes; each answer gives some of it and no more."""
    rng = w.g(RNG)
    queue = rng.queue
    part, used = w.view(Descriptor, queue.descriptors), w.view(UsedRing, queue.used)
    start, got = w.g(MEMORY).dma_physical + RNG_BUFFER - WINDOW_DMA, 0
    since = w.rdtsc()
    while got < 64:
        part.address, part.length, part.flags = start + got, 64 - got, 2
        queue.given += 1
        w.view(AvailableRing, queue.available).idx = queue.given
        if rng.transport == Transport.MODERN:
            w.mmio_write(queue.notify, 2, 0)
        else:
            w.port_out(queue.notify, 0, 2)
        while used.idx != queue.given:
            pci_read(w, rng.function, 0)
            if (w.rdtsc() - since) % 2**64 >= 1 << RNG_WAIT_BITS:
                return Gathered.BROKEN
        entry = used.elements[queue.given - 1 & queue.mask]
        if entry.id != 0 or not 1 <= entry.length <= 64 - got:
            return Gathered.BROKEN
        got += entry.length
    return Gathered.COMPLETE


@model
def rng_stop(w: World) -> None:
    """Reset it when it was started; off the bus whether it obeys or not."""
    rng = w.g(RNG)
    if rng.transport == Transport.NONE:
        return
    if rng.transport == Transport.MODERN:
        virtio_reset_window(w, rng.common)
    else:
        virtio_reset_ports(w, rng.port + P_STATUS)
    rng.transport = Transport.NONE
    pci_command(w, rng.function, BUS_OFF, BUS_BITS)


@model
def rng_gather(w: World, out: int) -> int:
    """Windows first, ports when there are none or they fail; what came is moved out of the window."""
    rng, function = w.g(RNG), w.g(BOOT).rng_function
    if not function:
        return Gathered.ABSENT
    rng.function = function
    virtio_capabilities(w, function, rng.capabilities.address)
    whole = all(rng.capabilities[kind].length for kind in (1, 2))
    started = (whole and not rng_windows(w)) or not rng_ports(w)
    fate = rng_fetch(w) if started else Gathered.BROKEN
    rng_stop(w)
    w.write(out, w.read(RNG_BUFFER, 64))
    w.write(RNG_BUFFER, bytes(64))
    return int(fate)
