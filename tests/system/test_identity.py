"""The machine's own firmware tells UUID and serial number; `shardfw status` shows them."""

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
UUID, SERIAL = "4c4c4544-0057-4d10-8030-b4c04f4b5931", "S-1 of rack 7"
SECONDS = 60
FORMS = {"32": "32", "64": "64"}
"""SMBIOS 2.8 and 3.0, as QEMU makes them."""


@pytest.fixture
def options(tmp_path, monkeypatch):
    """What to run, with folders of its own."""
    for name in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "TMPDIR"):
        folder = tmp_path / name.lower()
        folder.mkdir()
        monkeypatch.setenv(name, str(folder))
    config = load_config(None, {}, {"shards.count": 1}, makes_key=True)
    return lambda **more: RunOptions(config=config, name=DEFAULT_NAME, target="direct", **more)


def node_of(runner):
    """Run a node until its shard is READY; return what its status says of it then."""
    answers: list[str] = []

    async def ask(running):
        await running.until_ready(SECONDS)
        done = await asyncio.to_thread(
            subprocess.run,
            [*CLI, "status", "--json"],
            capture_output=True, text=True, timeout=SECONDS, check=True,
        )  # fmt: skip
        answers.append(done.stdout)

    asyncio.run(runner.run(ask))
    return json.loads(answers[0])["node"]


@pytest.mark.parametrize("form", FORMS)
def test_uuid_and_serial_number_are_those_of_the_machine(options, form):
    given = ("-machine", f"smbios-entry-point-type={form}", "-uuid", UUID)
    node = node_of(Runner(options(extra=(*given, "-smbios", f"type=1,serial={SERIAL}"))))
    assert (node["uuid"], node["serial"]) == (UUID, "S-1_of_rack_7")


def test_a_machine_that_tells_nothing_is_without_them(options):
    node = node_of(Runner(options()))
    assert (node["uuid"], node["serial"]) == (None, None)
