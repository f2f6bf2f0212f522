"""Host and port of a URL."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.gateway.url import url_authority
from firmware.layouts.gateway import UrlFault
from tests.support.lab import Lab

LAB = Lab(url_authority)


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
