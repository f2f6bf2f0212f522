"""What a connection asks its transport to do, in order."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Send:
    """Send one WebSocket message.

    Attributes:
        data: Text for a text message; bytes (zlib-stream) for a binary one.
    """

    data: str | bytes


@dataclass(frozen=True, slots=True)
class Close:
    """Start the WebSocket close handshake.

    Attributes:
        code: Close code; 1005 stands for a close frame with an empty body.
        reason: At most 123 bytes of UTF-8.
    """

    code: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Abort:
    """Drop the TCP connection with a reset, without a close frame."""


@dataclass(frozen=True, slots=True)
class HangUp:
    """End the TCP stream with a FIN, without a close frame."""


@dataclass(frozen=True, slots=True)
class Wire:
    """Put bytes on the TCP stream past the WebSocket layer.

    Attributes:
        data: Frames, whole or not, well formed or not.
        one_by_one: Write each byte for itself.
    """

    data: bytes
    one_by_one: bool = False


Action = Send | Close | Abort | HangUp | Wire
