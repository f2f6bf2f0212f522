"""Enrolment: a fleet node whose image holds no token announces itself and is given one.

Read `firmware/docs/enrol.md` first. What is released is sealed to a key pair of this boot; nobody
else opens it, and the next boot does not either.
"""

from __future__ import annotations

import enum

from firmware.errors import Layer, site
from firmware.layouts.bus import INBOX_MAX
from firmware.layouts.config import ConfigBlob
from firmware.layouts.credentials import Credentials
from firmware.layouts.crypto import SHA256_DIGEST_BYTES
from firmware.layouts.fleet import NOBODY
from firmware.layouts.fleet_config import NAME_MAX
from firmware.layouts.hpke import HPKE_ENC_BYTES, HPKE_OVERHEAD, HpkeKeys
from firmware.layouts.smbios import SERIAL_MAX, UUID_BYTES
from firmware.layouts.x25519 import X25519_BYTES
from firmware.limits import TOKEN_MAX
from toolchain.layout import Global, Struct, bytes_, enum32, nested, u8, u16, u32, u64
from toolchain.layout.data import constant

ANNOUNCE_MIN_MS, ANNOUNCE_JITTER_MS = 4_500, 1_001
"""Every 4.5 to 5.5 s, so that nodes of one power supply do not speak at once."""
ROOM_MS = 100
"""How soon an announcement is tried again that found no room."""
ANNOUNCED_MOST = 24
"""Announcements by one server before the next one is tried: two minutes."""
UNHEARD_COUNTS = 2
"""One that nobody hears counts for so many: a minute."""
MAC_BYTES = 6
BUILD_ID_BYTES = ConfigBlob.build_id.size
NO_RESPONDERS = 503
"""Status of the answer that nobody listens to the subject."""
GRANT_MAGIC = 0x3147_4653
"""`SFG1` in memory order."""
ENROL_MAGIC = b"shardfw enrol 1 "
"""The info of HPKE begins with it, so that nothing sealed for another purpose is opened."""
NOTHING = NOBODY.decode()
"""Stands for a fact that the machine does not tell."""
FINGERPRINT_BYTES = 8
"""The start of the SHA-256 of the public key, which people compare."""
IDENTITY_MAX = 2 * (MAC_BYTES + UUID_BYTES + BUILD_ID_BYTES) + SERIAL_MAX + 3
"""`<mac> <uuid> <serial> <build id>`: hexadecimal digits, or `-`."""
INFO_MAX = len(ENROL_MAGIC) + 2 * (NAME_MAX + 1) + IDENTITY_MAX
BODY_MAX = len("1 enrolled 4294967295 ") + 2 * X25519_BYTES + 1 + IDENTITY_MAX
LINE_MAX = len("PUB shardfw..enrol.  \r\n\r\n") + 2 * NAME_MAX + INBOX_MAX + 4 + BODY_MAX
"""A whole announcement as it leaves."""

PUB_TEXT = constant("enrol_text_pub", b"PUB shardfw.", "before the bot's name")
SUBJECT_TEXT = constant("enrol_text_subject", b".enrol.", "between the names of bot and node")
WAITING_TEXT = constant("enrol_text_waiting", b"1 waiting ", "how an announcement begins")
ENROLLED_TEXT = constant("enrol_text_enrolled", b"1 enrolled ", "how the last one begins")
INFO_TEXT = constant("enrol_text_info", ENROL_MAGIC, "how the info of HPKE begins")

ENROL_WEAK = site(Layer.FLEET, 100, "weak", "no entropy for a key pair: the node cannot enrol")
ENROL_CRYPTO = site(
    Layer.FLEET, 101, "crypto", "the cryptography gave wrong answers at boot: the node cannot enrol"
)
ENROL_LENGTH = site(
    Layer.FLEET, 102, "length", "what was released has not the length of a grant; detail = bytes"
)
ENROL_SEAL = site(
    Layer.FLEET, 103, "seal", "what was released is not sealed to this boot's key and identity"
)
ENROL_GRANT = site(
    Layer.FLEET, 104, "grant", "what was sealed is no grant, or one of another version"
)
ENROL_TOKEN = site(
    Layer.FLEET, 105, "token", "a grant without a token, or with one too long; detail = bytes"
)
ENROL_LOGIN = site(
    Layer.FLEET, 106, "login", "a grant whose way to log in is unknown, or its names are too long"
)

ENROL_UNHEARD = site(
    Layer.FLEET, 107, "unheard", "nobody released a token over this server, another one is tried"
)

REASONS = {
    found.number: found.name
    for found in (
        ENROL_WEAK, ENROL_CRYPTO, ENROL_LENGTH, ENROL_SEAL, ENROL_GRANT, ENROL_TOKEN, ENROL_LOGIN,
    )
}  # fmt: skip
"""Sites by number, for lines."""


class EnrolState(enum.IntEnum):
    """Where a node's token comes from."""

    OFF = 0
    """It is in the image, or the node is part of no fleet."""
    WAITING = 1
    """The node announces itself."""
    ENROLLED = 2
    """It was released."""
    IMPOSSIBLE = 3
    """No key pair can be made; `error` says why."""


class Grant(Struct):
    """What is sealed: the token, and how the node logs in from then on. Always of this length."""

    SIZE = 0x110 + Credentials.SIZE
    magic = u32(0x00, "GRANT_MAGIC")
    token_len = u32(0x04, "bytes, 1..TOKEN_MAX")
    token = bytes_(0x10, TOKEN_MAX, "the token, then zeros", align=8)
    login = nested(0x110, Credentials, "NONE = as before; otherwise the node connects again")


SEALED_BYTES = HPKE_OVERHEAD + Grant.SIZE


class Enrol(Struct):
    """The enrolment of this boot. The private key is wiped when the token comes."""

    SIZE = 0x540
    keys = nested(0x000, HpkeKeys, "the key pair of this boot")
    state = enum32(0x040, EnrolState, "where the token comes from")
    inbox = u32(0x044, "number by which an answer is known; 0 = nothing was asked yet")
    announce_at = u64(0x048, "TSC of the next announcement")
    announced = u32(0x050, "announcements sent")
    unheard = u32(0x054, "answers that nobody listens")
    refused = u32(0x058, "answers that were refused")
    error = u32(0x05C, "why the last one was: layer << 24 | site << 16 | detail")
    late = u32(0x060, "answers that came when the token was there already")
    told = u8(0x064, "1 = the last announcement, that the node is enrolled, was sent")
    relogin = u8(0x065, "1 = the links are to connect again, with the login that was released")
    here = u16(0x066, "announcements by this server; one that nobody heard is UNHEARD_COUNTS")
    identity_len = u32(0x068, "bytes of `identity`")
    info_len = u32(0x06C, "bytes of `info`")
    digest = bytes_(
        0x070, SHA256_DIGEST_BYTES, "of the public key; people compare its start", align=8
    )
    identity = bytes_(0x090, IDENTITY_MAX, "`<mac> <uuid> <serial> <build id>`", align=8)
    info = bytes_(0x130, INFO_MAX, "of HPKE: purpose, bot, node, identity", align=8)
    body = bytes_(0x220, BODY_MAX, "of the announcement that is being written", align=8)
    sealed = bytes_(0x310, SEALED_BYTES, "what was released, while it is opened; wiped", align=16)


ENROL = Global("enrol", Enrol, "the enrolment of this boot", align=64)
ENROL_TEXT_AT = HPKE_ENC_BYTES
"""Where the grant lies in `sealed` once it is open."""
