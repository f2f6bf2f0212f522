"""PCI configuration space behind ports 0xCF8 and 0xCFC (PCI 3.0 section 3.2.2.3.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

CONFIG_ADDRESS = 0xCF8
CONFIG_DATA = 0xCFC
COMMAND_IO, COMMAND_MEMORY, COMMAND_MASTER = 1, 2, 4
_STATUS_CAPABILITIES = 0x10


class PciFunction:
    """One function: 256 bytes of configuration, BARs and a list of capabilities.

    Args:
        address: bus << 8 | device << 3 | function.
        vendor: vendor id.
        device: device id.
        class_code: class, subclass and interface, 24 bits.
    """

    def __init__(self, address: int, vendor: int, device: int, class_code: int = 0x020000) -> None:
        self.address = address
        self.config = bytearray(256)
        self._writable = bytearray(256)
        self.poke(0, 2, vendor)
        self.poke(2, 2, device)
        self.poke(8, 4, class_code << 8)
        self._writable[4:6] = b"\x07\x05"
        self._writable[0x3C] = 0xFF
        self._next_capability = 0x40
        self._last_link = 0x34

    def poke(self, offset: int, size: int, value: int) -> None:
        """Set configuration bytes whatever the guest may write."""
        self.config[offset : offset + size] = value.to_bytes(size, "little")

    def peek(self, offset: int, size: int) -> int:
        """Return configuration bytes."""
        return int.from_bytes(self.config[offset : offset + size], "little")

    @property
    def command(self) -> int:
        """The command register."""
        return self.peek(4, 2)

    def add_bar(
        self, number: int, address: int, size: int, *, io: bool, wide: bool = False
    ) -> None:
        """Declare a BAR of `size` bytes at `address`; `wide` takes the next BAR too."""
        offset = 0x10 + 4 * number
        kind = 1 if io else 4 if wide else 0
        self.poke(offset, 4, address & 0xFFFF_FFFF | kind)
        mask = ~(size - 1) & 0xFFFF_FFFF
        self._writable[offset : offset + 4] = mask.to_bytes(4, "little")
        if wide:
            self.poke(offset + 4, 4, address >> 32)
            self._writable[offset + 4 : offset + 8] = b"\xff" * 4

    def add_capability(self, number: int, body: bytes, writable: bytes = b"") -> int:
        """Append a capability; return its offset."""
        at = self._next_capability
        self.poke(self._last_link, 1, at)
        self.poke(6, 2, self.peek(6, 2) | _STATUS_CAPABILITIES)
        self.config[at : at + 2 + len(body)] = bytes((number, 0)) + body
        self._writable[at + 2 : at + 2 + len(writable)] = writable
        self._last_link = at + 1
        self._next_capability = at + (2 + len(body) + 3) // 4 * 4
        return at

    def config_read(self, offset: int, size: int) -> int:
        """Return configuration bytes as the guest reads them."""
        return self.peek(offset, size)

    def config_write(self, offset: int, size: int, value: int) -> None:
        """Write configuration bytes as the guest does: read-only bits stay."""
        for n, byte in enumerate(value.to_bytes(size, "little")):
            mask = self._writable[offset + n]
            self.config[offset + n] = self.config[offset + n] & ~mask & 0xFF | byte & mask


class PciBus:
    """The host bridge with its functions; a `Device` of the node's bus."""

    def __init__(self, functions: Iterable[PciFunction] = ()) -> None:
        self.functions = {function.address: function for function in functions}
        self._selected = 0

    def _target(self, port: int) -> tuple[PciFunction | None, int]:
        offset = (self._selected & 0xFC) + (port - CONFIG_DATA)
        if not self._selected >> 31:
            return None, offset
        return self.functions.get(self._selected >> 8 & 0xFFFF), offset

    def port_in(self, port: int, size: int) -> int | None:
        """Answer the two registers."""
        if port == CONFIG_ADDRESS and size == 4:
            return self._selected
        if port >= CONFIG_DATA and port + size <= CONFIG_DATA + 4:
            function, offset = self._target(port)
            return (1 << 8 * size) - 1 if function is None else function.config_read(offset, size)
        return None

    def port_out(self, port: int, size: int, value: int) -> bool:
        """Take the two registers."""
        if port == CONFIG_ADDRESS and size == 4:
            self._selected = value
            return True
        if port >= CONFIG_DATA and port + size <= CONFIG_DATA + 4:
            function, offset = self._target(port)
            if function is not None:
                function.config_write(offset, size, value)
            return True
        return False

    def mmio_read(self, physical: int, size: int) -> int | None:
        """Nothing here is memory-mapped."""
        return None

    def mmio_write(self, physical: int, size: int, value: int) -> bool:
        """Nothing here is memory-mapped."""
        return False
