"""Nodes on real segments: a bridge with dnsmasq, and two nodes beside each other."""

import asyncio
import os
import socket

import pytest

from pxe.dnsmasq import BootServer, Dnsmasq
from pxe.gateway.server import GatewayServer
from pxe.node import DirectBoot, Node, NodeOptions
from pxe.segment import Segment
from tests.support.site import PATIENCE_S, SHARDS, image, quiet

pytestmark = pytest.mark.system
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="a bridge needs root: run the tests as root")


@ROOT
def test_dnsmasq_boots_a_node_to_ready_by_name(tmp_path):
    async def run():
        with Segment(taps=1) as segment:
            listener = segment.open_socket(socket.SOCK_STREAM)
            async with GatewayServer(quiet(), sock=listener) as gateway:
                overrides = {"gateway.url": f"ws://gateway.test:{gateway.port}/"}
                file = image(tmp_path, 0, target="bios", overrides=overrides)
                server = BootServer(tmp_path, file.name, names={"gateway.test": "10.77.0.1"})
                options = NodeOptions(net=segment.taps[0], prefix=segment.prefix)
                async with Dnsmasq(segment, server), Node(options) as node:
                    await gateway.wait_until(
                        lambda s: all(x.connected for x in s.shards), PATIENCE_S
                    )
                    return gateway.stats(), [line.text for line in node.lines]

    stats, lines = asyncio.run(run())
    assert [s.identifies for s in stats.shards] == [1] * SHARDS
    assert any("code=boot.cached_ack" in line and "address=10.77.0." in line for line in lines)


@ROOT
def test_two_nodes_on_one_segment_hold_their_own_shards(tmp_path):
    half = SHARDS // 2

    async def run():
        with Segment(taps=2) as segment:
            listener = segment.open_socket(socket.SOCK_STREAM)
            async with GatewayServer(quiet(), sock=listener) as gateway:
                machines = []
                for n, tap in enumerate(segment.taps):
                    overrides = {
                        "gateway.url": f"ws://10.77.0.1:{gateway.port}/",
                        "shards.start": n * half,
                        "shards.count": half,
                    }
                    boot = DirectBoot(image(tmp_path, 0, overrides=overrides))
                    mac = f"52:54:00:77:00:0{n + 1}"
                    machines.append(NodeOptions(tap, boot=boot, mac=mac, prefix=segment.prefix))
                dhcp = BootServer(tmp_path, "none")
                async with (
                    Dnsmasq(segment, dhcp) as server,
                    Node(machines[0]) as one,
                    Node(machines[1]) as two,
                ):
                    await gateway.wait_until(
                        lambda s: all(x.connected for x in s.shards), PATIENCE_S
                    )
                    told = []
                    for node in (one, two):
                        await node.wait_line("code=lifecycle.ready", PATIENCE_S)
                        ready = [x.text for x in node.lines if "code=lifecycle.ready" in x.text]
                        told.append({int(x.split("shard=")[1].split()[0]) for x in ready})
                    addresses = {server.address_of(m.mac) for m in machines}
                    return gateway.stats(), told, addresses

    stats, told, addresses = asyncio.run(run())
    assert [s.identifies for s in stats.shards] == [1] * SHARDS
    assert told[0] <= set(range(half))
    assert told[1] <= set(range(half, SHARDS))
    assert len(addresses) == 2
