"""-ERR."""

from emulator.effects import World, model
from emulator.models.bus.link import bus_fail
from emulator.models.log import log
from emulator.models.text import take_token
from firmware.layouts.bus import BusLink
from firmware.layouts.bus_sites import ERRORS, OTHER
from firmware.layouts.log import BUS_DENIED


@model
def bus_error(w: World, link: int, shard: int, text: int, end: int) -> None:
    """The first row of the table that its text begins with, in any case and quoted or not."""
    at, _ = take_token(w, text, end)
    said = (w.read(at, end - at) if at < end else b"").removeprefix(b"'")
    said = bytes(byte | 0x20 for byte in said)
    rows = [row for row in ERRORS if said.startswith(row.text)]
    site, stays = (rows[0].site, rows[0].stays) if rows else (OTHER, True)
    if not stays:
        bus_fail(w, link, shard, site.code)
        return
    bus = w.view(BusLink, link)
    bus.denied = site.code
    bus.denials += 1
    if bus.denials.bit_count() <= 1:
        log(w, BUS_DENIED, None, bus.index, site.code, bus.denials)
