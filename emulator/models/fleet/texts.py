"""What the fleet writes to NATS."""

import json

from emulator.effects import World, model
from emulator.models.bus.send import bus_put_inbox
from emulator.models.text import put_decimal
from firmware.layouts.bus import BUS
from firmware.layouts.fleet import (
    FLEET,
    FLEET_OUT,
    HeldSlot,
)
from firmware.layouts.fleet_config import FLEET_CONFIG


class Writer:
    """Appends to a buffer."""

    def __init__(self, w: World, at: int) -> None:
        self.world, self.at = w, at

    def text(self, contents: bytes) -> None:
        """Append bytes."""
        self.world.write(self.at, contents)
        self.at += len(contents)

    def number(self, value: int) -> None:
        """Append a number."""
        self.at = put_decimal(self.world, self.at, value)


def bot_of(w: World) -> bytes:
    """Return the bot's name in subjects."""
    config = w.g(FLEET_CONFIG)
    return bytes(config.bot[: config.bot_len])


def us_of(w: World) -> bytes:
    """Return node and boot as tokens of a subject."""
    bus = w.g(BUS)
    return bytes(bus.node[: bus.node_len]) + b"." + bytes(bus.boot_text)


@model
def put_us(w: World, text: int) -> int:
    """With a dot behind each."""
    w.write(text, us_of(w) + b".")
    return text + len(us_of(w)) + 1


@model
def watch_text(w: World, link: int, text: int, request: int, last: int) -> int:
    """The subscription comes first."""
    fleet, out = w.g(FLEET), Writer(w, text)
    if last:
        out.text(b"UNSUB ")
        out.number(last)
        out.text(b"\r\n")
    out.text(b"SUB ")
    subject = out.at
    out.text(b"_W.")
    out.at = put_us(w, out.at)
    out.number(fleet.resyncs)
    delivered = w.read(subject, out.at - subject).decode()
    name = delivered.removeprefix("_W.").replace(".", "-")
    keys = f"$KV.shardfw.{bot_of(w).decode()}.ctl.>"
    out.text(b" ")
    out.number(fleet.watch_sid)
    out.text(b"\r\n")
    body = {
        "stream_name": "KV_shardfw",
        "config": {
            "name": name,
            "deliver_subject": delivered,
            "deliver_policy": "last_per_subject",
            "ack_policy": "none",
            "max_deliver": 1,
            "filter_subject": keys,
            "idle_heartbeat": 1_000_000_000,
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": 10_000_000_000,
        },
    }
    raw = json.dumps(body, separators=(",", ":")).encode()
    node_and_boot = us_of(w).replace(b".", b"-") + b"-"
    out.text(b"PUB $JS.API.CONSUMER.CREATE.KV_shardfw." + node_and_boot)
    out.number(fleet.resyncs)
    out.text(f".{keys} ".encode())
    out.at = bus_put_inbox(w, link, out.at)
    out.number(request)
    out.text(b" ")
    out.number(len(raw))
    out.text(b"\r\n" + raw + b"\r\n")
    return out.at


@model
def key_begin(w: World, rest: int, length: int) -> int:
    """Prefix, bot, room."""
    out = Writer(w, w.g(FLEET_OUT).offset_of("key"))
    out.text(b"$KV.shardfw." + bot_of(w) + b".ctl." + w.read(rest, length))
    return out.at


@model
def put_holder(w: World, text: int) -> int:
    """With a space behind each."""
    words = us_of(w).replace(b".", b" ") + b" "
    w.write(text, words)
    return text + len(words)


def set_key(w: World, name: bytes, symbol: str, number: int | None = None) -> None:
    """Write the key of a record."""
    out, symbol_at = w.g(FLEET_OUT), w.address("fleet_text_" + symbol)
    end = key_begin(w, symbol_at, len(name))
    if number is not None:
        end = put_decimal(w, end, number)
    out.key_len = end - out.offset_of("key")


class Value(Writer):
    """Writes the value of a record."""

    def __init__(self, w: World) -> None:
        super().__init__(w, w.g(FLEET_OUT).offset_of("value"))

    def holder(self) -> None:
        """Append this node."""
        self.at = put_holder(self.world, self.at)

    def numbers(self, *values: int) -> None:
        """Append numbers with a space between them."""
        for n, value in enumerate(values):
            if n:
                self.text(b" ")
            self.number(value)

    def end(self) -> None:
        """Note its length."""
        out = self.world.g(FLEET_OUT)
        out.value_len = self.at - out.offset_of("value")


@model
def lease_text(w: World, held: int, op: int, claimed: int) -> None:
    """As section 4 of the records has it."""
    slot, value = w.view(HeldSlot, held), Value(w)
    set_key(w, b"lease.", "lease", slot.slot)
    if claimed:
        value.text(b"1 held ")
        value.holder()
    else:
        value.text(b"1 free - - ")
    duration = slot.duration_ms if claimed else 0
    value.numbers(slot.generation, op, duration, slot.epoch, slot.start, slot.count, slot.total)
    value.end()
