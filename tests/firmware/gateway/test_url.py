"""Scheme, host and port of a URL."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.gateway.url import HTTP, WEB_SOCKET, url_authority, url_scheme
from firmware.layouts.config import CONFIG
from firmware.layouts.gateway import UrlFault
from tests.support.lab import Lab

LAB = Lab(url_authority, url_scheme)


def split(text, default=80):
    """Return host, port and rest, or the fault; nothing is mapped behind the text."""
    LAB.reset()
    at = LAB.put(text)
    found = LAB.call(url_authority, text=at, end=at + len(text), default=default).outputs
    if found["eax"]:
        return UrlFault(found["eax"])
    return text[: found["ecx"]], found["edx"], text[found["rsi"] - at :]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"a", (b"a", 443, b"")),
        (b"gateway.test:8080", (b"gateway.test", 8080, b"")),
        (b"10.0.2.2:1/x?y", (b"10.0.2.2", 1, b"/x?y")),
        (b"a_b-c.D:65535?q", (b"a_b-c.D", 65535, b"?q")),
        (b"a" * 128 + b"/", (b"a" * 128, 443, b"/")),
        (b"a" * 129, UrlFault.HOST),
        (b"", UrlFault.HOST),
        (b":80", UrlFault.HOST),
        (b"[::1]:80", UrlFault.HOST),
        (b"a:", UrlFault.PORT),
        (b"a:0", UrlFault.PORT),
        (b"a:65536", UrlFault.PORT),
        (b"a:4294967376", UrlFault.PORT),
        (b"a:8x", UrlFault.PORT),
        (b"user@host", UrlFault.PORT),
        (b"a#b", UrlFault.PORT),
        (b"a:80#b", UrlFault.PORT),
    ],
)
def test_url_authority(text, expected):
    assert split(text, 443) == expected


@settings(max_examples=120, deadline=None)
@given(text=st.text(alphabet="aZ9.-_:/?#@[]0 \x7f", max_size=24).map(str.encode))
def test_url_authority_any_text_matches_the_model(text):
    split(text)


def scheme(text, kind, secure):
    """Return the port and the scheme's bytes, or the fault."""
    LAB.reset()
    LAB.g(CONFIG).gateway_secure = secure
    at = LAB.put(text.ljust(8, b"x"))
    found = LAB.call(url_scheme, text=at, kind=kind).outputs
    if found["eax"]:
        return UrlFault(found["eax"])
    return found["edx"], found["rsi"] - at


@pytest.mark.parametrize("secure", [0, 1])
@pytest.mark.parametrize(
    ("text", "kind", "encrypted", "port"),
    [(b"ws://", WEB_SOCKET, 0, 80), (b"wss://", WEB_SOCKET, 1, 443),
     (b"http://", HTTP, 0, 80), (b"https://", HTTP, 1, 443)],
)  # fmt: skip
def test_a_scheme_is_as_secure_as_the_configured_url(text, kind, encrypted, port, secure):
    wanted = (port, len(text)) if encrypted == secure else UrlFault.SECURITY
    assert scheme(text, kind, secure) == wanted
    other = HTTP if kind == WEB_SOCKET else WEB_SOCKET
    assert scheme(text, other, secure) == UrlFault.SCHEME
    # Every letter counts.
    for at in range(len(text)):
        wrong = text[:at] + bytes([text[at] ^ 0x20]) + text[at + 1 :]
        assert scheme(wrong, kind, secure) == UrlFault.SCHEME
