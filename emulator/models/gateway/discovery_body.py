"""The body of an answer."""

from emulator.effects import World, model
from emulator.models.gateway.discovery_result import discovery_document
from emulator.models.gateway.discovery_verdict import discovery_refuse, discovery_retry
from emulator.models.json.feed import json_feed
from emulator.models.tls.stream import tls_ended
from emulator.models.tls.transport import tls_consume, tls_readable
from firmware.layouts.discovery import (
    DISCOVERY,
    DISCOVERY_DOCUMENT,
    DISCOVERY_ENDED,
    DISCOVERY_HTTP,
    DISCOVERY_TOO_BIG,
    DISCOVERY_UNAVAILABLE,
    DOCUMENT_MAX,
    BodyForm,
)
from firmware.layouts.discovery import ChunkState as C

_TEXT = {C.EXTENSION: C.SIZE_LF, C.TRAILER_TEXT: C.TRAILER_LF}
_LINE_FEED = {C.DATA_LF: C.SIZE_FIRST, C.TRAILER_LF: C.TRAILER, C.LAST_LF: C.DONE}


def _after(state: C, byte: int, left: int) -> C:
    """Return the next state by the grammar of RFC 9112 7.1."""
    char = chr(byte)
    if state in (C.SIZE_FIRST, C.SIZE) and char in "0123456789abcdefABCDEF":
        return C.SIZE
    if state == C.SIZE and char in "; \t":
        return C.EXTENSION
    if state == C.SIZE and char == "\r":
        return C.SIZE_LF
    if state in _TEXT and char != "\n":
        return _TEXT[state] if char == "\r" else state
    if state == C.TRAILER and char != "\n":
        return C.LAST_LF if char == "\r" else C.TRAILER_TEXT
    if state == C.DATA_CR and char == "\r":
        return C.DATA_LF
    if state == C.SIZE_LF and char == "\n":
        return C.DATA if left else C.TRAILER
    return _LINE_FEED.get(state, C.BROKEN) if char == "\n" else C.BROKEN


@model
def discovery_chunk(w: World, byte: int) -> None:
    """One byte of framing; the digits of a size make what is left."""
    found = w.g(DISCOVERY)
    following = _after(C(found.chunk), byte, found.left)
    if following == C.SIZE:
        found.left = found.left << 4 | int(chr(byte), 16)
    found.chunk = following


@model
def discovery_body(w: World, shard: int) -> None:
    """Read on until the body ends, breaks, grows too big, or has to be waited for."""
    found = w.g(DISCOVERY)
    while True:
        form = found.form
        if (form == BodyForm.CHUNKED and found.chunk == C.DONE) or (
            form == BodyForm.LENGTH and not found.left
        ):
            discovery_document(w, shard)
            return
        start, ready = tls_readable(w, shard)
        if not ready:
            _starved(w, shard)
            return
        if form == BodyForm.CHUNKED and found.chunk != C.DATA:
            discovery_chunk(w, w.u8(start))
            found.body_bytes += 1
            tls_consume(w, shard, 1)
            if found.chunk == C.BROKEN:
                discovery_retry(w, shard, DISCOVERY_HTTP.code)
                return
        else:
            part = ready if form == BodyForm.UNTIL_CLOSE else min(ready, found.left)
            if form != BodyForm.UNTIL_CLOSE:
                found.left -= part
            found.body_bytes += part
            error = json_feed(w, found.parser.address_, start, part)
            if error and found.status == 200:
                discovery_refuse(w, shard, DISCOVERY_DOCUMENT.code | error & 0xFFFF)
                return
            tls_consume(w, shard, part)
            if form == BodyForm.CHUNKED and not found.left:
                found.chunk = C.DATA_CR
        is_chunk = form == BodyForm.CHUNKED and found.chunk != C.DATA_CR
        if found.body_bytes > DOCUMENT_MAX or (is_chunk and found.left > DOCUMENT_MAX):
            if found.status == 200:
                discovery_refuse(w, shard, DISCOVERY_TOO_BIG.code)
            else:
                discovery_retry(w, shard, DISCOVERY_UNAVAILABLE.code | found.status)
            return


def _starved(w: World, shard: int) -> None:
    """Nothing to read: the end of the stream ends one form of body and breaks the others."""
    if tls_ended(w, shard):
        return
    if w.g(DISCOVERY).form == BodyForm.UNTIL_CLOSE:
        discovery_document(w, shard)
    else:
        discovery_retry(w, shard, DISCOVERY_ENDED.code)
