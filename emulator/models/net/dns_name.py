"""Names: dotted quads, names inside DNS messages, comparison without regard to case."""

from emulator.effects import World, model

TEXT_MAX, LABEL_MAX = 253, 63


@model
def dns_parse_quad(w: World, text: int, length: int) -> tuple[int, int]:
    """Four numbers of 0..255 with three dots between."""
    parts = w.read(text, length).split(b".") if length else []
    # Leading zeros are decimal here; `isdigit` alone would take other scripts' digits.
    good = len(parts) == 4 and all(p and all(0x30 <= c <= 0x39 for c in p) for p in parts)
    if not good or any(int(p) > 255 for p in parts):
        return 1, 0
    return 0, int.from_bytes(bytes(int(p) for p in parts), "little")


@model
def dns_expand(w: World, message: int, length: int, start: int, text: int) -> tuple[int, int, int]:
    """RFC 1035 4.1.4; a pointer must lead before every earlier place of the same name."""
    here, behind, limit = start, 0, start
    bad = (1, 0, 0)
    written = bytearray()
    try:
        while True:
            if here >= length:
                return bad
            size = w.u8(message + here)
            here += 1
            if size == 0:
                break
            if size >= 0xC0:
                if here >= length:
                    return bad
                target = (size & 0x3F) << 8 | w.u8(message + here)
                here += 1
                behind = behind or here
                if target >= limit:
                    return bad
                here = limit = target
                continue
            if size > LABEL_MAX or here + size > length or len(written) + size + 1 > TEXT_MAX:
                return bad
            if written:
                written += b"."
            label = w.read(message + here, size)
            here += size
            written += label.split(b".")[0].lower()
            if b"." in label:
                return bad
    finally:
        w.write(text, bytes(written))
    return 0, len(written), behind or here


@model
def dns_same_name(w: World, name: int, length: int, other: int, other_length: int) -> int:
    """ASCII case does not count; the first name is in lower case already."""
    if length != other_length:
        return 0
    return int(w.read(name, length) == w.read(other, length).lower()) if length else 1
