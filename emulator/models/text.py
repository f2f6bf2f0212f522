"""Texts that the node writes."""

from emulator.effects import World, model


@model
def put_decimal(w: World, text: int, value: int) -> int:
    """Write the number as Python prints it."""
    digits = str(value).encode()
    w.write(text, digits)
    return text + len(digits)


@model
def put_hex(w: World, text: int, value: int) -> int:
    """Write eight digits."""
    digits = f"{value:08x}".encode()
    w.write(text, digits)
    return text + len(digits)
