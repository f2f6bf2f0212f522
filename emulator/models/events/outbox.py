"""Publications in order, until the stream has acknowledged them."""

from typing import Any

from emulator.effects import World, model
from emulator.models.text import put_decimal
from firmware.layouts.bus import BUS
from firmware.layouts.fleet_config import FLEET_CONFIG
from firmware.layouts.node import CORE
from firmware.layouts.outbox import ENTRIES, HEAD_MAX, OUTBOX, EntryState
from firmware.layouts.shard import ShardContext
from firmware.limits import OUTBOX_BYTES

LINE_MAX = 512
"""Where the headers are written before they are put behind the control line."""
_KEPT = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")


def entry(w: World, number: int) -> Any:  # noqa: ANN401 - a view
    """Return the row of a publication."""
    return w.g(OUTBOX).entries[number % ENTRIES]


@model
def outbox_room(w: World, length: int) -> int:
    """Entries and bytes, the head counted at its largest."""
    box = w.g(OUTBOX)
    waiting = (box.next - box.first) % 2**32
    return int(waiting >= ENTRIES or box.end - box.freed + length > OUTBOX_BYTES - HEAD_MAX)


@model
def put_token(w: World, text: int, name: int, length: int) -> int:
    """Letters, digits, `_` and `-` stay."""
    w.write(text, bytes(c if c in _KEPT else ord("_") for c in w.read(name, length)))
    return text + length


def say(w: World, at: int, *parts: bytes | int) -> int:
    """Write texts and numbers one behind the other; return where they end."""
    for part in parts:
        if isinstance(part, int):
            at = put_decimal(w, at, part)
        else:
            w.write(at, part)
            at += len(part)
    return at


@model
def outbox_head(w: World, shard: int, length: int, sequence: int, name: int, name_len: int) -> None:
    """HPUB with a reply subject that ends with the number, then the headers."""
    context, box, bus = w.view(ShardContext, shard), w.g(OUTBOX), w.g(BUS)
    at, config = box.offset_of("head"), w.g(FLEET_CONFIG)
    node, session = bytes(bus.node[: bus.node_len]), context.session
    whose, number = bytes(session.session_id[: session.session_id_len]), sequence
    if box.notice:
        whose, number = bytes(bus.boot_text), box.next
    end = say(
        w, at + LINE_MAX,
        b"NATS/1.0\r\nNats-Msg-Id: " + whose + b"-", number, b"\r\nShardfw: g=", context.events.fence, b" n=" + node,
        b" t=", context.shard_total, b" s=", sequence, b"\r\n\r\n",
    )  # fmt: skip
    headers = w.read(at + LINE_MAX, end - at - LINE_MAX)
    bot = bytes(config.bot[: config.bot_len])
    end = say(w, at, b"HPUB shardfw." + bot + b".ev.", context.shard_id, b".")
    end = put_token(w, end, name, name_len)
    inbox = b" _I." + node + b"." + bytes(bus.boot_text) + b".d."
    sizes = (len(headers), b" ", len(headers) + length)
    end = say(w, end, inbox, box.next, b" ", *sizes, b"\r\n", headers)
    box.head_len = end - at


@model
def outbox_publish(
    w: World, shard: int, body: int, length: int, sequence: int, name: int, name_len: int
) -> int:
    """Head, body, CRLF at the end of the ring; an entry that waits."""
    context, box = w.view(ShardContext, shard), w.g(OUTBOX)
    if outbox_room(w, length):
        return 1
    outbox_head(w, shard, length, sequence, name, name_len)
    head = bytes(box.head[: box.head_len])
    w.write(box.base + box.end % OUTBOX_BYTES, head + w.read(body, length) + b"\r\n")
    box.end = box.end + len(head) + length + 2
    row = entry(w, box.next)
    box.next = (box.next + 1) % 2**32
    row.end, row.queued_at, row.sequence = box.end, w.g(CORE).now, sequence
    row.connection, row.slot, row.state = context.connection, context.slot, EntryState.WAITING
    box.published += 1
    return 0
