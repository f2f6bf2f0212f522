"""The names that stand in subjects and records: bot, node and boot.

Each is copied to RDI, which then is behind it. Clobbers RCX and RSI.
"""

from __future__ import annotations

from firmware.layouts.bus import BUS
from firmware.layouts.fleet_config import FLEET_CONFIG
from toolchain.asm import ECX, RSI, Asm, Mem8


def _put_name(a: Asm, name: Mem8[int], length: Mem8[int]) -> None:
    a.lea(RSI, name)
    a.movzx(ECX, length)
    a.rep_movsb()


def put_bot(a: Asm) -> None:
    """Write the bot's name, as configured."""
    _put_name(a, FLEET_CONFIG.it.bot.address, FLEET_CONFIG.it.bot_len)


def put_node(a: Asm) -> None:
    """Write the node's name, as configured or made of its MAC address."""
    _put_name(a, BUS.it.node.address, BUS.it.node_len)


def put_boot(a: Asm) -> None:
    """Write what tells this boot from others."""
    a.lea(RSI, BUS.it.boot_text.address)
    a.mov(ECX, BUS.it.boot_text.size)
    a.rep_movsb()
