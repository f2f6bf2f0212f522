"""TLS in node.toml: which URLs mean it, and who may vouch for the gateway."""

import base64
from datetime import UTC, datetime
from pathlib import Path

import pytest

from firmware.layouts.config import ConfigBlob
from firmware.layouts.tls import Hybrid
from firmware.layouts.trust import TrustStore
from tests.support.chains import issue, root, validity
from toolchain.cli.blob import config_blob
from toolchain.cli.trust import trust_of, trust_store
from toolchain.config import ConfigError, load_config
from toolchain.layout.pack import unpack

LONG = validity("240101000000", "490101000000")
SECURE = "[gateway]\nurl = 'wss://gateway.lan/'\n"


def pem(*encoded):
    return b"".join(
        b"-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(one) + b"-----END CERTIFICATE-----\n"
        for one in encoded
    )


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Load a text as node.toml, so that messages begin with that name."""
    monkeypatch.chdir(tmp_path)

    def run(text):
        Path("node.toml").write_text(text)
        return load_config(Path("node.toml"), {})

    return run


@pytest.fixture
def fail(load):
    def run(text):
        with pytest.raises(ConfigError) as caught:
            load(text)
        return str(caught.value).splitlines()

    return run


@pytest.mark.parametrize(
    ("text", "url", "secure"),
    [
        ("url = 'ws://gw/x?y=1'", "ws://gw:80/x?y=1", 0),
        ("url = 'wss://gw/x?y=1'", "wss://gw:443/x?y=1", 1),
        ("url = 'wss://10.0.2.2:8443'", "wss://10.0.2.2:8443/?v=10&encoding=json", 1),
        ("host = 'gw'\nport = 443", "ws://gw:443/?v=10&encoding=json", 0),
        ("discovery = 'http'", "http://10.0.2.2:80/gateway/bot", 0),
        ("discovery = 'http'\ndiscovery_url = 'http://gw/a'", "http://gw:80/a", 0),
        ("discovery = 'http'\ndiscovery_url = 'https://gw'", "https://gw:443/gateway/bot", 1),
        (
            "profile = 'fluxer'\ndiscovery = 'http'\ndiscovery_url = 'https://gw:1/'",
            "https://gw:1/.well-known/fluxer",
            1,
        ),
    ],
)
def test_the_scheme_says_whether_it_is_tls_and_which_port_is_meant(load, text, url, secure):
    config = load(f"[gateway]\n{text}\n")
    assert config.gateway.endpoint.url == url
    assert config.gateway.endpoint.secure == bool(secure)
    page = unpack(ConfigBlob, config_blob(config))
    assert page["gateway_secure"] == secure
    assert page["gateway_port"] == config.gateway.endpoint.port


def test_the_core_of_the_web_is_trusted_unless_told_otherwise(load):
    assert load(SECURE).tls.anchors == "web"
    assert load(SECURE + "[tls]\nanchors = 'all'\n").tls.anchors == "all"
    assert load(SECURE).extra_anchors == ()


def test_files_are_read_from_beside_the_configuration(tmp_path, load):
    made = pem(root("mine", validity=LONG))
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "ca.pem").write_bytes(made)
    (tmp_path / "node.toml").write_text(
        SECURE + "[tls]\nanchors = 'none'\nextra_anchors = ['private/ca.pem']\n"
    )
    for path in (Path("node.toml"), tmp_path / "node.toml"):
        assert load_config(path, {}).extra_anchors == (("ca.pem", made),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "anchors = 'some'",
            'tls.anchors: "some" does not work in this version. Write "web", "all"',
        ),
        ("anchors = 'none'", "tls.anchors: no server could be trusted. Write extra_anchors = ["),
        (
            "extra_anchors = 'ca.pem'",
            'tls.extra_anchors: "ca.pem" does not work in this version. W',
        ),
        (
            "extra_anchors = [1]",
            "tls.extra_anchors: 1 is not text in double quotes. Write PEM files",
        ),
        ("anchor = 'all'", "tls.anchor: unknown key. Did you mean anchors?"),
        (
            "extra_anchors = ['no.pem']",
            "tls.extra_anchors: cannot read no.pem: No such file or directory. Write paths of PEM",
        ),
        ("extra_anchors = ['.']", "tls.extra_anchors: cannot read .: Is a directory. Write paths"),
        ("extra_anchors = ['text.pem']", "tls.extra_anchors: text.pem holds no certificate. It m"),
        (
            "extra_anchors = ['leaf.pem']",
            "tls.extra_anchors: leaf.pem: x: it is not the certificate of a CA",
        ),
        (
            "extra_anchors = ['old.pem']",
            "tls.extra_anchors: old.pem: old ended on 2025-01-01. Give the CA's present one",
        ),
    ],
)
def test_what_cannot_be_trusted_is_refused(tmp_path, fail, text, message):
    (tmp_path / "text.pem").write_text("hello")
    (tmp_path / "leaf.pem").write_bytes(pem(issue("x", "x", validity=LONG)))
    (tmp_path / "old.pem").write_bytes(
        pem(root("old", validity=validity("240101000000", "250101000000")))
    )
    (line,) = fail(f"{SECURE}[tls]\n{text}\n")
    assert line.startswith(f"node.toml:4: {message}")


PINS = [f"sha256/{base64.b64encode(bytes([n]) + bytes(range(2, 33))).decode()}" for n in range(17)]


@pytest.mark.parametrize("mode", Hybrid)
def test_the_hybrid_goes_into_the_page(load, mode):
    config = load(f"{SECURE}[tls]\nhybrid = '{mode.name.lower()}'\n")
    assert unpack(ConfigBlob, config_blob(config))["tls_hybrid"] == mode


def test_the_hybrid_by_default_and_what_it_may_not_be(load, fail):
    assert unpack(ConfigBlob, config_blob(load(SECURE)))["tls_hybrid"] == Hybrid.OFF
    (line,) = fail(f"{SECURE}[tls]\nhybrid = true\n")
    assert line.startswith("node.toml:4: tls.hybrid: ")
    assert 'true does not work in this version. Write "off", "offer" or "share"' in line
    (line,) = fail("[tls]\nhybrid = 'share'\n")
    assert line.startswith("node.toml:2: tls.hybrid: the gateway is reached without TLS")


def test_pins_go_into_the_store(load):
    assert load(SECURE).tls.pins == []
    config = load(f"{SECURE}[tls]\npins = {PINS[:16]}\n")
    trust = trust_of(config, datetime.now(UTC))
    assert trust is not None
    assert trust.pins == tuple(bytes([n]) + bytes(range(2, 33)) for n in range(16))
    store = trust_store(trust)
    assert store.endswith(b"".join(trust.pins))
    assert unpack(TrustStore, store)["size"] == len(store)


SHORT, LONG_PIN = f"sha256/{'A' * 42}==", f"sha256/{'A' * 44}"


@pytest.mark.parametrize(
    ("pins", "message"),
    [
        *(
            ([pin], f'"{pin}" is no pin. Write "sha256/" and the base64 of the SHA-256 of a Subj')
            for pin in ("", "sha256/", SHORT, LONG_PIN, PINS[0][7:], f"sha1/{PINS[0]}", "sha256/é")
        ),
        ([PINS[0], PINS[1], PINS[0]], "a pin stands twice. Write each once"),
        (PINS, "['sha256/"),
        (PINS[0], f'"{PINS[0]}" does not work in this version. Write at most 16 keys, such as'),
    ],
)
def test_what_is_no_pin_is_refused(fail, pins, message):
    (line,) = fail(f"{SECURE}[tls]\npins = {pins!r}\n")
    assert line.startswith(f"node.toml:4: tls.pins: {message}")


def test_without_tls_a_pin_is_refused(fail):
    (line,) = fail(f"[tls]\npins = {PINS[:1]}\n")
    assert line.startswith("node.toml:2: tls.pins: the gateway is reached without TLS")


@pytest.mark.parametrize(
    "gateway", ["", "[gateway]\nurl = 'ws://gw/'\n", "[gateway]\ndiscovery = 'http'\n"]
)
def test_anchors_without_tls_are_refused_each_at_its_line(fail, gateway):
    text = f"{gateway}[tls]\nanchors = 'web'\nextra_anchors = []\n"
    at = text.count("\n", 0, text.index("anchors")) + 1
    first, second = fail(text)
    why = "the gateway is reached without TLS. Write a wss:// URL (with discovery an https:// one)"
    assert first.startswith(f"node.toml:{at}: tls.anchors: {why}")
    assert second.startswith(f"node.toml:{at + 1}: tls.extra_anchors: {why}")
