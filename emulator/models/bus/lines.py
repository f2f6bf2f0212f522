"""Lines of a server."""

import re

from emulator.effects import World, model
from emulator.models.bus.aside import bus_consume, bus_join, bus_lay_aside, place
from emulator.models.bus.errors import bus_error
from emulator.models.bus.info import bus_info
from emulator.models.bus.judge import bus_judge
from emulator.models.bus.link import bus_fail, bus_up
from emulator.models.bus.send import bus_pong
from emulator.models.tcp.ring import tcp_readable
from emulator.models.text import take_token
from emulator.models.tls.transport import tls_readable
from firmware.layouts.bus import LINE_MAX, BusLink, LinkState, Verb
from firmware.layouts.bus_sites import (
    BAD_INFO,
    LINE_END,
    LINE_TOO_LONG,
    UNEXPECTED,
    VERB,
)
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import TlsState

_WORDS = {
    b"PING": Verb.PING, b"PONG": Verb.PONG, b"INFO": Verb.INFO, b"-ERR": Verb.ERR,
    b"HMSG": Verb.HMSG, b"MSG": Verb.MSG, b"+OK": Verb.OK,
}  # fmt: skip


@model
def bus_readable(w: World, link: int, shard: int) -> tuple[int, int]:
    """TCP's bytes while there is no TLS yet; what was laid aside first."""
    if w.view(BusLink, link).aside:
        return place(w, link), w.view(BusLink, link).aside
    idle = w.view(ShardContext, shard).tls.state == TlsState.IDLE
    return tcp_readable(w, shard) if idle else tls_readable(w, shard)


@model
def bus_more(w: World, link: int, shard: int) -> int:
    """A piece of the next record, behind what is out of the ring then."""
    bus, tls = w.view(BusLink, link), w.view(ShardContext, shard).tls
    if not bus.aside:
        if tls.state != TlsState.CONNECTED or not tls.plain_left:
            return 1
        bus_lay_aside(w, link, shard)
    return int(bus_join(w, link, shard))


@model
def bus_line(w: World, link: int, shard: int) -> tuple[int, int, int]:
    """All before the first CRLF."""
    while True:
        at, size = bus_readable(w, link, shard)
        found = re.match(rb"[^\n]*\n", w.read(at, size) if size else b"")
        if found is None:
            if size >= LINE_MAX:
                bus_fail(w, link, shard, LINE_TOO_LONG.code)
                return 1, 0, 0
            if bus_more(w, link, shard):
                return 1, 0, 0
            continue
        if not found[0].endswith(b"\r\n"):
            bus_fail(w, link, shard, LINE_END.code)
            return 1, 0, 0
        return 0, at, len(found[0]) - 2


@model
def bus_verb(w: World, line: int, length: int) -> tuple[Verb, int | None, int]:
    """The first token, when the line begins with it."""
    at, size = take_token(w, line, line + length)
    if at != line:
        return Verb.NONE, None, line + length
    word = w.read(line, size) if size else b""
    return _WORDS.get(word, Verb.NONE), line + size, line + length


def _handle(w: World, link: int, shard: int, verb: Verb, rest: int, end: int) -> bool:
    """Deal with a line that is no message; return False for one that is."""
    bus = w.view(BusLink, link)
    match verb:
        case Verb.ERR:
            bus_error(w, link, shard, rest, end)
        case Verb.INFO:
            if bus_info(w, link, rest, end - rest):
                bus_fail(w, link, shard, BAD_INFO.code)
            else:
                bus_judge(w, link, shard)
        case Verb.NONE:
            bus_fail(w, link, shard, VERB.code)
        case _ if bus.state == LinkState.INFO:
            bus_fail(w, link, shard, UNEXPECTED.code)
        case Verb.PING:
            bus_pong(w, link, shard)
        case Verb.PONG:
            bus.asked = 0
            if bus.state == LinkState.HELLO:
                bus_up(w, link, shard)
        case Verb.MSG | Verb.HMSG if bus.state == LinkState.UP:
            return False
        case Verb.MSG | Verb.HMSG:
            bus_fail(w, link, shard, UNEXPECTED.code)
    return True


@model
def bus_lines(w: World, link: int, shard: int) -> tuple[int, int, int, int]:
    """Line by line, as long as lines may come; none in a message that is stepped over."""
    bus = w.view(BusLink, link)
    while not bus.skip and bus.state in (LinkState.INFO, LinkState.HELLO, LinkState.UP):
        missing, line, size = bus_line(w, link, shard)
        if missing:
            break
        verb, rest, end = bus_verb(w, line, size)
        rest = end if rest is None else rest  # a line that begins with a blank has no word
        if not _handle(w, link, shard, verb, rest, end):
            return verb, rest, end, line
        if bus.state != LinkState.DOWN:
            bus_consume(w, link, shard, size + 2)
    return Verb.NONE, 0, 0, 0
