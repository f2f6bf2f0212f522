"""What a server says in a handshake, built part by part so that every part can be wrong."""

from __future__ import annotations

SHARE = bytes(range(32))
VERSIONS = (43, b"\x03\x04")
HTTP = (16, b"\0\x09\x08http/1.1")
SCHEMES = (13, b"\0\2\4\3")


def extension(kind: int, value: bytes) -> bytes:
    """Return an extension."""
    return kind.to_bytes(2, "big") + len(value).to_bytes(2, "big") + value


def block(*extensions: tuple[int, bytes]) -> bytes:
    """Return extensions with the length before them."""
    whole = b"".join(extension(*one) for one in extensions)
    return len(whole).to_bytes(2, "big") + whole


def share(group: int = 0x001D, key: bytes = SHARE, size: int | None = None) -> tuple[int, bytes]:
    """Return the extension with a server's key share."""
    size = len(key) if size is None else size
    return 51, group.to_bytes(2, "big") + size.to_bytes(2, "big") + key


def hello(
    *extensions: tuple[int, bytes],
    version: int = 0x0303,
    random: bytes = b"r" * 32,
    session_id: bytes = bytes(range(100, 132)),
    suite: int = 0x1301,
    compression: int = 0,
    tail: bytes = b"",
) -> bytes:
    """Return the body of a ServerHello; without extensions it is one of TLS 1.2."""
    body = version.to_bytes(2, "big") + random + bytes([len(session_id)]) + session_id
    body += suite.to_bytes(2, "big") + bytes([compression])
    return body + (block(*extensions) if extensions else b"") + tail


def message(body: bytes, kind: int = 2) -> bytes:
    """Return a handshake message."""
    return bytes([kind]) + len(body).to_bytes(3, "big") + body


def plain(content: bytes, kind: int = 22) -> bytes:
    """Return a record that is not protected."""
    return bytes([kind]) + b"\x03\x03" + len(content).to_bytes(2, "big") + content
