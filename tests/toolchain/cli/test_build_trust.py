"""`shardfw build` with TLS: the anchors in the image, what is said of them, and the bounds."""

import base64
import json
from datetime import UTC, datetime, timedelta
from importlib import metadata

import pytest
from click.testing import CliRunner

from firmware.layouts.config import CONFIG_MAGIC, ConfigBlob
from firmware.layouts.trust import (
    EMPTY_STORE,
    TRUST_MAGIC,
    TrustEntry,
    TrustRecord,
    TrustStore,
    name_hash,
)
from tests.support.chains import root, validity
from toolchain.build import BuildError, Template
from toolchain.cli import images
from toolchain.cli.blob import RELEASED
from toolchain.cli.build import command
from toolchain.cli.trust import store_of, trust_of
from toolchain.config import load_config
from toolchain.layout.pack import pack, unpack
from toolchain.link.reader import read_image
from toolchain.trust import read_anchor

TODAY = datetime.now(UTC)
CERTIFI = f"certifi {metadata.version('certifi')}"


def pem(encoded):
    text = base64.encodebytes(encoded)
    return b"-----BEGIN CERTIFICATE-----\n" + text + b"-----END CERTIFICATE-----\n"


def mine(days):
    end = f"{TODAY + timedelta(days=days, hours=1):%y%m%d%H%M%S}"
    return root("my root", validity=validity("240101000000", end))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    return tmp_path


def build(folder, tls, *argv):
    (folder / "node.toml").write_text(f'[gateway]\nurl = "wss://gateway.lan/"\n[tls]\n{tls}\n')
    return CliRunner().invoke(command, ["-c", "node.toml", "-o", "out", *argv])


@pytest.mark.parametrize("target", images.TARGETS)
def test_the_store_is_the_last_part_of_every_file(folder, target):
    (folder / "ca.pem").write_bytes(pem(mine(1000)))
    tls = 'anchors = "none"\nextra_anchors = ["ca.pem"]'
    result = build(folder, tls, "--target", target, "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    file = (folder / report["files"]["image"]).read_bytes()
    at = file.rindex(TRUST_MAGIC.to_bytes(4, "little"))
    head = unpack(TrustStore, file[at:])
    assert at == report["bounded_bytes"]
    assert len(file) == report["image_bytes"] == at + 4096
    assert head["version"].rstrip(b"\0") == b"ca.pem" == report["trust"]["version"].encode()
    assert head["digest"].hex() == report["trust"]["sha256"]
    assert head["size"] == report["trust"]["bytes"] == report["sections"][".trust"]
    assert not any(file[at + head["size"] :])
    # One anchor, as the node finds it: by the hash of its name.
    anchor = read_anchor(mine(1000))
    assert head["count"] == report["trust"]["anchors"] == 1
    entry = unpack(TrustEntry, file[at + TrustStore.SIZE :])
    assert entry["hash"] == name_hash(anchor.subject)
    record = at + entry["offset"]
    assert unpack(TrustRecord, file[record:])["not_after"] == int(anchor.not_after.timestamp())
    assert file[record + TrustRecord.SIZE :].startswith(anchor.subject + anchor.spki)
    # The ELF shows the same bytes under the symbol's name.
    image = read_image((folder / report["files"]["elf"]).read_bytes())
    assert image.section(".trust").contents == file[at : at + head["size"]]
    assert image.symbols["trust_store"].size == head["size"]


def test_a_template_made_without_anchors_serves_a_build_with_them(folder):
    result = build(folder, 'anchors = "all"', "--json")
    built = folder / json.loads(result.stdout)["files"]["image"]
    config = load_config(folder / "node.toml", {})
    template = images.template_of(images.link("bios"))
    made = images.complete(template, config)
    assert len(made) > len(template.packed) + 48 * 1024
    assert made == built.read_bytes()


def test_without_tls_the_image_trusts_nobody(folder):
    result = CliRunner().invoke(command, ["-o", "out", "--json"])
    report = json.loads(result.stdout)
    file = (folder / report["files"]["image"]).read_bytes()
    assert report["trust"] is None
    assert file[report["bounded_bytes"] :].rstrip(b"\0") == EMPTY_STORE.rstrip(b"\0")
    assert unpack(TrustStore, EMPTY_STORE)["count"] == 0


def test_the_report_names_version_digest_and_size(folder):
    result = build(folder, 'anchors = "web"')
    assert result.exit_code == 0, result.output
    trust = trust_of(load_config(folder / "node.toml", {}), TODAY)
    assert trust is not None
    store = store_of(trust)
    assert (
        f"  trust     {len(trust.anchors)} anchors in {len(store)} bytes, {CERTIFI}, SHA-256 "
        f"{trust.digest.hex()}\n"
    ) in result.output
    assert " bytes with the trust store" in result.output


def test_the_report_names_the_pins(folder):
    pin = "sha256/" + "A" * 43 + "="
    result = build(folder, f'pins = ["{pin}"]')
    assert result.exit_code == 0, result.output
    assert " anchors and 1 pins in " in result.output
    assert json.loads(build(folder, "", "--json").stdout)["trust"]["pins"] == 0


@pytest.mark.parametrize(
    ("stated", "time"), [("", RELEASED), ("[build]\ntime = 1800000000\n", 1_800_000_000)]
)
def test_an_image_with_tls_says_when_it_was_built_at_the_earliest(folder, stated, time):
    """A node with TLS tells an impossible clock by it."""
    result = build(folder, f'anchors = "web"\n{stated}', "--json")
    report = json.loads(result.stdout)
    file = (folder / report["files"]["image"]).read_bytes()
    at = file.index(pack(ConfigBlob, {"magic": CONFIG_MAGIC, "version": 1})[:8])
    assert unpack(ConfigBlob, file[at:])["build_time"] == report["build_time"] == time
    assert datetime.fromtimestamp(RELEASED, UTC) < TODAY


@pytest.mark.parametrize(("days", "warned"), [(1, True), (89, True), (90, False)])
def test_an_anchor_that_ends_within_90_days_is_warned_about_and_built(folder, days, warned):
    (folder / "ca.pem").write_bytes(pem(mine(days)))
    result = build(folder, 'anchors = "none"\nextra_anchors = ["ca.pem"]')
    assert result.exit_code == 0, result.output
    day = (TODAY + timedelta(days=days, hours=1)).date()
    assert (f"  note      my root ends on {day}, in {days} days\n" in result.output) == warned


def test_the_bound_of_the_version_does_not_count_the_store_and_that_of_the_rom_does():
    room = 480 * 1024
    template = Template(bytes(308 * 1024), ())
    assert len(images.judge(template, bytes(room))) == 1
    with pytest.raises(BuildError, match="more than 315392: the bound of this version"):
        images.judge(Template(bytes(308 * 1024 + 1), ()), bytes(room))
    with pytest.raises(BuildError, match="more than 491520: a BIOS boot ROM has no room for it"):
        images.judge(template, bytes(room + 1))
