"""`shardfw build` of a fleet's node: its page is in the image, its secrets are there alone."""

import json

import nkeys
import pytest
from click.testing import CliRunner

from firmware.layouts.config import CONFIG_MAGIC, ConfigBlob
from firmware.layouts.fleet_config import FLEET_MAGIC, FleetConfig
from firmware.layouts.policy import SessionProvider
from toolchain.cli import images
from toolchain.cli.build import command
from toolchain.layout.pack import pack, unpack

PASSWORD = "a-password-for-the-build-test"  # noqa: S105 - made up
KEY = bytes(range(100, 132))
SEED = nkeys.encode_seed(KEY, nkeys.PREFIX_BYTE_USER).decode()
PUBLIC = nkeys.from_seed(bytearray(SEED.encode())).public_key


@pytest.mark.parametrize(
    ("lines", "secret", "kept"),
    [("auth = 'user'\nuser = 'n7'", PASSWORD.encode(), b"n7"), ("auth = 'nkey'", KEY, PUBLIC)],
)
def test_the_secret_is_in_the_image_alone(tmp_path, monkeypatch, lines, secret, kept):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHARDFW_FLEET_PASSWORD", PASSWORD)
    monkeypatch.setenv("SHARDFW_FLEET_NKEY", SEED)
    text = f"[fleet]\nbot = 'b1'\nnode = 'n7'\nservers = ['nats.lan']\n{lines}\n"
    (tmp_path / "node.toml").write_text(text)
    result = CliRunner().invoke(command, ["-c", "node.toml", "-o", "out", "--json"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    image = (tmp_path / report["files"]["image"]).read_bytes()
    at = image.index(pack(FleetConfig, {"magic": FLEET_MAGIC, "auth": image_auth(lines)})[:5])
    page = image[at : at + FleetConfig.SIZE]
    assert secret in page
    assert kept in page
    assert unpack(FleetConfig, page)["bot"].rstrip(b"\0") == b"b1"
    at = image.index(pack(ConfigBlob, {"magic": CONFIG_MAGIC, "version": 1})[:8])
    page = image[at : at + ConfigBlob.SIZE]
    assert unpack(ConfigBlob, page)["session_provider"] == SessionProvider.BUS
    for name in ("elf", "map", "listing"):
        assert secret not in (tmp_path / report["files"][name]).read_bytes()
    assert kept in (tmp_path / report["files"]["elf"]).read_bytes()
    assert secret not in result.output.encode()


@pytest.mark.parametrize("enrol", [True, False])
def test_a_token_inside_the_image_is_warned_of(tmp_path, monkeypatch, enrol):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHARDFW_TOKEN", "a.token.of.the-build-test")
    lines = f"enrol = {str(enrol).lower()}"
    (tmp_path / "node.toml").write_text(f"[fleet]\nbot = 'b1'\nservers = ['nats.lan']\n{lines}\n")
    result = CliRunner().invoke(command, ["-c", "node.toml", "-o", "out", "--json"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    image = (tmp_path / report["files"]["image"]).read_bytes()
    assert (b"a.token.of.the-build-test" in image) == (not enrol)
    said = any(note.startswith("the bot's token is in the image") for note in report["notes"])
    assert said == (not enrol)


def image_auth(lines):
    return 1 if "user =" in lines else 2


def test_the_cache_keeps_where_the_page_lies(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert images.cached_template("direct") is None
    made = images.fresh_template("direct")
    assert images.cached_template("direct") == made
    assert [part.size for part in made.parts] == [4096, FleetConfig.SIZE]
