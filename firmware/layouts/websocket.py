"""The WebSocket context of one shard (RFC 6455 names), and every way the layer can fail."""

from __future__ import annotations

import enum

from firmware.errors import Layer, site
from firmware.layouts.config import HOST_MAX, PATH_MAX, USER_AGENT_MAX
from toolchain.asm.operands import Region
from toolchain.layout import Struct, bytes_, enum32, flags32, ptr, u16, u32, u64


class WsState(enum.IntEnum):
    """Progress of the WebSocket connection."""

    IDLE = 0
    HANDSHAKE = 1
    OPEN = 2
    CLOSING = 3
    CLOSED = 4
    FAILED = 5


class WsFlag(enum.IntFlag):
    """Bits of `WebSocketContext.flags`."""

    BINARY_ALLOWED = 1 << 0
    MESSAGE = 1 << 1
    FIRST = 1 << 2
    FIN = 1 << 3
    TEXT = 1 << 4
    REFUSED = 1 << 5


class Opcode(enum.IntEnum):
    """RFC 6455 5.2."""

    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


class CloseCode(enum.IntEnum):
    """RFC 6455 7.4.1: the codes that this node sends by itself."""

    NORMAL = 1000
    PROTOCOL_ERROR = 1002
    UNSUPPORTED = 1003
    INVALID_PAYLOAD = 1007
    TOO_BIG = 1009


class ResponseHeader(enum.IntFlag):
    """Bits of `WebSocketContext.seen`: header fields that said what they must."""

    UPGRADE = 1 << 0
    CONNECTION = 1 << 1
    ACCEPT = 1 << 2


FIN_BIT = 0x80
"""Of the first byte of a frame; `ws_finish` takes it with the opcode."""
RSV_BITS = 0x70
MASK_BIT = 0x80
CONTROL_BIT = 0x08
CONTROL_PAYLOAD_MAX = 125
KEY_TEXT_BYTES, ACCEPT_BYTES = 24, 28
ACCEPT_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
REQUEST_START = b"GET "
REQUEST_HOST = b" HTTP/1.1\r\nHost: "
REQUEST_FIELDS = (
    b"\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nUser-Agent: "
)
REQUEST_KEY = b"\r\nSec-WebSocket-Key: "
REQUEST_END = b"\r\n\r\n"
REQUEST_MAX = (
    len(REQUEST_START + REQUEST_HOST + REQUEST_FIELDS + REQUEST_KEY + REQUEST_END)
    + PATH_MAX + HOST_MAX + len(":65535") + USER_AGENT_MAX + KEY_TEXT_BYTES
)  # fmt: skip
RESPONSE_MAX = 8192
"""Bytes of a response head; it has to fit in the receive ring as a whole."""
WS_PORT, WSS_PORT = 80, 443
"""RFC 6455 3: the port of ws:// that the Host field leaves out."""

RESPONSE = Region("the response head", "in the receive ring, bounded by RESPONSE_MAX")
FRAME_IN = Region("the received frame", "in the receive ring, bounded by what is readable")
FRAME_OUT = Region("the frame being sent", "in the transmit buffer, as long as was reserved")


