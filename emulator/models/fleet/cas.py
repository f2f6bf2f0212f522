"""Compare-and-swap."""

from typing import Any

from emulator.effects import World, model
from emulator.models.bus.send import bus_close, bus_open, bus_put_inbox, bus_request_id
from emulator.models.fleet.texts import Writer
from emulator.models.text import put_decimal
from firmware.layouts.bus import BUS, CONTROL
from firmware.layouts.fleet import (
    CAS_LINE_MAX,
    FLEET_OUT,
)

EXPECTED = b"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: "


def control(w: World) -> tuple[int, int]:
    """Return the control link and its workspace."""
    link = w.g(BUS).links[CONTROL]
    return int(link.address_), int(link.context)


@model
def cas_send(w: World, expected: int) -> tuple[int, Any]:
    """HPUB with one header."""
    out, (link, shard) = w.g(FLEET_OUT), control(w)
    place, refused = bus_open(w, link, shard, out.value_len + CAS_LINE_MAX)
    if refused:
        return 1, None
    header = Writer(w, out.offset_of("header"))
    header.text(EXPECTED)
    header.number(expected)
    header.text(b"\r\n\r\n")
    size = header.at - out.offset_of("header")
    out.header_len = size
    number = bus_request_id(w, link)
    line = Writer(w, place)
    line.text(b"HPUB " + bytes(out.key[: out.key_len]) + b" ")
    line.at = bus_put_inbox(w, link, line.at)
    line.number(number)
    line.text(b" ")
    line.at = put_decimal(w, line.at, size)
    line.text(b" ")
    line.number(size + out.value_len)
    line.text(b"\r\n" + bytes(out.header[:size]) + bytes(out.value[: out.value_len]) + b"\r\n")
    bus_close(w, link, shard, line.at)
    return 0, number
