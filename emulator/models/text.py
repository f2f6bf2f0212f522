"""Small writers and readers of texts."""

import re

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


@model
def put_escaped(w: World, text: int, source: int, length: int) -> int:
    """RFC 8259 7: quotation mark, reverse solidus, control characters."""
    given = w.read(source, length) if length else b""
    made = re.sub(rb'["\\]', lambda m: b"\\" + m[0], given)
    made = re.sub(rb"[\x00-\x1f]", lambda m: b"\\u%04x" % m[0][0], made)
    w.write(text, made)
    return text + len(made)


@model
def take_token(w: World, at: int, end: int) -> tuple[int, int]:
    """Blanks are skipped, then comes what is none."""
    text = w.read(at, end - at) if at < end else b""
    found = re.search(rb"[^ \t]+", text)
    return (at + found.start(), len(found[0])) if found else (max(at, end), 0)


@model
def take_decimal(w: World, text: int, length: int) -> tuple[int, int]:
    """Digits, and no more than a quadword holds."""
    digits = w.read(text, length) if length else b""
    if not re.fullmatch(rb"[0-9]+", digits) or int(digits) >= 1 << 64:
        return 1, 0
    return 0, int(digits)
