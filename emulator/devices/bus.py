"""The node's bus: asks each device whether a port or an address is its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from emulator.environment import Environment


class Device(Protocol):
    """What a device answers; None (or False for writes) means "not mine"."""

    def port_in(self, port: int, size: int) -> int | None:
        """Return what the port holds."""

    def port_out(self, port: int, size: int, value: int) -> bool:
        """Take a write to the port."""

    def mmio_read(self, physical: int, size: int) -> int | None:
        """Return what the register at a physical address holds."""

    def mmio_write(self, physical: int, size: int, value: int) -> bool:
        """Take a write to the register at a physical address."""


class Bus:
    """Devices behind one set of ports and one physical address space.

    Args:
        devices: asked in order.
        physical: turns the address that the code used into a physical one (the page tables'
            work; identity unless told otherwise).
    """

    def __init__(
        self, devices: Iterable[Device] = (), physical: Callable[[int], int] = lambda a: a
    ) -> None:
        self.devices = list(devices)
        self.physical = physical
        self.strays: list[tuple[str, int, int]] = []

    def port_in(self, port: int, size: int) -> int:
        """Return what the port holds; all ones when nothing is there, as on a PC."""
        for device in self.devices:
            value = device.port_in(port, size)
            if value is not None:
                return value
        self.strays.append(("in", port, size))
        return (1 << 8 * size) - 1

    def port_out(self, port: int, size: int, value: int) -> None:
        """Write a port."""
        for device in self.devices:
            if device.port_out(port, size, value):
                return
        self.strays.append(("out", port, size))

    def mmio_read(self, address: int, size: int) -> int:
        """Return what a device register holds; all ones when nothing is there."""
        physical = self.physical(address)
        for device in self.devices:
            value = device.mmio_read(physical, size)
            if value is not None:
                return value
        self.strays.append(("mmio_read", physical, size))
        return (1 << 8 * size) - 1

    def mmio_write(self, address: int, size: int, value: int) -> None:
        """Write a device register."""
        physical = self.physical(address)
        for device in self.devices:
            if device.mmio_write(physical, size, value):
                return
        self.strays.append(("mmio_write", physical, size))

    def connect(self, environment: Environment) -> Environment:
        """Let the bus answer an environment's ports and windows, and return it."""
        environment.on_port_in = self.port_in
        environment.on_port_out = self.port_out
        environment.on_mmio_read = self.mmio_read
        environment.on_mmio_write = self.mmio_write
        return environment
