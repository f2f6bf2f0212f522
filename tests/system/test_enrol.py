"""A node whose image holds no token: it waits, is approved over a real NATS server with TLS, and is READY."""

import asyncio
import json
import os
import re
import secrets
import ssl
import subprocess
import sys
from dataclasses import replace

import nats
import pytest

from firmware.layouts.enrol import SEALED_BYTES
from pxe.gateway.certificates import make_chain
from pxe.gateway.cli_support import LOCAL_NAMES
from pxe.gateway.options import GatewayOptions
from pxe.gateway.server import GatewayServer
from pxe.nats import NatsOptions, NatsServer, NatsUser, enrol_permissions, node_permissions
from pxe.node import DirectBoot, Node, NodeOptions, UserNet
from tests.support.site import PATIENCE_S
from toolchain.cli import diagnostics, images
from toolchain.cli.run_config import LOCAL_CA, with_gateway, with_lines
from toolchain.config import load_config

pytestmark = pytest.mark.system
HOST = "10.0.2.2"
"""This machine, as a node on QEMU's user network sees it."""
UUID, SERIAL = "4c4c4544-0057-4d10-8030-b4c04f4b5931", "S-1"
TOKEN = "MTk4.released-to.this-boot"  # noqa: S105 - of tests
CLI = [sys.executable, "-c", "import sys; from toolchain.cli.main import main; sys.exit(main())"]
IMAGE_USER, NODE_USER, OPERATOR = "enrol", "n7", "ada"


