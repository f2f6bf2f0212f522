"""ClientHello, written from RFC 8446 4.1.2 and 4.2."""

from emulator.effects import World, model
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import Group, Scheme
from firmware.layouts.tls_arena import GROUPS, HYBRID_GROUPS, SUITES, TlsArena


def vector(size: int, contents: bytes) -> bytes:
    """Return contents behind their length of `size` bytes (RFC 8446 3.4)."""
    return len(contents).to_bytes(size, "big") + contents


def numbers(values: tuple[int, ...]) -> bytes:
    """Return a vector of two-byte numbers."""
    return vector(2, b"".join(value.to_bytes(2, "big") for value in values))


def extension(kind: int, value: bytes) -> bytes:
    """Return an extension."""
    return kind.to_bytes(2, "big") + vector(2, value)


@model
def tls_write_hello(w: World, shard: int) -> None:
    """Name, groups, schemes, protocol, version, a share or two, and the cookie when there is one."""
    arena = w.view(TlsArena, w.view(ShardContext, shard).tls.arena_ptr)
    name = b"" if arena.is_address else arena.host[: arena.host_len]
    found = extension(0, vector(2, b"\x00" + vector(2, name))) if name else b""
    groups = HYBRID_GROUPS if arena.hybrid else GROUPS
    found += extension(10, numbers(groups)) + extension(13, numbers(tuple(Scheme)))
    found += extension(16, vector(2, vector(1, b"http/1.1")))
    found += extension(43, vector(1, b"\x03\x04"))
    shares = b""
    for group in (arena.share_group, arena.second_group):
        key = arena.share[: arena.share_len] if group else b""
        if group == Group.X25519MLKEM768:
            key = bytes(arena.kem.ek) + key
        shares += int(group).to_bytes(2, "big") + vector(2, key) if group else b""
    found += extension(51, vector(2, shares))
    if arena.cookie_len:
        found += extension(44, vector(2, arena.cookie[: arena.cookie_len]))
    body = b"\x03\x03" + bytes(arena.random) + vector(1, bytes(arena.session_id))
    body += numbers(SUITES) + b"\x01\x00" + vector(2, found)
    message = b"\x01" + vector(3, body)
    arena.hello[: len(message)] = message
    arena.hello_len = len(message)
