"""A node in QEMU logs in to a real nats-server in every way that [fleet] knows."""

import asyncio

import nkeys
import pytest

from pxe.gateway.certificates import make_chain
from pxe.nats import NatsOptions, NatsServer, NatsUser, node_permissions
from pxe.node import DirectBoot, Node, NodeOptions, UserNet
from toolchain.cli import images
from toolchain.cli.run_config import with_lines
from toolchain.config import load_config

pytestmark = pytest.mark.system
UP_S = 60
PASSWORD = "pw-of-a-test"  # noqa: S105 - opens a server that lives for a test
KEY = bytes(range(32))
SEED = nkeys.encode_seed(KEY, nkeys.PREFIX_BYTE_USER).decode()
PUBLIC = nkeys.from_seed(bytearray(SEED.encode())).public_key.decode()
MAC = "52:54:00:f1:ee:07"
NAME = "n525400f1ee07"
RIGHTS = node_permissions("b1", NAME)


@pytest.mark.parametrize(
    ("lines", "user", "tls", "first"),
    [
        ("", None, False, False),
        (
            "auth = 'user'\nuser = 'ada'",
            NatsUser("ada", PASSWORD, permissions=RIGHTS),
            False,
            False,
        ),
        ("auth = 'nkey'", NatsUser(nkey=PUBLIC, permissions=RIGHTS), False, False),
        ("auth = 'user'\nuser = 'ada'", NatsUser("ada", PASSWORD, permissions=RIGHTS), True, False),
        ("auth = 'nkey'", NatsUser(nkey=PUBLIC, permissions=RIGHTS), True, True),
    ],
)
def test_both_links_come_up(tmp_path, lines, user, tls, first):
    async def run():
        chain = make_chain(("10.0.2.2",)) if tls else None
        options = NatsOptions(
            users=() if user is None else (user,), tls=chain, handshake_first=first
        )
        async with NatsServer(options) as server:
            first_line = "handshake_first = true\n" if first else ""
            text = (
                f"[fleet]\nbot = 'b1'\nservers = ['10.0.2.2:{server.port}']\n{first_line}{lines}\n"
            )
            if chain is not None:
                (tmp_path / "ca.pem").write_bytes(chain.root)
                text += "[gateway]\nurl = 'wss://10.0.2.2/'\n"
                text += "[tls]\nanchors = 'none'\nextra_anchors = ['ca.pem']\n"
            (tmp_path / "node.toml").write_text(text)
            secrets = {"SHARDFW_NATS_PASSWORD": PASSWORD, "SHARDFW_NATS_NKEY": SEED}
            config = load_config(tmp_path / "node.toml", secrets)
            template = images.cached_template("direct") or images.fresh_template("direct")
            file = tmp_path / "node.bin"
            file.write_bytes(images.complete(template, with_lines(config)))
            machine = NodeOptions(net=UserNet(), boot=DirectBoot(file), mac=MAC)
            async with Node(machine) as node:
                for link in ("control", "data"):
                    await node.wait_line(f"code=bus.up link={link} ", UP_S)
                found = await server.monitor("/connz?auth=true")
                return found["connections"], [line.text for line in node.lines]

    connections, said = asyncio.run(run())
    assert [one["name"] for one in connections] == [NAME, NAME]
    assert {one["lang"] for one in connections} == {"shardfw"}
    assert {one.get("tls_version", "") for one in connections} == {"1.3" if tls else ""}
    assert any("code=node.started total=0 start=0 count=0" in text for text in said)
    assert not any(PASSWORD in text or SEED in text for text in said)
