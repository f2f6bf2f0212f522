"""The node's own numbers on the bus."""

from emulator.effects import World, model
from emulator.models.bus.link import bus_fail
from emulator.models.bus.send import bus_close, bus_open
from emulator.models.text import put_decimal
from firmware.layouts.bus import BUS, BUS_IN, CONTROL, DATA, BusLink, LinkState
from firmware.layouts.clock import NEVER
from firmware.layouts.commands import COMMANDS
from firmware.layouts.events import DATA_UNHEARD
from firmware.layouts.fleet import FLEET
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.fleet_diag import (
    DIAG_EVERY_MS,
    DIAG_FIELDS,
    DIAG_FORMAT,
    DIAG_LINE_MAX,
    DIAG_MAX,
    DIAG_SID,
    FLEET_DIAG,
    UNHEARD_MAX,
)
from firmware.layouts.handover import HANDOVER
from firmware.layouts.log import LOG_ON_BUS
from firmware.layouts.node import CLOCK, CORE, SLOT_ACTIVE
from firmware.layouts.outbox import OUTBOX
from firmware.layouts.shard import ShardContext, ShardState
from firmware.node.fleet_diag import TEXT_AT


@model
def shards_count(w: World) -> tuple[int, int]:
    """Rows in use, and READY ones."""
    core = w.g(CORE)
    rows = [core.slots[n] for n in range(core.slots_used)]
    shards = [w.view(ShardContext, row.context) for row in rows if row.flags & SLOT_ACTIVE]
    return len(shards), sum(shard.state == ShardState.READY for shard in shards)


def _numbers(w: World, rows: int, ready: int) -> dict[str, int]:
    box, commands, links = w.g(OUTBOX), w.g(COMMANDS), w.g(BUS).links
    sessions = w.g(HANDOVER)
    return {
        "uptime_ms": (w.g(CORE).now - w.g(CLOCK).boot_tsc) % 2**64 // w.g(CLOCK).tsc_cycles_per_ms,
        "rows": rows,
        "ready": ready,
        "slots": w.g(FLEET).holding,
        "published": box.published,
        "acknowledged": box.acknowledged,
        "duplicates": box.duplicates,
        "waiting": (box.next - box.first) % 2**32,
        "refused": box.refused,
        "overdue": box.overdue,
        "dropped": box.dropped,
        "oversize": box.oversize,
        "commands": commands.taken,
        "refused_commands": commands.refused,
        "control_ups": links[CONTROL].ups,
        "data_ups": links[DATA].ups,
        "log_lines": w.g(LOG_ON_BUS).lines,
        "sessions_taken": sessions.taken,
        "sessions_saved": sessions.saves,
        "sessions_refused": sessions.refused,
        "sessions_late": sessions.late,
        "sessions_lost": sessions.lost,
        "sessions_ignored": sessions.ignored,
    }


@model
def diag_unheard(w: World, link: int) -> int:
    """Twice in a row nothing came over DATA, while neither link was made anew."""
    diag, data, other = w.g(FLEET_DIAG), w.view(BusLink, link), w.g(BUS).links[CONTROL]
    ups = (data.ups + other.ups) % 2**32
    if diag.ups != ups or other.state != LinkState.UP:
        diag.ups, diag.unheard = ups, 0
        return 0
    return int(w.g(FLEET_CONFIG).servers_used > 1 and diag.unheard >= UNHEARD_MAX)


def _subject(w: World) -> bytes:
    config, bus = w.g(FLEET_CONFIG), w.g(BUS)
    bot, node = bytes(config.bot[: config.bot_len]), bytes(bus.node[: bus.node_len])
    return b"shardfw." + bot + b".diag." + node


@model
def diag_listen(w: World, link: int, workspace: int) -> int:
    """One line."""
    at, full = bus_open(w, link, workspace, DIAG_LINE_MAX)
    if not full:
        line = b"SUB " + _subject(w) + b" %d\r\n" % DIAG_SID
        w.write(at, line)
        bus_close(w, link, workspace, at + len(line))
    return full


@model
def diag_heard(w: World) -> None:
    """Silence means something from now on."""
    if w.g(BUS_IN).sid == DIAG_SID:
        w.g(FLEET_DIAG).heard, w.g(FLEET_DIAG).unheard = 1, 0


@model
def diag_publish(w: World) -> int:
    """Format, boot, then the fields in their order."""
    bus, config, diag, clock = w.g(BUS), w.g(FLEET_CONFIG), w.g(FLEET_DIAG), w.g(CLOCK)
    now, link, data = w.g(CORE).now, bus.links[CONTROL], bus.links[DATA]
    if config.magic != FLEET_MAGIC or not clock.tsc_cycles_per_ms:
        return NEVER
    if diag.next_at > now:
        return int(diag.next_at)
    if not bus.enrolling and data.state == LinkState.UP and diag_unheard(w, data.address_):
        bus_fail(w, data.address_, data.context, DATA_UNHEARD.code)
    if not bus.enrolling and link.state == LinkState.UP:
        at, full = bus_open(w, link.address_, link.context, DIAG_MAX)
        if not full:
            numbers = _numbers(w, *shards_count(w))
            end = put_decimal(w, at + TEXT_AT, DIAG_FORMAT)
            w.write(end, b" " + bytes(bus.boot_text))
            end += 9
            for field in DIAG_FIELDS:
                w.write(end, b" ")
                end = put_decimal(w, end + 1, numbers[field])
            text = w.read(at + TEXT_AT, end - at - TEXT_AT)
            head = b"PUB " + _subject(w) + b" "
            w.write(at, head)
            end = put_decimal(w, at + len(head), len(text))
            w.write(end, b"\r\n" + text + b"\r\n")
            bus_close(w, link.address_, link.context, end + len(text) + 4)
            diag.said += 1
            diag.unheard += diag.heard
    diag.next_at = now + clock.tsc_cycles_per_ms * DIAG_EVERY_MS
    return int(diag.next_at)
