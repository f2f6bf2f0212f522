"""A node of a fleet in a bench: its names, and messages in hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from firmware.layouts.bus import BUS, BUS_IN
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from tests.support.lab import INPUT

if TYPE_CHECKING:
    from tests.support.lab import Lab

NODE, BOOT, BOT = b"n7", b"3fa2c1d0", b"b1"


def name_node(lab: Any, node: bytes = NODE, boot: bytes = BOOT) -> None:
    """Give a node in a bench, or anything that has globals, its name and its boot."""
    if BUS.name in lab.image.symbols:
        bus = lab.g(BUS)
        bus.node[: len(node)] = node
        bus.node_len = len(node)
        bus.boot_text[:8] = boot
        bus.boot = int(boot, 16)
    if FLEET_CONFIG.name in lab.image.symbols:
        config = lab.g(FLEET_CONFIG)
        config.magic, config.cap = FLEET_MAGIC, 1
        config.bot[: len(BOT)] = BOT
        config.bot_len = len(BOT)


def take_in_hand(lab: Lab, body: bytes, **fields: int) -> None:
    """Lay the body of a message down and put it in hand; nothing is mapped behind it."""
    message = lab.g(BUS_IN)
    message.body, message.body_len = lab.put(body), len(body)
    for name, value in fields.items():
        setattr(message, name, value)


def lay_down(lab: Lab, **parts: bytes) -> None:
    """Lay parts of the message in hand down at the beginning of the input, one behind the other."""
    message, at = lab.g(BUS_IN), INPUT
    for name, contents in parts.items():
        lab.machine.write(at, contents)
        setattr(message, name, at)
        setattr(message, name + "_len", len(contents))
        at += len(contents)


def set_fields(view: Any, **fields: int) -> None:
    """Set fields of a struct."""
    for name, value in fields.items():
        setattr(view, name, value)
