"""COM1: takes log lines, gives what an operator types (PC16550D data sheet, section 8)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

COM1 = 0x3F8
REGISTERS = 8
DATA, INTERRUPT_ID, LINE_CONTROL, LINE_STATUS = 0, 2, 3, 5
DATA_READY, HOLDING_EMPTY, TRANSMITTER_EMPTY = 0x01, 0x20, 0x40
FIFO_ENABLED = 0xC0
DIVISOR_LATCH = 0x80


class SerialPort:
    """A port that sends as fast as it is fed; a `Device` of the node's bus.

    Args:
        ready: whether the transmitter takes bytes; a stuck port says False.
    """

    def __init__(self, *, ready: bool = True) -> None:
        self.ready = ready
        self.lines: list[str] = []
        self.typed: deque[int] = deque()
        self.on_type: Callable[[], None] | None = None
        self.sent = 0
        self._line = b""
        self._control = 0

    def type(self, text: str) -> None:
        """Let an operator type a line and press Enter."""
        self.typed.extend(text.encode("ascii") + b"\n")
        if self.on_type is not None:
            self.on_type()

    def status(self) -> int:
        """Return what LINE_STATUS holds."""
        empty = HOLDING_EMPTY | TRANSMITTER_EMPTY if self.ready else 0
        return empty | (DATA_READY if self.typed else 0)

    @property
    def sends(self) -> bool:
        """Whether a byte written to DATA is sent, and no part of the divisor."""
        return not self._control & DIVISOR_LATCH

    def take(self, data: bytes) -> None:
        """Send bytes."""
        self.sent += len(data)
        *lines, self._line = (self._line + data).split(b"\n")
        self.lines += [line.decode("ascii", "backslashreplace").rstrip("\r") for line in lines]

    def port_in(self, port: int, size: int) -> int | None:
        """Answer the port's registers."""
        at = port - COM1
        if not 0 <= at < REGISTERS or size != 1:
            return None
        if at == DATA:
            return self.typed.popleft() if self.typed else 0
        if at == INTERRUPT_ID:
            return FIFO_ENABLED | 1
        if at == LINE_STATUS:
            return self.status()
        return self._control if at == LINE_CONTROL else 0

    def port_out(self, port: int, size: int, value: int) -> bool:
        """Take a byte to send, or a setting."""
        at = port - COM1
        if not 0 <= at < REGISTERS or size != 1:
            return False
        if at == LINE_CONTROL:
            self._control = value
        elif at == DATA and self.sends:
            self.take(bytes((value,)))
        return True

    def mmio_read(self, physical: int, size: int) -> int | None:
        """Nothing here is memory-mapped."""
        return None

    def mmio_write(self, physical: int, size: int, value: int) -> bool:
        """Nothing here is memory-mapped."""
        return False
