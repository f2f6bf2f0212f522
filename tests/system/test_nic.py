"""The driver on QEMU's three forms of the card: a lease, and a lease confirmed after the cable."""

import asyncio
import subprocess
import sys

import pytest
from scapy.layers.dhcp import DHCP
from scapy.layers.inet import IP
from scapy.utils import rdpcap

from pxe.node import DirectBoot, NicModel, Node, NodeOptions, UserNet

pytestmark = pytest.mark.system

CLI = [sys.executable, "-c", "from toolchain.cli.main import main; main()"]
SECONDS = 60


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """The release image, for QEMU's -kernel."""
    folder = tmp_path_factory.mktemp("direct")
    command = [*CLI, "build", "--target", "direct", "-o", str(folder)]
    subprocess.run(command, check=True, capture_output=True, timeout=SECONDS)
    return folder / "shardfw-direct.bin"


def exchanges(path):
    """Return (message type, destination) of every DHCP message on the wire so far."""
    found = []
    for packet in rdpcap(str(path)):
        if DHCP in packet:
            kinds = [value for name, value in packet[DHCP].options[:1] if name == "message-type"]
            found += [(kind, packet[IP].dst) for kind in kinds]
    return found


@pytest.mark.parametrize("nic", NicModel, ids=lambda nic: nic.name.lower())
def test_node_leases_an_address_and_confirms_it_after_the_cable(image, tmp_path, nic):
    pcap = tmp_path / "wire.pcap"

    async def run():
        boot = DirectBoot(image)
        # Counted time: a busy host does not disturb the calibration of the clock.
        options = NodeOptions(net=UserNet(), boot=boot, nic=nic, pcap=pcap, icount="shift=3")
        async with Node(options) as node:
            await node.wait_line("code=lifecycle.startupDeadline", SECONDS)
            assert [kind for kind, _ in exchanges(pcap)] == [1, 2, 3, 5]
            await node.set_link(False)
            await asyncio.sleep(1.2)  # the node looks twice a second
            await node.set_link(True)
            async with asyncio.timeout(SECONDS):
                while [kind for kind, _ in exchanges(pcap)][-2:] != [3, 5] or len(
                    exchanges(pcap)
                ) < 6:
                    await asyncio.sleep(0.2)
        return exchanges(pcap)

    renewal = asyncio.run(run())[4]
    assert renewal == (3, "10.0.2.2"), "the lease is renewed at its server, not broadcast"
