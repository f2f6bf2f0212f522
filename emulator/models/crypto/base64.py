"""Base64 with padding."""

import base64

from emulator.effects import World, model


@model
def base64_encode(w: World, source: int, length: int, text: int) -> int:
    """Write the text as RFC 4648 says; the partial last group is first written as if with zeros."""
    data = w.read(source, length)
    w.write(text, base64.b64encode(data + bytes(-length % 3)))
    w.write(text, base64.b64encode(data))
    return text + 4 * -(-length // 3)