class WebSocketContext(Struct):
    """WebSocket workspace of one shard."""

    SIZE = 0x380
    state = enum32(0x00, WsState, "see WsState")
    error = u32(0x04, "last_error of the layer; once set, what still arrives is dropped")
    http_status = u16(0x08, "status of a refused upgrade; 0 = none")
    request_len = u16(0x0A, "bytes of `request`")
    flags = flags32(0x0C, WsFlag, "see WsFlag")
    frame_left = u64(0x10, "payload of the current data frame not yet handed out; bytes")
    message_bytes = u64(0x18, "payload announced by the frames of the message so far; bytes")
    pending = u32(0x20, "bytes handed out by the last `ws_next`, not yet consumed")
    utf8 = u32(0x24, "state of the text check; 0 = between characters")
    scanned = u32(0x28, "bytes of the response that hold no end of the head")
    seen = flags32(0x2C, ResponseHeader, "see ResponseHeader")
    tx_frame = ptr(0x30, "first reserved byte of the frame being written")
    tx_header = u32(0x38, "bytes of its header, with the mask")
    pongs = u32(0x3C, "pongs received; they mean nothing to a Gateway client")
    pings = u32(0x40, "pings answered")
    close_reason_len = u32(0x44, "bytes of the peer's close reason, 0..123")
    accept = bytes_(0x48, ACCEPT_BYTES, "what Sec-WebSocket-Accept has to say", align=4)
    key = bytes_(0x64, 16, "the nonce of the request, before base64", align=4)
    challenge = bytes_(0x74, KEY_TEXT_BYTES + len(ACCEPT_GUID), "key text and GUID", align=4)
    digest = bytes_(0xB0, 20, "SHA-1 of the challenge", align=4)
    request = bytes_(0xC8, 0x2B8, "the upgrade request, ready to send", align=8)


if WebSocketContext.request.size < REQUEST_MAX:
    raise ValueError(f"a request can be {REQUEST_MAX} bytes; enlarge WebSocketContext.request")

_W = Layer.WEBSOCKET
RESPONSE_TOO_LONG = site(_W, 1, "response_too_long", "the response head exceeds 8192 bytes")
STATUS_LINE = site(_W, 2, "status_line", "not an HTTP/1.1 status line")
UPGRADE_REFUSED = site(_W, 3, "upgrade_refused", "the status is not 101; detail is the status")
UPGRADE_CHALLENGED = site(
    _W, 5, "upgrade_challenged", "the status is 403 with cf-mitigated; detail is the status"
)
HEADER_LINE = site(_W, 4, "header_line", "a header line breaks RFC 9112")
ACCEPT_FIELD = site(_W, 7, "accept_field", "Sec-WebSocket-Accept is wrong")
FIELD_MISSING = site(
    _W, 8, "field_missing", "no Upgrade, Connection or accept field; detail: ResponseHeader seen"
)
EXTENSION = site(_W, 9, "extension", "the server chose an extension that was not asked for")
SUBPROTOCOL = site(_W, 10, "subprotocol", "the server chose a subprotocol; none was asked for")
RESERVED_BITS = site(_W, 16, "reserved_bits", "RSV1, RSV2 or RSV3 is set")
RESERVED_OPCODE = site(_W, 17, "reserved_opcode", "opcode 3-7 or 11-15; detail: the opcode")
MASKED = site(_W, 18, "masked", "the server masked a frame")
CONTROL_FRAGMENTED = site(_W, 19, "control_fragmented", "a control frame without FIN")
CONTROL_TOO_LONG = site(_W, 20, "control_too_long", "a control frame above 125 bytes")
NO_MESSAGE = site(_W, 21, "no_message", "a continuation without a message")
IN_MESSAGE = site(_W, 22, "in_message", "a new message inside a fragmented one")
LENGTH_FORM = site(_W, 23, "length_form", "the length is not in its shortest form")
MESSAGE_TOO_LONG = site(_W, 24, "message_too_long", "the message exceeds MESSAGE_BYTES_MAX")
TEXT_UTF8 = site(_W, 25, "text_utf8", "a text message is not UTF-8")
BINARY = site(_W, 26, "binary", "a binary message without compression")
CLOSE_LENGTH = site(_W, 27, "close_length", "a close frame with a body of one byte")
CLOSE_CODE = site(_W, 28, "close_code", "a close code that must not be sent; detail: the code")
CLOSE_UTF8 = site(_W, 29, "close_utf8", "the close reason is not UTF-8")
END_OF_STREAM = site(_W, 30, "end_of_stream", "the transport ended without a close frame")
PEER_CLOSED = site(_W, 31, "peer_closed", "the server closed; detail: the close code, 0 = none")
