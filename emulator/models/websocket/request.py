"""The upgrade request."""

from emulator.effects import World, model
from emulator.models.crypto.base64 import base64_encode
from emulator.models.crypto.drbg import drbg_bytes
from emulator.models.crypto.sha1 import sha1_digest
from emulator.models.text import put_decimal
from firmware.layouts.config import CONFIG
from firmware.layouts.discovery import DISCOVERY, DiscoveryMode
from firmware.layouts.shard import Session, ShardContext, ShardFlag

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


@model
def ws_write_request(
    w: World, shard: int, host: int, host_length: int, port: int, path: int, path_length: int
) -> None:
    """A fresh key, its expected answer, and the request as RFC 6455 4.1 lists it."""
    ws, config = w.view(ShardContext, shard).websocket, w.g(CONFIG)
    key, challenge = ws.offset_of("key"), ws.offset_of("challenge")
    drbg_bytes(w, key, 16)
    base64_encode(w, key, 16, challenge)
    ws.challenge[24:60] = _GUID
    sha1_digest(w, challenge, 60, ws.offset_of("digest"))
    base64_encode(w, ws.offset_of("digest"), 20, ws.offset_of("accept"))

    text = b"GET " + w.read(path, path_length) + b" HTTP/1.1\r\n"
    text += b"Host: " + w.read(host, host_length)
    ws.request[: len(text)] = text
    if port != (443 if config.gateway_secure else 80):
        ws.request[len(text)] = ord(":")
        text += b":"
        end = put_decimal(w, ws.offset_of("request") + len(text), port)
        text = bytes(ws.request[: end - ws.offset_of("request")])
    rest = (
        b"\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        b"User-Agent: " + bytes(config.user_agent[: config.user_agent_len]) + b"\r\n"
        b"Sec-WebSocket-Key: " + bytes(ws.challenge[:24]) + b"\r\n\r\n"
    )
    ws.request[len(text) : len(text) + len(rest)] = rest
    ws.request_len = len(text) + len(rest)


@model
def ws_base(w: World) -> tuple[int, int, int, int, int]:
    """Host, port and path of the gateway, by the source that is configured."""
    config, found = w.g(CONFIG), w.g(DISCOVERY)
    view = config if config.discovery == DiscoveryMode.STATIC else found
    host, path = view.offset_of("gateway_host"), view.offset_of("gateway_path")
    return host, view.gateway_host_len, view.gateway_port, path, view.gateway_path_len


@model
def ws_build_request(w: World, shard: int) -> None:
    """The resume host when session, sequence and host are known, else the gateway's own."""
    context = w.view(ShardContext, shard)
    host, length, port, path, path_length = ws_base(w)
    if context.session_ptr:
        session = w.view(Session, context.session_ptr)
        resumable = session.valid == 1 and context.flags & ShardFlag.SEQ_VALID
        if resumable and session.resume_host_len:
            host, length = session.offset_of("resume_host"), session.resume_host_len
            port = session.resume_port
    ws_write_request(w, shard, host, length, port, path, path_length)
