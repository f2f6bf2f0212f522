"""The times in a certificate."""

from datetime import datetime, timedelta

from emulator.effects import World, model

_EPOCH = datetime(1970, 1, 1)
_BAD = (1, 0)


@model
def x509_time(w: World, contents: int, end: int, tag: int) -> tuple[int, int]:
    """UTCTime for 1950 to 2049, GeneralizedTime for what comes behind; seconds, and Z."""
    wanted = {0x17: 13, 0x18: 15}.get(tag)
    if wanted is None or end - contents != wanted:
        return _BAD
    raw = w.read(contents, wanted)
    digits, zone = raw[:-1], raw[-1:]
    if zone != b"Z" or not all(0x30 <= c <= 0x39 for c in digits):
        return _BAD
    year = int(digits[:-10])
    if tag == 0x17:
        year += 1900 if year >= 50 else 2000
    elif year < 2050:
        return _BAD
    rest = digits[-10:]
    month, day, hour, minute, second = (int(rest[n : n + 2]) for n in range(0, 10, 2))
    try:
        when = datetime(year, month, day, hour, minute, second)
    except ValueError:
        return _BAD
    return 0, (when - _EPOCH) // timedelta(seconds=1) % 2**64
