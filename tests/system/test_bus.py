"""A node in QEMU and a real NATS server: both links log in, stay, come back, and are refused aloud."""

import asyncio
import os
import re

import pytest

from pxe.nats import NatsOptions, NatsServer, NatsUser, node_permissions
from pxe.node import DirectBoot, Node, NodeOptions, UserNet
from tests.support.site import PATIENCE_S
from toolchain.cli import images
from toolchain.cli.run_config import with_lines
from toolchain.config import load_config

pytestmark = pytest.mark.system
HOST = "10.0.2.2"
"""This machine, as a node on QEMU's user network sees it."""
USER, PASSWORD = "n7", "only-for-this-test"
PLAIN = {"gateway.url": "ws://gateway.test/"}
LET_IN = NatsUser(USER, PASSWORD, permissions=node_permissions("b1", "n7"))


def image(folder, servers, overrides, environ=None):
    """Write a fleet node's bootable file."""
    fleet = {"fleet.bot": "b1", "fleet.node": "n7", "fleet.servers": servers}
    given = {"SHARDFW_NATS_PASSWORD": PASSWORD} | (environ or {})
    config = load_config(None, dict(os.environ) | given, fleet | overrides)
    file = folder / f"node{len(list(folder.iterdir()))}.bin"
    template = images.cached_template("direct") or images.fresh_template("direct")
    file.write_bytes(images.complete(template, with_lines(config)))
    return file


def node_of(folder, servers, overrides, environ=None):
    boot = DirectBoot(image(folder, servers, overrides, environ))
    return Node(NodeOptions(UserNet(), boot=boot))


async def both_up(node, after=0):
    """Wait until both links have come UP; return the version that they tell."""
    lines = [
        await node.wait_line(rf"code=bus\.up link={link} ", PATIENCE_S, after)
        for link in ("control", "data")
    ]
    return {re.search(r"version=(0x[0-9a-f]+)", line.text)[1] for line in lines}


async def connections(nats):
    """Return what the server knows of its clients."""
    found = await nats.monitor("/connz?subs=1&auth=1")
    return found["connections"]


def test_both_links_log_in_over_plain_tcp(tmp_path):
    async def main():
        options = NatsOptions(users=(LET_IN,))
        login = {"fleet.auth": "user", "fleet.user": USER}
        async with NatsServer(options) as nats:
            async with node_of(tmp_path, [f"{HOST}:{nats.port}"], PLAIN | login) as node:
                versions = await both_up(node)
                found = await connections(nats)
                return versions, found, [line.text for line in node.lines]

    versions, found, lines = asyncio.run(main())
    assert versions == {"0x20f01"}
    assert [c["name"] for c in found] == ["n7", "n7"]
    inboxes = sorted(c["subscriptions_list"][0] for c in found)
    assert re.fullmatch(r"_I\.n7\.[0-9a-f]{8}\.c\.\*", inboxes[0])
    assert inboxes[1] == inboxes[0].replace(".c.", ".d.")
    assert not any(PASSWORD in line for line in lines)
