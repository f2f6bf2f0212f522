"""The byte stream under a shard's WebSocket layer, set up directly in its TCP page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulator.stream import receive, take_sent
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import TcpState
from firmware.limits import TX_BYTES

if TYPE_CHECKING:
    from tests.support.lab import Lab


class Stream:
    """Received bytes go into the ring, sent bytes come out of the transmit buffer.

    Args:
        lab: The bench.
        shard: Address of the context.
        head: Offset in the ring of the first byte.
    """

    def __init__(self, lab: Lab, shard: int, *, head: int = 0) -> None:
        self.lab, self.shard = lab, shard
        self.tcp.state = TcpState.ESTABLISHED
        self.tcp.ring_head = head

    @property
    def tcp(self) -> Any:
        """The live TCP context."""
        return self.lab.view(ShardContext, self.shard).tcp

    def feed(self, data: bytes) -> None:
        """Let bytes arrive in order."""
        receive(self.lab.machine, self.lab.view(ShardContext, self.shard), data)

    @property
    def ready(self) -> int:
        """Bytes that were not consumed yet."""
        return int(self.tcp.ring_ready)

    def take_sent(self) -> bytes:
        """Return what was committed since the last time, and count it as acknowledged."""
        return take_sent(self.lab.machine, self.lab.view(ShardContext, self.shard))

    def fill(self, left: int) -> None:
        """Leave only `left` bytes of transmit space."""
        self.tcp.tx_start, self.tcp.tx_end = 0, TX_BYTES - left


def client_frames(sent: bytes) -> list[tuple[int, bytes]]:
    """Split masked client frames: (first byte, plain payload) of each.

    Raises:
        AssertionError: A frame is not masked, not whole, or its length has a longer form than needed.
    """
    frames = []
    while sent:
        first, short = sent[0], sent[1]
        assert short & 0x80, "a client masks every frame"
        size, at = short & 0x7F, 2
        if size >= 126:
            wide = 2 if size == 126 else 8
            size, at = int.from_bytes(sent[2 : 2 + wide], "big"), 2 + wide
            assert size > (125 if wide == 2 else 65535), "the length has its shortest form"
        key, body = sent[at : at + 4], sent[at + 4 : at + 4 + size]
        assert len(body) == size, "the frame is whole"
        frames.append((first, bytes(b ^ key[n % 4] for n, b in enumerate(body))))
        sent = sent[at + 4 + size :]
    return frames


def server_frame(opcode: int, payload: bytes = b"", *, fin: bool = True, rsv: int = 0) -> bytes:
    """Return an unmasked frame in its shortest form."""
    first = (0x80 if fin else 0) | rsv << 4 | opcode
    size = len(payload)
    if size <= 125:
        return bytes([first, size]) + payload
    if size <= 0xFFFF:
        return bytes([first, 126]) + size.to_bytes(2, "big") + payload
    return bytes([first, 127]) + size.to_bytes(8, "big") + payload
