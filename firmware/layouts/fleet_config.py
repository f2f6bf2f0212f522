"""What a fleet node knows of its fleet: one read-only page that `shardfw build` fills."""

from __future__ import annotations

import enum

from firmware.limits import PAGE
from toolchain.layout import Global, Struct, array, bytes_, enum8, u8, u16, u32

FLEET_MAGIC = 0x3146_4653
"""`SFF1` in memory order."""
NAME_MAX = 32
"""Bytes of a bot's and of a node's name: letters, digits, `_` and `-`, one token of a subject."""
SERVERS_MAX = 8
SERVER_HOST_MAX = 64
CREDENTIAL_MAX = 64
NKEY_SEED_BYTES = 32
NKEY_PUBLIC_BYTES = 56


class BusAuth(enum.IntEnum):
    """How the node tells NATS who it is."""

    NONE = 0
    USER = 1
    NKEY = 2


class BusServer(Struct):
    """One server of the list."""

    SIZE = 0x48
    host = bytes_(0x00, SERVER_HOST_MAX, "name or dotted quad")
    host_len = u8(0x40, "bytes; 0 = no server in this place")
    port = u16(0x42, "TCP port, host byte order")


class FleetConfig(Struct):
    """What the operator configured. Strings have a length and no terminator."""

    SIZE = PAGE
    magic = u32(0x000, "FLEET_MAGIC; 0 = the node is no part of a fleet")
    auth = enum8(0x004, BusAuth, "how the node logs in")
    handshake_first = u8(0x005, "1 = TLS begins before INFO; 0 = after it")
    cap = u8(0x006, "slots held at once, 1..HELD_MAX")
    publish = u8(0x007, "1 = dispatches are published")
    bot_len = u8(0x008, "bytes, 1..NAME_MAX")
    node_len = u8(0x009, "bytes; 0 = the name is `n` and the card's address in hexadecimal")
    user_len = u8(0x00A, "bytes")
    password_len = u8(0x00B, "bytes")
    servers_used = u8(0x00C, "servers in the list, 1..SERVERS_MAX")
    bot = bytes_(0x010, NAME_MAX, "the bot's name in subjects")
    node = bytes_(0x030, NAME_MAX, "the node's name in subjects and records")
    user = bytes_(0x050, CREDENTIAL_MAX, "with USER")
    password = bytes_(0x090, CREDENTIAL_MAX, "with USER")
    nkey_seed = bytes_(0x0D0, NKEY_SEED_BYTES, "with NKEY: the Ed25519 private key", align=8)
    nkey_public = bytes_(0x0F0, NKEY_PUBLIC_BYTES, "with NKEY: the public key as text, U...")
    reserve = u32(0x138, "session starts of the bot that nodes leave for people")
    servers = array(0x140, BusServer, SERVERS_MAX, "where NATS listens, tried in turn")


FLEET_CONFIG = Global(
    "fleet_config",
    FleetConfig,
    "the fleet of the node; filled by the linker's overrides",
    init=bytes(FleetConfig.SIZE),
    align=PAGE,
    readonly=True,
)
