"""A node in QEMU and a real NATS server: both links log in, stay, come back, and are refused aloud."""

import asyncio
import os
import re
import signal
from dataclasses import replace

import nkeys
import pytest

from firmware.image import link_direct
from firmware.layouts.bus_sites import CLOSED, FAULT, LAME_DUCK, NO_TLS, TLS_WANTED, UNAUTHORIZED
from firmware.layouts.tcp import TCP_RESET
from pxe.gateway.certificates import make_chain
from pxe.nats import NatsOptions, NatsServer, NatsUser, node_permissions
from pxe.node import DirectBoot, Node, NodeOptions, UserNet
from tests.support.site import PATIENCE_S
from tests.system.roles import link_fault
from toolchain.cli import images
from toolchain.cli.diagnostics import ask, link_reports
from toolchain.cli.run_config import LOCAL_CA, with_lines
from toolchain.config import load_config
from toolchain.config.nkey import NKEY_ENV
from toolchain.config.secret import PASSWORD_ENV

pytestmark = pytest.mark.system
HOST = "10.0.2.2"
"""This machine, as a node on QEMU's user network sees it."""
USER, PASSWORD = "n7", "only-for-this-test"
SEED = nkeys.encode_seed(bytes(range(7, 39)), nkeys.PREFIX_BYTE_USER).decode()
PUBLIC = nkeys.from_seed(bytearray(SEED.encode())).public_key.decode()
PLAIN, SECURE = ({"gateway.url": f"{scheme}://gateway.test/"} for scheme in ("ws", "wss"))
BY_USER = {"fleet.auth": "user", "fleet.user": USER}
BY_NKEY = {"fleet.auth": "nkey"}
MAY = node_permissions("b1", "n7")
LET_IN = NatsUser(USER, PASSWORD, permissions=MAY)
CHAIN = make_chain((HOST,))


def node_of(folder, servers, overrides, *, password=PASSWORD, template=None):
    """Return a node of a fleet; it trusts the chain of these tests."""
    fleet = {"fleet.bot": "b1", "fleet.node": "n7", "fleet.servers": servers, "fleet.enrol": False}
    secrets = {PASSWORD_ENV: password, NKEY_ENV: SEED}
    config = load_config(None, dict(os.environ) | secrets, fleet | overrides)
    config = replace(config, extra_anchors=((LOCAL_CA, CHAIN.root),))
    file = folder / f"node{len(list(folder.iterdir()))}.bin"
    template = template or images.cached_template("direct") or images.fresh_template("direct")
    file.write_bytes(images.complete(template, with_lines(config)))
    return Node(NodeOptions(UserNet(), boot=DirectBoot(file)))


def at(nats):
    return f"{HOST}:{nats.port}"


async def both(node, code, values="", after=0):
    """Wait until both links have said something; return the texts."""
    return [
        (await node.wait_line(rf"code={code} link={link} .*{values}", PATIENCE_S, after)).text
        for link in ("control", "data")
    ]


async def clients(nats):
    """Return what the server knows of its clients."""
    found = await nats.monitor("/connz?subs=1&auth=1")
    return found["connections"]


async def seen(folder, options, overrides):
    """Boot a node against a server and wait for both links; return its lines and the clients."""
    async with (
        NatsServer(options) as nats,
        node_of(folder, [at(nats)], overrides) as node,
    ):
        await both(node, r"bus\.up", "version=0x20f01")
        asked = await asyncio.to_thread(ask, "127.0.0.1", await node.forwarded_port(), PATIENCE_S)
        told = [(link["state"], link["server"], link["version"]) for link in link_reports(asked[0])]
        assert told == [("UP", at(nats), "2.15.1")] * 2
        return [line.text for line in node.lines], await clients(nats)


def test_both_links_log_in_over_plain_tcp(tmp_path):
    options = NatsOptions(users=(LET_IN,))
    lines, found = asyncio.run(seen(tmp_path, options, PLAIN | BY_USER))
    assert [c["name"] for c in found] == ["n7", "n7"]
    inboxes = sorted(s for c in found for s in c["subscriptions_list"] if s.startswith("_I."))
    assert re.fullmatch(r"_I\.n7\.[0-9a-f]{8}\.c\.\*", inboxes[0])
    assert inboxes[1] == inboxes[0].replace(".c.", ".d.")
    assert not any(PASSWORD in line for line in lines)


