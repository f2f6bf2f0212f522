"""How the node finds its gateway: one question over HTTP for all shards, and its answer."""

from __future__ import annotations

import enum

from firmware.errors import Layer, site
from firmware.layouts.config import HOST_MAX, PATH_MAX
from firmware.layouts.json import JsonParser
from toolchain.layout import Global, Struct, bytes_, enum32, flags32, nested, u16, u32, u64


class DiscoveryMode(enum.IntEnum):
    """`ConfigBlob.discovery`: where the gateway's address comes from."""

    STATIC = 0
    HTTP = 1


class DiscoveryState(enum.IntEnum):
    """Progress of the question."""

    IDLE = 0
    RESOLVE = 1
    CONNECT = 2
    HEAD = 3
    BODY = 4
    FOUND = 5
    REFUSED = 6


class BodyForm(enum.IntEnum):
    """What ends the body of an answer (RFC 9112 6.3)."""

    UNTIL_CLOSE = 0
    LENGTH = 1
    CHUNKED = 2


class HttpField(enum.IntFlag):
    """Bits of `Discovery.seen`: header fields of the answer."""

    LENGTH = 1 << 0
    CHUNKED = 1 << 1
    LOCATION = 1 << 2


class ChunkState(enum.IntEnum):
    """What may come next of a chunked body (RFC 9112 7.1)."""

    SIZE_FIRST = 0
    SIZE = 1
    EXTENSION = 2
    SIZE_LF = 3
    DATA = 4
    DATA_CR = 5
    DATA_LF = 6
    TRAILER = 7
    TRAILER_TEXT = 8
    TRAILER_LF = 9
    LAST_LF = 10
    DONE = 11
    BROKEN = 12


DOCUMENT_MAX = 1024 * 1024
"""Bytes of an answer's body, its framing included."""
REDIRECTS_MAX = 3
REDIRECTS = (301, 302, 303, 307, 308)
LOCATION_MAX = 384
"""Longest Location that is read: scheme, host, port and path of their greatest lengths."""
SPACING_MS = 5_000
"""Least time between a question that failed and the next one of the node."""
RETRY_AFTER_MAX_S = 86_400
"""A longer wait counts as this."""
REQUEST_AGENT = b"\r\nUser-Agent: "
REQUEST_FIELDS = b"\r\nAccept: application/json\r\nConnection: close\r\n"
AUTHORIZATION = b"Authorization: Bot "


class Discovery(Struct):
    """The question, who asks it, and the answer that every shard uses."""

    SIZE = 0x800
    state = enum32(0x000, DiscoveryState, "see DiscoveryState")
    owner = u32(0x004, "slot + 1 of the shard over whose connection it is asked")
    attempt = u32(0x008, "`attempts` of that shard when it began to ask")
    error = u32(0x00C, "why the last question failed, or why none is asked any more")
    not_before = u64(0x010, "TSC before which nobody asks again; 0 = at once")
    failed_at = u64(0x018, "TSC of the last question that failed; 0 = none did")
    status = u16(0x020, "HTTP status of the last answer; 0 = none")
    port = u16(0x022, "TCP port that is asked")
    redirects = u32(0x024, "redirects followed for this question")
    token = u32(0x028, "1 = the token may be sent; 0 = the question went to another host")
    host_len = u32(0x02C, "bytes")
    path_len = u32(0x030, "bytes")
    location_len = u32(0x034, "bytes of the Location field")
    form = enum32(0x038, BodyForm, "what ends the body")
    chunk = enum32(0x03C, ChunkState, "where a chunked body stands")
    seen = flags32(0x040, HttpField, "see HttpField")
    scanned = u32(0x044, "bytes of the answer that hold no end of the head")
    left = u64(0x048, "bytes of the body, or of the chunk, still to come")
    body_bytes = u64(0x050, "bytes of the body that came, framing included")
    retry_after_ms = u64(0x058, "wait that the answer asked for; milliseconds")
    requests = u32(0x060, "requests sent since boot")
    gateway_host_len = u32(0x068, "bytes; counts when FOUND")
    gateway_path_len = u32(0x06C, "bytes; counts when FOUND")
    gateway_port = u16(0x070, "TCP port; counts when FOUND")
    host = bytes_(0x080, HOST_MAX, "who is asked")
    path = bytes_(0x100, PATH_MAX, "for what: path and query")
    location = bytes_(0x200, LOCATION_MAX, "the Location field of a redirect", align=8)
    gateway_host = bytes_(0x380, HOST_MAX, "the answer: name or dotted quad", align=8)
    gateway_path = bytes_(0x400, PATH_MAX, "the answer: path and query of the upgrade request")
    parser = nested(0x500, JsonParser, "the document that arrives")


DISCOVERY = Global("discovery", Discovery, "how the node finds its gateway")

_G = Layer.GATEWAY
DISCOVERY_ADDRESS = site(_G, 40, "discovery_address", "the discovery host has no address")
DISCOVERY_CONNECTION = site(
    _G, 41, "discovery_connection", "no local port or no entropy to ask for the gateway"
)
DISCOVERY_HTTP = site(_G, 42, "discovery_http", "the answer is not HTTP/1.1 or badly framed")
DISCOVERY_ENDED = site(_G, 43, "discovery_ended", "the answer ended before it was whole")
DISCOVERY_UNAVAILABLE = site(
    _G, 44, "discovery_unavailable", "the answer says later; detail is the status"
)
DISCOVERY_ABANDONED = site(
    _G, 45, "discovery_abandoned", "the shard that asked for all lost its connection"
)
DISCOVERY_STATUS = site(_G, 46, "discovery_status", "the answer is a refusal; detail is the status")
DISCOVERY_REDIRECTS = site(_G, 47, "discovery_redirects", "more than 3 redirects")
DISCOVERY_LOCATION = site(
    _G, 48, "discovery_location", "a redirect to nowhere; detail: UrlFault, 0 = no Location"
)
DISCOVERY_TOO_BIG = site(_G, 49, "discovery_too_big", "the document exceeds 1 MiB")
DISCOVERY_DOCUMENT = site(
    _G, 50, "discovery_document", "the document is not JSON; detail: that of the parser's error"
)
DISCOVERY_URL = site(
    _G, 51, "discovery_url", "the document's gateway URL cannot be used; detail: UrlFault"
)
