"""Lines of the log on the bus."""

from emulator.effects import World, model
from emulator.models.bus.send import bus_close, bus_open
from emulator.models.text import put_decimal
from firmware.events.lines import LINES_PER_TURN, TARGET_MAX
from firmware.layouts.bus import BUS, DATA, LinkState
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.log import LOG, LOG_ON_BUS, LOG_RING, LOG_RING_BYTES
from firmware.layouts.log_line import LINE_MAX


def _line(w: World) -> bytes:
    """Return the next line without its end."""
    at, text = w.g(LOG_ON_BUS).told, b""
    while (byte := w.read(w.address(LOG_RING) + at % LOG_RING_BYTES, 1)) != b"\n":
        text, at = text + byte, at + 1
    return text


@model
def line_measure(w: World) -> int:
    """Up to the line feed."""
    return len(_line(w))


@model
def lines_publish(w: World) -> None:
    """One PUB for each line."""
    bus, config, told = w.g(BUS), w.g(FLEET_CONFIG), w.g(LOG_ON_BUS)
    link = bus.links[DATA]
    if config.magic != FLEET_MAGIC or bus.enrolling:
        return
    if link.state != LinkState.UP or link.midway or link.wanted:
        return
    for _ in range(LINES_PER_TURN):
        waiting = w.g(LOG).head - told.told
        if not waiting:
            return
        if waiting > LOG_RING_BYTES:
            told.told = w.g(LOG).head
            told.lost += 1
            return
        at, full = bus_open(w, link.address_, link.context, LINE_MAX + TARGET_MAX)
        if full:
            return
        size = line_measure(w)
        text = _line(w)
        bot, node = bytes(config.bot[: config.bot_len]), bytes(bus.node[: bus.node_len])
        head = b"PUB shardfw." + bot + b".log." + node + b" "
        w.write(at, head)
        end = put_decimal(w, at + len(head), size)
        w.write(end, b"\r\n" + text + b"\r\n")
        told.told += size + 1
        told.lines += 1
        bus_close(w, link.address_, link.context, end + size + 4)
