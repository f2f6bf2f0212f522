"""The log: what a line looks like, and when it is dropped."""

import string
from collections.abc import Iterator, Sequence

from emulator.effects import World, model
from firmware.layouts.config import CONFIG
from firmware.layouts.log import CODES, LEVEL_SILENT, LOG, LOG_RING, LOG_RING_BYTES
from firmware.layouts.log_line import Kind, LogCode, Render
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.shard import ShardContext


def log(w: World, code: LogCode, shard: int | None, *values: int) -> None:
    """Write a line with as many values as it has keys; the others are 0."""
    given = [*values, 0, 0, 0, 0][:4]
    log_write(w, shard or 0, code, *given)


def log_at_level(w: World, code: LogCode, shard: int, *values: int) -> None:
    """Write a line of the hot path: nothing is even called when its level is not written."""
    if w.g(LOG).level <= code.level:
        log(w, code, shard, *values)


def _ms(w: World, cycles: int) -> int:
    per_ms = w.g(CLOCK).tsc_cycles_per_ms
    return cycles % 2**64 // per_ms if per_ms else 0


_NAME = frozenset(string.ascii_uppercase + string.digits + "_")


def _text(w: World, shard: int, kind: Kind, value: int) -> str:
    if kind.render == Render.HEX:
        return f"{value:#x}"
    if kind.render == Render.IP:
        return ".".join(str(octet) for octet in value.to_bytes(8, "little")[:4])
    if kind.render == Render.MS:
        return str(_ms(w, value))
    if kind.render == Render.FIXED:
        return kind.other
    if kind.render == Render.KNOWN:
        return str(value) if w.u8(shard + kind.word) & kind.room else "none"
    if kind.render == Render.WORD:
        sent = w.read(shard + kind.word, min(value, kind.room)) if value else b""
        return "".join(c if c in _NAME else "?" for c in sent.decode("latin-1"))
    named = dict(kind.texts)
    return named.get(value, f"{kind.other}{value}")


def _values(
    w: World, kinds: Sequence[Kind], shard: int, registers: tuple[int, ...]
) -> Iterator[int]:
    """Yield the value of each kind: the shard's field, or the next register."""
    given = iter(registers)
    for kind in kinds:
        if kind.size:
            yield int.from_bytes(w.read(shard + kind.offset, kind.size), "little")
        else:
            yield next(given) if kind.given else 0


@model
def log_write(
    w: World, shard: int, code: int, first: int, second: int, third: int, fourth: int
) -> None:
    """Render the line; all of it goes into the ring, or the drop is counted."""
    entry, log = CODES[code], w.g(LOG)
    if entry.level < log.level:
        return
    parts = [f"t={_ms(w, w.g(CORE).now - w.g(CLOCK).boot_tsc)} level={entry.level.name.lower()}"]
    if shard:
        parts.append(f"shard={w.view(ShardContext, shard).shard_id}")
    parts.append(f"code={entry.name}")
    kinds = [kind for _, kind in entry.fields]
    values = _values(w, kinds, shard, (first, second, third, fourth))
    fields = zip(entry.fields, values, strict=True)
    parts += [f"{key}={_text(w, shard, kind, v)}" for (key, kind), v in fields]
    if entry.sentence:
        of_shard = [part for part in entry.sentence if isinstance(part, Kind)]
        said = _values(w, of_shard, shard, ())
        text = [
            part if isinstance(part, str) else _text(w, shard, part, next(said))
            for part in entry.sentence
        ]
        parts.append(f'text="{"".join(text)}"')
    line = (" ".join(parts) + "\n").encode()
    if (log.head - log.tail) % 2**64 + len(line) > LOG_RING_BYTES:
        log.dropped += 1
        return
    ring = w.address(LOG_RING)
    for n, byte in enumerate(line):
        w.write(ring + (log.head + n) % LOG_RING_BYTES, bytes([byte]))
    log.head += len(line)


@model
def log_setup(w: World) -> None:
    """The configured level, or one that no line reaches."""
    config = w.g(CONFIG)
    w.g(LOG).level = config.log_level if config.serial else LEVEL_SILENT
