"""The server's encrypted flight, by RFC 8446 4.3 and 4.4."""

from emulator.effects import World, model
from emulator.models.tls.extensions import tls_extensions
from emulator.models.tls.server_hello import number, value_of
from emulator.models.tls.transcript import arena_of
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import Extension, HandshakeType, TlsFlag
from firmware.layouts.tls_arena import Place
from firmware.layouts.tls_sites import (
    ALPN,
    CERTIFICATE_CONTEXT,
    CERTIFICATE_MISSING,
    EXTENSION_UNSOLICITED,
    MESSAGE_FORM,
    SCHEMES_MISSING,
)


def _form(kind: HandshakeType) -> int:
    return MESSAGE_FORM.code | kind


@model
def tls_on_extensions(w: World, shard: int, body: int, length: int) -> int:
    """server_name is empty, ALPN is a list of one name: http/1.1."""
    arena, form = arena_of(w, shard), _form(HandshakeType.ENCRYPTED_EXTENSIONS)
    data = w.read(body, length) if length else b""
    if length < 2 or number(data[:2]) != length - 2:
        return form
    broken, error = tls_extensions(w, shard, body + 2, length - 2, Place.ENCRYPTED)
    if broken or error:
        return form if broken else int(error)
    if arena.found[Extension.SERVER_NAME].length:
        return form
    if arena.is_address and arena.found[Extension.SERVER_NAME].offset:
        return EXTENSION_UNSOLICITED.code
    names = value_of(w, arena, Extension.ALPN)
    if names is None:
        return 0
    name = names[3:]
    if len(names) < 3 or number(names[:2]) != len(name) + 1 or names[2] != len(name):
        return form
    return 0 if name == b"http/1.1" else ALPN.code


@model
def tls_on_request(w: World, shard: int, body: int, length: int) -> int:
    """No context, some extensions, signature_algorithms among them."""
    arena, form = arena_of(w, shard), _form(HandshakeType.CERTIFICATE_REQUEST)
    data = w.read(body, length) if length else b""
    if length < 3:
        return form
    if data[0]:
        return CERTIFICATE_CONTEXT.code
    if number(data[1:3]) != length - 3:
        return form
    broken, error = tls_extensions(w, shard, body + 3, length - 3, Place.REQUEST)
    if broken or error:
        return form if broken else int(error)
    if not arena.found[Extension.SIGNATURE_ALGORITHMS].offset:
        return SCHEMES_MISSING.code
    w.view(ShardContext, shard).tls.flags |= TlsFlag.REQUESTED
    return 0


@model
def tls_read_certificate(w: World, shard: int, body: int, length: int) -> int:
    """No context, a list, and in it certificates with empty extensions."""
    arena, form = arena_of(w, shard), _form(HandshakeType.CERTIFICATE)
    data = w.read(body, length) if length else b""
    if length < 4:
        return form
    if data[0]:
        return CERTIFICATE_CONTEXT.code
    if number(data[1:4]) != length - 4:
        return form
    arena.chain_len = length - 4
    if length == 4:
        return CERTIFICATE_MISSING.code
    arena.chain_at = body + 4 - arena.address_
    at = 4
    while at < length:
        if at + 5 > length:
            return form
        size = number(data[at : at + 3])
        behind = at + 5 + size
        if not size or behind > length:
            return form
        block = number(data[behind - 2 : behind])
        if behind + block > length:
            return form
        broken, error = tls_extensions(w, shard, body + behind, block, Place.ENTRY)
        if broken or error:
            return form if broken else int(error)
        at = behind + block
    return 0
