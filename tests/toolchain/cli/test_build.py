"""`shardfw build`: what it writes, that it is reproducible, that it keeps the token to itself."""

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from firmware.image import link_direct
from firmware.layouts.config import CONFIG_MAGIC, ConfigBlob
from firmware.layouts.policy import OnLimit, Policy
from firmware.limits import BIOS_LIMIT_BYTES, IMAGE_LIMIT_BYTES
from tests.system.roles import hang
from toolchain.build import BuildError
from toolchain.cli import images
from toolchain.cli.build import command
from toolchain.config import load_config
from toolchain.layout.pack import pack, unpack
from toolchain.link.reader import read_image
from toolchain.source import short_path

TOKEN = "MTIz.very-secret-token.42"  # noqa: S105 - made up
KEY = "a-control-key-that-nobody-else-may-see"
NODE_TOML = """
[bot]
token_env = "MY_TOKEN"
intents = 513
[gateway]
url = "ws://10.0.2.2:8099/x?y=1"
max_concurrency = 4
resume_suffix = "Gateway.Lan."
[identify]
large_threshold = 77
[shards]
total = 40
start = 8
count = 12
[lease]
duration_ms = 60000
[network]
dhcp = false
address = "192.0.2.10"
netmask = "255.255.255.0"
router = "192.0.2.1"
[diagnostics]
port = 4800
[control]
key_env = "MY_KEY"
[startup]
on_limit = "fatal"
[backoff]
policy = "schedule"
schedule_ms = [0, 750]
[log]
level = "warn"
serial = false
[build]
time = 1700000000
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    monkeypatch.setenv("MY_TOKEN", TOKEN)
    monkeypatch.setenv("MY_KEY", KEY)
    (tmp_path / "node.toml").write_text(NODE_TOML)
    return tmp_path


def run(*argv):
    return CliRunner().invoke(command, list(argv))


def page_of(contents):
    """The configuration page of a file; code compares with the same number, so the version counts."""
    at = contents.index(pack(ConfigBlob, {"magic": CONFIG_MAGIC, "version": 1})[:8])
    return unpack(ConfigBlob, contents[at:])


def test_help_shows_examples_and_exit_codes():
    output = run("--help").output
    assert "shardfw build -c node.toml -o out" in output
    assert "Exit codes: 0 built" in output


def test_a_keeper_of_sessions_whom_no_key_lets_command_is_refused(folder, monkeypatch):
    monkeypatch.delenv("SHARDFW_CONTROL_KEY", raising=False)
    (folder / "node.toml").write_text('[sessions]\nprovider = "host"\n')
    result = run("-c", "node.toml", "-o", "out")
    assert result.exit_code == 1
    assert 'node.toml:2: sessions.provider: "host" takes sessions over by command' in result.stderr
    assert not (folder / "out").exists()


def test_the_configuration_reaches_the_page(folder):
    result = run("-c", "node.toml", "-o", "out", "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    page = page_of((folder / "out" / "shardfw.nbp").read_bytes())
    assert page["build_id"].hex() == report["build_id"]
    expected = {
        "version": 1,
        "build_time": 1_700_000_000,
        "global_total": 40,
        "local_start": 8,
        "local_count": 12,
        "lease_ms": 60_000,
        "intents": 513,
        "max_concurrency": 4,
        "gateway_port": 8099,
        "diagnostics_port": 4800,
        "log_level": 3,
        "policy": Policy.SCHEDULE,
        "schedule_len": 2,
        "on_limit": OnLimit.FATAL,
        "startup_attempts": 3,
        "min_delay_ms": 1_000,
        "dhcp": 0,
        "serial": 0,
        "static_ip": int.from_bytes(bytes([192, 0, 2, 10]), "little"),
        "static_netmask": 0x00FFFFFF,
        "static_router": int.from_bytes(bytes([192, 0, 2, 1]), "little"),
        "static_dns1": 0,
    }
    assert {key: page[key] for key in expected} == expected
    assert [row["ms"] for row in page["schedule_ms"][:3]] == [0, 750, 0]
    for name, text in (
        ("gateway_host", b"10.0.2.2"),
        ("gateway_path", b"/x?y=1"),
        ("resume_suffix", b"gateway.lan"),
        ("identify_fields", b',"large_threshold":77'),
    ):
        assert page[name].rstrip(b"\0") == text
        assert page[f"{name}_len"] == len(text)
    assert page["token"].rstrip(b"\0") == TOKEN.encode()
    assert page["token_len"] == len(TOKEN)
    assert page["control_key"].rstrip(b"\0") == KEY.encode()
    assert page["control_key_len"] == len(KEY)


@pytest.mark.parametrize("secret", [TOKEN, KEY], ids=["token", "control key"])
def test_secrets_are_in_the_image_alone(folder, secret):
    result = run("-c", "node.toml", "-o", "out")
    assert result.exit_code == 0, result.output
    assert secret not in result.output
    hexed = secret.encode().hex()
    for path in (folder / "out").iterdir():
        contents = path.read_bytes()
        assert (secret.encode() in contents) == (path.suffix == ".nbp"), path
        assert hexed.encode() not in contents.replace(b",0x", b"").replace(b" ", b"")
    assert (folder / "out" / "shardfw.nbp").stat().st_mode & 0o077 == 0
    # The ELF has the same configuration otherwise.
    image = read_image((folder / "out" / "shardfw.elf").read_bytes())
    placed = image.symbols["config_blob"]
    section = image.section(placed.section)
    page = unpack(ConfigBlob, section.contents[placed.address - section.address :])
    assert page["global_total"] == 40
    for name in ("token", "control_key"):
        assert page[name] == bytes(len(page[name]))


def test_same_inputs_same_bytes_elsewhere_with_another_hash_seed(folder):
    code = "from toolchain.cli.main import main; main()"
    outs = []
    for place, seed in (("a", "1"), ("b/c", "2")):
        (folder / place).mkdir(parents=True)
        environ = os.environ | {"PYTHONHASHSEED": seed, "SOURCE_DATE_EPOCH": "1600000000"}
        subprocess.run(
            [sys.executable, "-c", code, "build", "-o", "out"],
            check=True,
            cwd=folder / place,
            env=environ,
            capture_output=True,
        )
        out = folder / place / "out"
        outs.append({path.name: path.read_bytes() for path in out.iterdir()})
    assert set(outs[0]) == {"shardfw.nbp", "shardfw.elf", "shardfw.map", "shardfw.asm"}
    assert outs[0] == outs[1]
    assert page_of(outs[0]["shardfw.nbp"])["build_time"] == 1_600_000_000


@pytest.mark.parametrize("target", images.TARGETS)
def test_a_cached_template_gives_the_same_image(folder, monkeypatch, target):
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    assert images.cached_template(target) is None
    fresh = images.fresh_template(target)
    cached = images.cached_template(target)
    assert cached == fresh
    config = load_config(None, {})
    result = run("--target", target, "--json")
    built = json.loads(result.stdout)["files"]["image"]
    assert images.complete(cached, config) == (folder / built).read_bytes()


def test_a_damaged_cache_is_not_used(folder, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    images.fresh_template("bios")
    (path,) = (folder / "cache" / "shardfw").iterdir()
    contents = bytearray(path.read_bytes())
    contents[-1] ^= 1
    path.write_bytes(contents)
    assert images.cached_template("bios") is None
    path.write_bytes(b"nonsense")
    assert images.cached_template("bios") is None


def test_a_cache_that_cannot_be_written_does_no_harm(folder, monkeypatch):
    (folder / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "file"))
    assert images.fresh_template("bios").packed
    assert images.cached_template("bios") is None


def test_the_digest_of_the_sources_notes_any_change(tmp_path):
    (tmp_path / "firmware").mkdir()
    (tmp_path / "toolchain").mkdir()
    file = tmp_path / "firmware" / "a.py"
    file.write_text("x = 1\n")
    before = images.sources_digest(tmp_path)
    file.write_text("x = 2\n")
    assert images.sources_digest(tmp_path) != before
    file.rename(tmp_path / "firmware" / "b.py")
    file.write_text("x = 1\n")
    assert images.sources_digest(tmp_path) != before


def test_an_image_with_a_test_routine_is_no_release():
    image, _ = link_direct({"node_main": hang.node_main})
    with pytest.raises(BuildError, match="node_main comes from tests/, which is for tests only"):
        images.template_of(image)


def test_the_release_holds_nothing_from_the_tests():
    for target in images.TARGETS:
        files = {placed.thing.where for placed in images.link(target).routines()}
        assert {short_path(file).split("/")[0] for file in files} == {"firmware"}


def test_the_limits_are_those_of_the_firmware():
    fatal = [limit.size for limit in (*images.LIMITS, *images.FILE_LIMITS) if limit.fatal]
    assert fatal == [IMAGE_LIMIT_BYTES, BIOS_LIMIT_BYTES]


def test_configuration_errors_come_with_their_lines(folder):
    (folder / "bad.toml").write_text("[shards]\ncuont = 3\n")
    result = run("-c", "bad.toml")
    assert result.exit_code == 1
    assert "bad.toml" in result.output
    assert "2" in result.output
    assert "Did you mean count?" in result.output
    assert not (folder / "build").exists()


def test_a_missing_configuration_says_what_to_copy(folder):
    result = run("-c", "absent.toml")
    assert result.exit_code == 1
    assert "Copy pxe/templates/node.toml there" in result.output


def test_a_presence_too_long_for_the_page_is_refused(folder):
    name = "x" * 3000
    text = f"[identify]\npresence = {{ activities = [{{ name = '{name}', type = 0 }}] }}\n"
    (folder / "long.toml").write_text(text)
    result = run("-c", "long.toml")
    assert result.exit_code == 1
    assert "bytes; the node holds 2944. Write a shorter presence" in result.output


@pytest.mark.parametrize("key", ["host", "resume_suffix"])
def test_a_host_too_long_for_the_page_is_refused(folder, key):
    host = ".".join(["a" * 60] * 3)
    (folder / "long.toml").write_text(f'[gateway]\n{key} = "{host}"\n')
    result = run("-c", "long.toml")
    assert result.exit_code == 1
    assert f"the gateway's {key} has 182 bytes; the node holds 128" in result.output