@pytest.mark.parametrize("first", [False, True], ids=["after INFO", "handshake first"])
def test_both_links_log_in_over_tls_by_nkey(tmp_path, first):
    users = (NatsUser(nkey=PUBLIC, permissions=MAY),)
    options = NatsOptions(users=users, tls=CHAIN, handshake_first=first)
    overrides = SECURE | BY_NKEY | {"fleet.handshake_first": first}
    lines, found = asyncio.run(seen(tmp_path, options, overrides))
    assert [(c["tls_version"], c["authorized_user"]) for c in found] == [("1.3", PUBLIC)] * 2
    assert "login=nkey" in next(line for line in lines if "code=bus.started" in line)


def test_nkey_over_plain_tcp(tmp_path):
    options = NatsOptions(users=(NatsUser(nkey=PUBLIC, permissions=MAY),))
    _, found = asyncio.run(seen(tmp_path, options, PLAIN | BY_NKEY))
    assert [c["authorized_user"] for c in found] == [PUBLIC] * 2


@pytest.mark.parametrize(
    ("options", "overrides", "site"),
    [
        (NatsOptions(users=(NatsUser(USER, "another"),)), PLAIN | BY_USER, UNAUTHORIZED),
        (NatsOptions(tls=CHAIN), PLAIN, TLS_WANTED),
        (NatsOptions(), SECURE, NO_TLS),
    ],
    ids=["wrong password", "server wants TLS", "server has no TLS"],
)
def test_what_the_operator_has_to_mend_is_refused_aloud(tmp_path, options, overrides, site):
    async def main():
        async with (
            NatsServer(options) as nats,
            node_of(tmp_path, [at(nats)], overrides) as node,
        ):
            await both(node, r"bus\.refused", f"error={site.code:#x} .*retry=10000")

    asyncio.run(main())


def test_the_links_come_back_after_a_crash_and_go_round_the_list(tmp_path):
    """The first server dies, the second takes over; it says that it stops, and the first is back."""

    async def main():
        async with (
            NatsServer(name="n1") as one,
            NatsServer(name="n2") as two,
            node_of(tmp_path, [at(one), at(two)], PLAIN) as node,
        ):
            await both(node, r"bus\.up")
            live, other = (one, two) if await clients(one) else (two, one)
            assert len(await clients(live)) == 2
            await live.end(signal.SIGKILL)
            gone = f"error=({CLOSED.code:#x}|{TCP_RESET.code:#x}) "
            await both(node, r"bus\.down", gone)
            await both(node, r"bus\.up", f"port={other.port} ")
            assert len(await clients(other)) == 2
            await live.start()
            after = len(node.lines)
            other.send_signal(signal.SIGUSR2)
            await both(node, r"bus\.down", f"error={LAME_DUCK.code:#x} ", after)
            await both(node, r"bus\.up", f"port={live.port} ", after)
            assert len(await clients(live)) == 2

    asyncio.run(main())


def test_a_fault_in_the_code_of_a_link_costs_the_link(tmp_path):
    """The node does not start again, and the link is tried again: it faults once more."""

    async def main():
        replaced, _ = link_direct({"bus_version": link_fault.bus_version})
        template = images.template_of(replaced, release=False)
        async with (
            NatsServer() as nats,
            node_of(tmp_path, [at(nats)], PLAIN, template=template) as node,
        ):
            await both(node, r"bus\.fault", "vector=14 .*address=0x0")
            after = len(node.lines)
            await both(node, r"bus\.fault", "vector=14 ", after)
            assert await node.status() == "running"
            return [line.text for line in node.lines]

    lines = asyncio.run(main())
    assert sum("code=boot.ready" in line for line in lines) == 1
    refused = [line for line in lines if "code=bus.refused" in line]
    assert all(f"error={FAULT.code | 14:#x}" in line for line in refused)
    assert len(refused) >= 3  # the last one may not be printed yet