class Site:
    """NATS with three logins, a gateway that wants the token, an image without it."""

    def __init__(self, folder, nats, gateway, chain, passwords):
        self.folder, self.nats, self.gateway, self.chain = folder, nats, gateway, chain
        self.passwords = passwords
        (folder / "ca.pem").write_bytes(chain.root)

    def trust(self):
        """Return what a client of NATS has to trust."""
        return ssl.create_default_context(cafile=self.folder / "ca.pem")

    def node(self, *, user=IMAGE_USER, **more):
        """Return a node that is not started; what is in its image, and how it logs in."""
        overrides = {
            "fleet.bot": "b1", "fleet.node": "n7", "fleet.servers": [f"{HOST}:{self.nats.port}"],
            "fleet.auth": "user", "fleet.user": user, **more,
        }  # fmt: skip
        environ = {**os.environ, "SHARDFW_FLEET_PASSWORD": self.passwords[user]}
        config = load_config(None, environ | {"SHARDFW_TOKEN": TOKEN}, overrides)
        config = with_lines(with_gateway(config, self.gateway.port, self.chain.root))
        config = replace(config, extra_anchors=((LOCAL_CA, self.chain.root),))
        template = images.cached_template("direct") or images.fresh_template("direct")
        image = images.complete(template, config)
        assert (TOKEN.encode() in image) == (not config.fleet.enrol)
        file = self.folder / "node.bin"
        file.write_bytes(image)
        extra = ("-uuid", UUID, "-smbios", f"type=1,serial={SERIAL}")
        net = UserNet(diagnostics_port=config.diagnostics.port)
        return Node(NodeOptions(net, boot=DirectBoot(file), extra=extra))

    async def cli(self, *words, **environ):
        """Run `shardfw fleet` as the operator."""
        env = {
            **os.environ, "SHARDFW_FLEET_BOT": "b1", "SHARDFW_NATS_URL": self.nats.url,
            "SHARDFW_NATS_USER": OPERATOR, "SHARDFW_NATS_PASSWORD": self.passwords[OPERATOR],
            "SHARDFW_NATS_CA": str(self.folder / "ca.pem"), **environ,
        }  # fmt: skip
        for name in ("SHARDFW_TOKEN", "SHARDFW_NODE_NKEY"):
            env.setdefault(name, "")
            if not env[name]:
                del env[name]
        done = await asyncio.to_thread(
            subprocess.run,
            [*CLI, "fleet", *words], env=env, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout


def at_site(folder, work):
    """Do async work with a site."""

    async def run():
        chain = make_chain(LOCAL_NAMES)
        users = (IMAGE_USER, NODE_USER, OPERATOR)
        passwords = {user: secrets.token_hex(8) for user in users}
        may = {IMAGE_USER: enrol_permissions("b1"), NODE_USER: node_permissions("b1", "n7")}
        known = tuple(NatsUser(u, passwords[u], permissions=may.get(u)) for u in users)
        options = GatewayOptions(shards=2, token=TOKEN)
        async with (
            NatsServer(NatsOptions(known, chain)) as server,
            GatewayServer(options, ssl_context=chain.context()) as gateway,
        ):
            return await work(Site(folder, server, gateway, chain, passwords))

    return asyncio.run(run())


async def status(node):
    """Return what the node says of itself over UDP."""
    port = await node.forwarded_port()
    replies = await asyncio.to_thread(diagnostics.ask, "127.0.0.1", port, PATIENCE_S)
    return diagnostics.node_report(replies[0])


def test_a_node_is_approved_and_ready_with_a_login_that_may_only_enrol(tmp_path):
    async def work(site):
        await site.cli("init", "--total", "2", "--slots", "1", "--new")
        async with site.node() as node:
            line = await node.wait_line(r"code=enrol\.waiting", PATIENCE_S)
            fingerprint = re.findall(r"fingerprint=(0x[0-9a-f]+)", line.text)[0]
            await node.wait_line(r"code=bus\.up link=control", PATIENCE_S)
            waits = await status(node)
            listed = json.loads(await site.cli("approve", "--json"))["waiting"]
            words = ("approve", "n7", "--fingerprint", fingerprint, "--node-user", NODE_USER)
            environ = {"SHARDFW_TOKEN": TOKEN, "SHARDFW_NODE_PASSWORD": site.passwords[NODE_USER]}
            said = await site.cli(*words, **environ)
            await node.wait_line(r"code=enrol\.done", PATIENCE_S)
            for shard in range(2):
                await node.wait_line(rf"shard={shard} code=lifecycle\.ready", PATIENCE_S)
            return (
                fingerprint,
                waits,
                listed,
                said,
                await status(node),
                [x.text for x in node.lines],
            )

    fingerprint, waits, listed, said, ready, lines = at_site(tmp_path, work)
    assert (waits["hold"], waits["enrol"]["state"]) == ("NO_TOKEN", "waiting")
    assert waits["enrol"]["fingerprint"] == fingerprint
    (row,) = listed
    assert (row["node"], row["fingerprint"], row["uuid"], row["serial"]) == (
        "n7", fingerprint, UUID, SERIAL,
    )  # fmt: skip
    assert said == "n7 is enrolled\n"
    assert (ready["hold"], ready["enrol"]["state"]) == (None, "enrolled")
    assert not any(TOKEN in line for line in lines)
    assert not any("code=bus.denied" in line for line in lines), "the login does what it may alone"
    assert not any("fleet.claimed" in line for line in lines[: _index(lines, "enrol.done")])


def test_a_node_whose_image_has_its_own_login_keeps_it(tmp_path):
    async def work(site):
        await site.cli("init", "--total", "2", "--slots", "1", "--new")
        async with site.node(user=NODE_USER) as node:
            line = await node.wait_line(r"code=enrol\.waiting", PATIENCE_S)
            fingerprint = re.findall(r"fingerprint=(0x[0-9a-f]+)", line.text)[0]
            await node.wait_line(r"code=bus\.up link=control", PATIENCE_S)
            words = ("approve", "n7", "--fingerprint", fingerprint)
            said = await site.cli(*words, SHARDFW_TOKEN=TOKEN)
            for shard in range(2):
                await node.wait_line(rf"shard={shard} code=lifecycle\.ready", PATIENCE_S)
            return said, [x.text for x in node.lines]

    said, lines = at_site(tmp_path, work)
    assert said == "n7 is enrolled\n"
    assert not any("code=bus.denied" in line for line in lines)


def _index(lines, code):
    return next(n for n, line in enumerate(lines) if f"code={code}" in line)


def test_what_was_released_to_one_boot_is_nothing_to_the_next_one(tmp_path):
    async def work(site):
        await site.cli("init", "--total", "2", "--slots", "1", "--new")
        environ = {"SHARDFW_TOKEN": TOKEN, "SHARDFW_NODE_PASSWORD": site.passwords[NODE_USER]}
        login = {"user": OPERATOR, "password": site.passwords[OPERATOR], "tls": site.trust()}
        client = await nats.connect(site.nats.url, **login)
        released, asked = [], []

        async def keep(message):
            if len(message.data) == SEALED_BYTES:
                released.append(message.data)

        async def hear(message):
            asked.append(message.reply)

        await client.subscribe("_E.>", cb=keep)
        await client.subscribe("shardfw.b1.enrol.*", cb=hear)
        known = ("--auto", "--identity", f"uuid={UUID},serial={SERIAL}", "--for", "90s")
        async with site.node() as node:
            said = await site.cli("approve", *known, "--node-user", NODE_USER, **environ)
            await node.wait_line(r"code=lifecycle\.ready", PATIENCE_S)
        (sealed,) = released
        asked.clear()
        async with site.node() as node:
            await node.wait_line(r"code=enrol\.waiting", PATIENCE_S)
            while not asked:
                await asyncio.sleep(0.1)
            await client.publish(asked[0], sealed)
            await client.publish(asked[0], sealed + b"x")
            await node.wait_line(r"code=enrol\.refused reason=seal refused=1", PATIENCE_S)
            await node.wait_line(r"code=enrol\.refused reason=length refused=2", PATIENCE_S)
            refused = await status(node)
            await site.cli("approve", *known, "--node-user", NODE_USER, **environ)
            await node.wait_line(r"code=enrol\.done .*refused=2", PATIENCE_S)
            await node.wait_line(r"code=lifecycle\.ready", PATIENCE_S)
        await client.close()
        return said, refused

    said, refused = at_site(tmp_path, work)
    assert said == "n7 is enrolled\n"
    assert (refused["hold"], refused["enrol"]["refused"]) == ("NO_TOKEN", 2)
    assert refused["enrol"]["last_error"] == f"fleet.length({SEALED_BYTES + 1})"


def test_a_token_inside_the_image_is_used_at_once(tmp_path):
    """One node of one's own: `enrol = false`."""

    async def work(site):
        await site.cli("init", "--total", "2", "--slots", "1", "--new")
        async with site.node(user=NODE_USER, **{"fleet.enrol": False}) as node:
            await node.wait_line(r"code=lifecycle\.ready", PATIENCE_S)
            return await status(node), [line.text for line in node.lines]

    ready, lines = at_site(tmp_path, work)
    assert (ready["hold"], ready["enrol"]) == (None, None)
    assert not any("code=enrol." in line for line in lines)
