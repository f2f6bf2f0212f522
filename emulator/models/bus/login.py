"""The login."""

import base64

from emulator.effects import World, model
from emulator.models.bus.send import bus_put_inbox
from emulator.models.crypto.base64 import base64_encode
from emulator.models.crypto.ed25519_chosen import ed25519_key, ed25519_sign
from emulator.models.text import put_escaped
from emulator.models.tls.transport import tls_commit, tls_reserve
from firmware.layouts.bus import BUS, BUS_LOGIN, HELLO_MAX, BusLink, LinkState
from firmware.layouts.credentials import CREDENTIALS
from firmware.layouts.fleet_config import BusAuth

_CONNECT = (
    b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true,"protocol":1,'
    b'"lang":"shardfw","name":"'
)
_URL = bytes.maketrans(b"+/", b"-_")


@model
def bus_sign(w: World, link: int) -> None:
    """Over the nonce as it came; the key does not outlive it."""
    bus, login = w.view(BusLink, link), w.g(BUS_LOGIN)
    key = login.offset_of("key")
    ed25519_key(w, key, w.g(CREDENTIALS).offset_of("nkey_seed"))
    ed25519_sign(w, login.offset_of("signature"), key, bus.offset_of("nonce"), bus.nonce_len)
    w.write(key, bytes(96))


@model
def bus_put_signature(w: World, link: int, text: int) -> int:
    """Base64url without padding; what lies behind it is anything."""
    bus_sign(w, link)
    signature = w.g(BUS_LOGIN).offset_of("signature")
    base64_encode(w, signature, 64, text)
    plain = base64.b64encode(w.read(signature, 64)).rstrip(b"=")
    for n, (letter, other) in enumerate(zip(plain, plain.translate(_URL), strict=True)):
        if letter != other:
            w.write(text + n, bytes([other]))
    return text + len(plain)


@model
def bus_hello(w: World, link: int, shard: int) -> int:
    """CONNECT {...}, SUB, PING."""
    mine, bus = w.g(CREDENTIALS), w.g(BUS)
    start, full = tls_reserve(w, shard, HELLO_MAX)
    if full:
        return 1
    at = start

    def put(text: bytes) -> None:
        nonlocal at
        w.write(at, text)
        at += len(text)

    put(_CONNECT)
    at = put_escaped(w, at, bus.offset_of("node"), bus.node_len)
    if mine.auth == BusAuth.USER:
        put(b'","user":"')
        at = put_escaped(w, at, mine.offset_of("user"), mine.user_len)
        put(b'","pass":"')
        at = put_escaped(w, at, mine.offset_of("password"), mine.password_len)
    elif mine.auth == BusAuth.NKEY:
        put(b'","nkey":"' + bytes(mine.nkey_public) + b'","sig":"')
        at = bus_put_signature(w, link, at)
    put(b'"}\r\nSUB ')
    at = bus_put_inbox(w, link, at)
    put(b"* 1\r\nPING\r\n")
    tls_commit(w, shard, at - start)
    w.view(BusLink, link).state = LinkState.HELLO
    return 0
