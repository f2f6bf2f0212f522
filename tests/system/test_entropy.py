"""A processor without RDRAND: virtio-rng makes it fit for TLS; without one it speaks plaintext alone."""

import asyncio
import json
import subprocess
import sys

import pytest

from toolchain.cli.runner import Runner, RunOptions
from toolchain.cli.runtime import DEFAULT_NAME
from toolchain.config import load_config

pytestmark = pytest.mark.system

CLI = [sys.executable, "-c", "from toolchain.cli.main import main; main()"]
SHARDS, SECONDS = 4, 60
OLD = ("-cpu", "qemu64")
"""SSE3 and nothing after it: no RDRAND, no RDSEED, no AES."""
FORMS = ("virtio-rng-pci", "virtio-rng-pci,disable-modern=on", "virtio-rng-pci,disable-legacy=on")


@pytest.fixture
def options(tmp_path, monkeypatch):
    """What to run, with folders of its own."""
    for name in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "TMPDIR"):
        folder = tmp_path / name.lower()
        folder.mkdir()
        monkeypatch.setenv(name, str(folder))
    config = load_config(None, {}, {"shards.count": SHARDS}, makes_key=True)
    return lambda **more: RunOptions(config=config, name=DEFAULT_NAME, target="direct", **more)


def shown_by(runner, until):
    """Run a node until something holds; return what its status says then, and its log."""
    told: list[str] = []
    answers: list[str] = []
    runner.on_line = lambda line, _parsed: told.append(line.text)

    async def ask(running):
        await until(running)
        command = [*CLI, "status", "--json"]
        done = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, text=True, timeout=SECONDS, check=True
        )
        answers.append(done.stdout)

    asyncio.run(runner.run(ask))
    return json.loads(answers[0]), "\n".join(told)


async def ready(runner):
    await runner.until_ready(SECONDS)


async def fatal(runner):
    async with asyncio.timeout(SECONDS):
        while len(runner.board.fatal) < SHARDS:
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("form", FORMS)
def test_virtio_rng_is_enough_for_tls(options, form):
    runner = Runner(options(extra=(*OLD, "-device", form)))
    shown, log = shown_by(runner, ready)
    assert shown["node"]["entropy"] == "strong"
    assert shown["node"]["entropy_sources"] == {
        "rdseed": "absent", "rdrand": "absent", "virtio_rng": "credited",
    }  # fmt: skip
    assert "code=entropy.gathered rdseed=absent rdrand=absent virtio_rng=credited" in log
    assert {row["tls_state"] for row in shown["shards"]} == {"CONNECTED"}


def test_beside_rdrand_it_is_mixed_in(options):
    shown, _ = shown_by(Runner(options(extra=("-device", FORMS[0]))), ready)
    sources = shown["node"]["entropy_sources"]
    assert (sources["rdrand"], sources["virtio_rng"]) == ("credited", "credited")


def test_without_a_source_there_is_plaintext_alone(options):
    shown, log = shown_by(Runner(options(tls=False, extra=OLD)), ready)
    assert shown["node"]["entropy"] == "weak"
    assert set(shown["node"]["entropy_sources"].values()) == {"absent"}
    assert "entropy.failed" not in log


def test_without_a_source_there_is_no_tls(options):
    shown, _ = shown_by(Runner(options(extra=OLD)), fatal)
    assert shown["node"]["entropy"] == "weak"
    assert {row["last_error_text"] for row in shown["shards"]} == {"tls.no_entropy"}
    assert {row["state"] for row in shown["shards"]} == {"FATAL"}


def test_a_device_that_never_answers_costs_a_moment(options):
    """Its host has no bytes: the node goes on with RDRAND, and says what failed."""
    silent = ("-chardev", "null,id=none", "-object", "rng-egd,chardev=none,id=egd")
    extra = (*silent, "-device", "virtio-rng-pci,rng=egd")
    shown, log = shown_by(Runner(options(extra=extra)), ready)
    assert shown["node"]["entropy"] == "strong"
    assert shown["node"]["entropy_sources"]["virtio_rng"] == "failed"
    assert "level=warn code=entropy.failed source=virtio_rng" in log
