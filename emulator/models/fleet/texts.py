"""What the fleet writes to NATS."""

import json

from emulator.effects import World, model
from emulator.models.text import put_decimal
from firmware.layouts.bus import BUS
from firmware.layouts.fleet import FLEET
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
def put_inbox(w: World, text: int, number: int) -> int:
    """`c` is CONTROL."""
    w.write(text, b"_I.")
    at = put_us(w, text + 3)
    w.write(at, b"c.")
    return int(put_decimal(w, at + 2, number))


@model
def watch_text(w: World, text: int, request: int, last: int) -> int:
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
    name = w.read(subject, out.at - subject).decode()
    out.text(b" ")
    out.number(fleet.watch_sid)
    out.text(b"\r\n")
    body = {
        "stream_name": "KV_shardfw",
        "config": {
            "deliver_subject": name,
            "deliver_policy": "last_per_subject",
            "ack_policy": "none",
            "max_deliver": 1,
            "filter_subject": f"$KV.shardfw.{bot_of(w).decode()}.ctl.>",
            "idle_heartbeat": 1_000_000_000,
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": 10_000_000_000,
        },
    }
    raw = json.dumps(body, separators=(",", ":")).encode()
    out.text(b"PUB $JS.API.CONSUMER.CREATE.KV_shardfw ")
    out.at = put_inbox(w, out.at, request)
    out.text(b" ")
    out.number(len(raw))
    out.text(b"\r\n" + raw + b"\r\n")
    return out.at
