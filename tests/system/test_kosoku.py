"""kosoku against a QEMU node: the WebSocket layer end to end, on real TCP."""

import asyncio
import os
import socket

import pytest

from firmware.image import link_direct
from firmware.layouts.echo import ECHO_MAGIC, EchoControl
from pxe.node import DirectBoot, Node, NodeOptions, UserNet
from tests.support.kosoku import CASES, failures, verdicts
from tests.system.roles import echo_node
from toolchain.cli import images
from toolchain.cli.run_config import with_lines
from toolchain.config import load_config
from toolchain.layout.pack import pack as pack_struct

pytestmark = pytest.mark.system
BOOT_S, CASE_S = 60, 60
QEMU_HOST = b"10.0.2.2"
VERDICT = "code=gateway.closed"


def echo_image(folder):
    """Write a bootable file whose one shard is the echo role."""
    roles = (echo_node.shard_tick, echo_node.diagnostics_input)
    linked = link_direct({role.name: role for role in roles})[0]
    config = load_config(None, os.environ, {"shards.total": 1, "shards.count": 1})
    file = folder / "echo.bin"
    template = images.template_of(linked, release=False)
    file.write_bytes(images.complete(template, with_lines(config)))
    return file


def control(port, path):
    """Return the datagram that makes the role dial."""
    target = path.encode()
    return pack_struct(
        EchoControl,
        {
            "magic": ECHO_MAGIC,
            "host_len": len(QEMU_HOST),
            "path_len": len(target),
            "port": port,
            "host": QEMU_HOST,
            "path": target,
        },
    )


def test_kosoku_every_case_against_a_node(tmp_path):
    boot = DirectBoot(echo_image(tmp_path))

    async def scenario(suite):
        async with Node(NodeOptions(net=UserNet(), boot=boot, memory_mb=32)) as node:
            await node.wait_line("code=node.started", BOOT_S)
            forwarded = await node.forwarded_port()
            for case in range(1, suite.count() + 1):
                seen = len(node.lines)
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as trigger:
                    trigger.sendto(control(suite.port, suite.path(case)), ("127.0.0.1", forwarded))
                await node.wait_line(VERDICT, CASE_S, after=seen)
            suite.settle()

    report = verdicts(tmp_path / "reports", lambda suite: asyncio.run(scenario(suite)))
    assert len(report) == CASES
    assert failures(report) == {}
