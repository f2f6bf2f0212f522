"""`shardfw run` over TLS and without, no machine: what the configuration, the image and the gateway become."""

import asyncio
import json
import ssl
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from websockets.asyncio.client import connect

from firmware.layouts.config import CONFIG_MAGIC, ConfigBlob
from firmware.layouts.trust import TRUST_MAGIC, name_hash
from pxe.gateway.certificates import make_chain
from pxe.gateway.cli_support import LOCAL_NAMES
from toolchain.cli import images
from toolchain.cli.blob import config_blob
from toolchain.cli.run import command
from toolchain.cli.run_config import with_gateway
from toolchain.cli.runner import Runner, RunOptions
from toolchain.cli.trust import trust_of
from toolchain.config import load_config
from toolchain.layout.pack import pack, unpack
from toolchain.trust import read_anchor, read_pem

MAGIC = pack(ConfigBlob, {"magic": CONFIG_MAGIC, "version": 1})[:8]


@pytest.mark.parametrize("option", ["--tls", "--no-tls"])
def test_tls_is_about_the_local_gateway(tmp_path, option):
    argv = ["--no-gateway", option, "-c", str(tmp_path / "node.toml")]
    result = CliRunner().invoke(command, argv)
    assert result.exit_code == 2
    told = f"{option} is about the local gateway; without one the URL of the configuration decides"
    assert told in " ".join(result.output.replace("│", "").split())


@pytest.mark.parametrize(
    ("argv", "tls"), [([], True), (["--tls"], True), (["--no-tls"], False)], ids=str
)
def test_the_local_gateway_serves_tls_unless_told_otherwise(monkeypatch, argv, tls):
    seen = []

    async def run(runner, _until):
        seen.append(runner.options)

    monkeypatch.setattr(Runner, "run", run)
    result = CliRunner().invoke(command, [*argv, "--json"])
    assert result.exit_code == 0, result.output
    assert [options.tls for options in seen] == [tls]


ROOT = make_chain(LOCAL_NAMES).root


@pytest.mark.parametrize(
    ("gateway", "place", "url"),
    [
        ({}, "url", "wss://10.0.2.2:4321/?v=10&encoding=json"),
        ({"url": "wss://gw.lan/x?y=1"}, "url", "wss://10.0.2.2:4321/x?y=1"),
        ({"host": "gw.lan", "port": 81}, "url", "wss://10.0.2.2:4321/?v=10&encoding=json"),
        ({"discovery": "http"}, "discovery_url", "https://10.0.2.2:4321/gateway/bot"),
    ],
)
def test_over_tls_the_node_trusts_the_local_gateway_s_ca(gateway, place, url):
    config = load_config(None, {}, {f"gateway.{key}": value for key, value in gateway.items()})
    changed = with_gateway(config, 4321, ROOT)
    assert changed.gateway.endpoint.url == url
    assert getattr(changed.gateway, place) == url
    assert unpack(ConfigBlob, config_blob(changed))["gateway_secure"] == 1
    trust = trust_of(changed, datetime.now(UTC))
    assert trust is not None
    assert trust.version.endswith(" + local gateway")
    labels = [anchor.label for anchor in trust.anchors]
    assert labels.count("shardfw local gateway, root") == 1
    # The core of the web is there as well: the node finds this root among others.
    assert len(labels) > 10


def test_anchors_of_the_configuration_stay(tmp_path):
    mine = make_chain(("gw.lan",)).root
    (tmp_path / "ca.pem").write_bytes(mine)
    (tmp_path / "node.toml").write_text(
        '[gateway]\nurl = "wss://gw.lan/"\n[tls]\nanchors = "none"\nextra_anchors = ["ca.pem"]\n'
        f'pins = ["sha256/{"A" * 43}="]\n'
    )
    config = load_config(tmp_path / "node.toml", {})
    secure = with_gateway(config, 4321, ROOT)
    trust = trust_of(secure, datetime.now(UTC))
    assert trust is not None
    assert trust.version == "ca.pem + local gateway"
    assert len(trust.anchors) == 2
    # The pins are of the gateway that the local one stands in for.
    own = trust_of(config, datetime.now(UTC))
    assert own is not None
    assert (own.pins, trust.pins) == ((bytes(32),), ())
    # With --no-tls the local gateway is plain, whatever the configuration's is.
    plain = with_gateway(config, 4321)
    assert plain.gateway.endpoint.url == "ws://10.0.2.2:4321/?v=10&encoding=json"
    assert trust_of(plain, datetime.now(UTC)) is None


@pytest.mark.parametrize(("tls", "transport"), [(False, "ws"), (True, "wss")])
def test_a_run_lays_an_image_down_that_reaches_its_gateway(tmp_path, monkeypatch, tls, transport):
    """All but QEMU: the gateway serves what the image asks for, and the image trusts it."""
    for name in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    laid = []

    async def boot(runner, _stack, _folder, config):
        laid.append(images.complete(images.template_of(images.link()), config))
        return SimpleNamespace(forwarded_port=forwarded, pid=1)

    async def forwarded():
        return 4747

    async def reach(runner, _until):
        port, file = runner.gateway.port, laid[0]
        page = unpack(ConfigBlob, file[file.index(MAGIC) :])
        assert (page["gateway_port"], page["gateway_secure"]) == (port, int(tls))
        context = None
        if tls:
            store = file[file.rindex(TRUST_MAGIC.to_bytes(4, "little")) :]
            anchor = read_anchor(read_pem(runner.root, "ca.pem")[0])
            assert anchor.subject + anchor.spki in store
            context = ssl.create_default_context(cadata=runner.root.decode())
            known = (await runner._where({}))["anchors"]
            assert known[f"{name_hash(anchor.subject):016x}"] == anchor.label
        url = f"{transport}://127.0.0.1:{port}/?v=10&encoding=json"
        name = "10.0.2.2" if tls else None
        async with connect(url, ssl=context, server_hostname=name) as client:
            assert json.loads(await client.recv())["op"] == 10

    monkeypatch.setattr(Runner, "_start", boot)
    monkeypatch.setattr(Runner, "_wait", reach)
    options = RunOptions(load_config(None, {}, {"shards.count": 2}), "node", tls=tls)
    runner = Runner(options)
    asyncio.run(runner.run(lambda _runner: asyncio.sleep(0)))
    assert len(laid) == 1
    assert runner.report()["transport"] == transport
