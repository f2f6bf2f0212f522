"""Commands over the bus."""

from emulator.effects import World, model
from emulator.models.bus.send import bus_close, bus_open
from emulator.models.failure import shard_fail
from emulator.models.gateway.submit import gateway_submit
from emulator.models.node.command_reply import (
    answers_send,
    command_answer,
    command_reply_judge,
    put_words,
)
from emulator.models.node.command_text import command_parse
from emulator.models.node.fleet_diag import diag_listen
from emulator.models.node.slots import slot_wake
from firmware.layouts.bus import BUS, BUS_IN, DATA, LinkState
from firmware.layouts.bus_sites import MESSAGE_TOO_LONG
from firmware.layouts.commands import (
    COMMAND_LINE_MAX,
    COMMAND_RESTART,
    COMMAND_SID,
    COMMANDS,
    OP_RESTART,
)
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.gateway import CLOSE_KEEPING_SESSION
from firmware.layouts.node import CLOCK, CORE, SLOT_ACTIVE
from firmware.layouts.send import SendResult
from firmware.layouts.shard import End, ShardContext, ShardState
from firmware.limits import SHARDS_MAX


def _subscribed(w: World, row: int) -> tuple[int, int]:
    """Return the shard + 1, and how many subscriptions the row gave up."""
    entry = bytes(w.g(COMMANDS).shards[4 * row : 4 * row + 4])
    return int.from_bytes(entry[:2], "little"), int.from_bytes(entry[2:], "little")


@model
def command_subscribe(w: World, link: int, workspace: int, row: int, shard: int) -> int:
    """UNSUB of the old one, SUB of the new one."""
    at, full = bus_open(w, link, workspace, 2 * COMMAND_LINE_MAX)
    if full:
        return 1
    config, (known, given_up) = w.g(FLEET_CONFIG), _subscribed(w, row)
    entry = w.g(COMMANDS).offset_of("shards") + 4 * row
    if known:
        at = put_words(w, at, b"UNSUB ", COMMAND_SID + row + 256 * given_up, b"\r\n")
        given_up = (given_up + 1) % 2**16
        w.write(entry + 2, given_up.to_bytes(2, "little"))
    if shard:
        bot, sid = bytes(config.bot[: config.bot_len]), COMMAND_SID + row + 256 * given_up
        at = put_words(w, at, b"SUB shardfw." + bot + b".cmd.", shard - 1, b" ", sid, b"\r\n")
    bus_close(w, link, workspace, at)
    w.write(entry, shard.to_bytes(2, "little"))
    return 0


@model
def commands_tick(w: World) -> None:
    """Who has to wait gets the next gap, unless something of his left in this turn."""
    commands, link = w.g(COMMANDS), w.g(BUS).links[DATA]
    if w.g(FLEET_CONFIG).magic != FLEET_MAGIC or w.g(BUS).enrolling or link.state != LinkState.UP:
        return
    link.wanted = 0
    if link.ups != commands.ups:
        commands.ups = link.ups
        commands.answers_end = commands.listening = 0
        w.write(commands.offset_of("shards"), bytes(4 * SHARDS_MAX))
        commands.changed = 1
    before = link.sent
    if not commands.changed and not commands.answers_end:
        return
    late = link.midway or _subscribe_all(w) or answers_send(w, link.address_, link.context)
    if late and link.sent == before:
        link.wanted = 1


def _subscribe_all(w: World) -> int:
    """Every row whose subscription is not its own; 1 = without room."""
    commands, core, link = w.g(COMMANDS), w.g(CORE), w.g(BUS).links[DATA]
    if not commands.changed:
        return 0
    if not commands.listening:
        if diag_listen(w, link.address_, link.context):
            return 1
        commands.listening = 1
    for n in range(core.slots_used):
        row, wanted = core.slots[n], 0
        if row.flags & SLOT_ACTIVE:
            shard = w.view(ShardContext, row.context)
            wanted = shard.shard_id + 1 if shard.held else 0
        if wanted != _subscribed(w, n)[0] and command_subscribe(
            w, link.address_, link.context, n, wanted
        ):
            return 1
    commands.changed = 0
    return 0


@model
def command_run(w: World, shard: int) -> tuple[int, int]:
    """The send path judges; a restart needs a connection."""
    message, context = w.g(BUS_IN), w.view(ShardContext, shard)
    if message.unreadable == MESSAGE_TOO_LONG.code:
        return SendResult.TOO_LARGE, 0
    bad, op, body, length = command_parse(w, message.body, message.body_len)
    if bad or op is None or body is None or length is None:
        return SendResult.BAD_BODY, 0
    if op == OP_RESTART:
        if context.state != ShardState.READY or context.failure:
            return SendResult.NOT_READY, 0
        cycles = w.g(CLOCK).tsc_cycles_per_ms
        left = 10_000 * cycles - (w.g(CORE).now - context.connected_at) % 2**64
        if left > 0:
            return SendResult.RATE_LIMITED, left // cycles + 1
        close, error = CLOSE_KEEPING_SESSION, COMMAND_RESTART.code
        shard_fail(w, shard, End.RECONNECT_REQUESTED, 0, close, error)
    else:
        result, wait = gateway_submit(w, shard, op, body, length)
        if result:
            return result, wait
    slot_wake(w, shard)
    return SendResult.OK, 0


@model
def command_take(w: World) -> None:
    """The shard of the subscription, if the row still has it."""
    core, commands = w.g(CORE), w.g(COMMANDS)
    if w.g(BUS_IN).sid < COMMAND_SID:
        return
    given_up, n = divmod(w.g(BUS_IN).sid - COMMAND_SID, SHARDS_MAX)
    if command_reply_judge(w):
        commands.refused += 1
        return
    row, result, wait = core.slots[n], int(SendResult.NOT_READY), 0
    subscribed, before = _subscribed(w, n)
    here = n < core.slots_used and row.flags & SLOT_ACTIVE and given_up == before
    if here and w.view(ShardContext, row.context).shard_id + 1 == subscribed:
        result, wait = command_run(w, row.context)
    if result:
        commands.refused += 1
    else:
        commands.taken += 1
    command_answer(w, result, wait)
