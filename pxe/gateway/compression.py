"""Transport compression that a client asks for in the URL."""

import zlib


class ZlibStream:
    """One deflate stream for the whole connection.

    Each message ends with a sync flush, so its last four bytes are
    ``00 00 FF FF`` and a client knows where to stop collecting.
    Source: Discord's documentation, "Transport Compression".
    """

    def __init__(self) -> None:
        self._deflate = zlib.compressobj()

    def compress(self, text: str) -> bytes:
        """Return the bytes of one binary message."""
        return self._deflate.compress(text.encode()) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
