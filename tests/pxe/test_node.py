"""QEMU nodes boot, are heard, obey and leave nothing behind."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pxe.dnsmasq import BootServer, Dnsmasq
from pxe.node import (
    DatagramNet,
    DirectBoot,
    Hub,
    MulticastNet,
    NicModel,
    Node,
    NodeError,
    NodeOptions,
    SerialLine,
    StreamNet,
    UserNet,
    free_udp_port,
)
from pxe.segment import Segment

pytestmark = pytest.mark.system

# A loaded machine of two cores boots three nodes at once in about 6 s.
BOOT_SECONDS = 60
HELLO = "hello from the boot image"
BROADCAST = b"\xff" * 6


def direct(images: Path, **options: object) -> NodeOptions:
    image = DirectBoot(images / "direct.bin")
    return NodeOptions(net=UserNet(), boot=image, **options)  # type: ignore[arg-type]  # test shorthand


class TestDirectBoot:
    def test_lines_are_heard_and_bytes_are_sent(self, images: Path) -> None:
        heard: list[SerialLine] = []

        async def run() -> int | None:
            async with Node(direct(images), on_line=heard.append) as node:
                await node.wait_line("hello in protected mode", BOOT_SECONDS)
                node.send_serial(b"abc\n")
                line = await node.wait_line("^abc$", BOOT_SECONDS)
                assert line.seconds > node.lines[0].seconds > 0
                assert node.lines == heard
            return node.exit_code

        assert asyncio.run(run()) == 0

    def test_reset_by_qmp_and_by_the_guest_boots_again(self, images: Path) -> None:
        async def run() -> None:
            async with Node(direct(images)) as node:
                await node.wait_line("hello", BOOT_SECONDS)
                await node.reset()
                await node.wait_line("hello", BOOT_SECONDS, after=1)
                node.send_serial(b"r")
                event = await node.wait_event("RESET", BOOT_SECONDS)
                assert event["reason"] == "guest-reset"
                await node.wait_line("hello", BOOT_SECONDS, after=2)

        asyncio.run(run())

    def test_guest_reset_ends_a_node_that_may_not_reboot(self, images: Path) -> None:
        async def run() -> None:
            async with Node(direct(images, reboot=False)) as node:
                await node.wait_line("hello", BOOT_SECONDS)
                node.send_serial(b"r")
                assert await node.wait_exit(BOOT_SECONDS) == 0
                with pytest.raises(NodeError, match="the serial port closed and no line matched"):
                    await node.wait_line("never", BOOT_SECONDS)

        asyncio.run(run())

    def test_cable_cpu_and_memory_obey(self, images: Path) -> None:
        async def run() -> None:
            async with Node(direct(images)) as node:
                await node.wait_line("hello", BOOT_SECONDS)
                await node.set_link(False)
                await node.set_link(True)
                await node.pause()
                assert await node.status() == "paused"
                await node.resume()
                assert await node.status() == "running"
                assert await node.read_memory(0x100000, 4) == bytes.fromhex("02b0ad1b")
                assert 0 < await node.forwarded_port() < 65536

        asyncio.run(run())

    def test_two_nodes_get_two_diagnostics_ports(self, images: Path) -> None:
        async def run() -> None:
            async with Node(direct(images)) as one, Node(direct(images)) as two:
                assert await one.forwarded_port() != await two.forwarded_port()

        asyncio.run(run())

    def test_watchdog_resets_a_node_that_does_not_kick_it(self, images: Path) -> None:
        async def run() -> None:
            async with Node(direct(images)) as node:
                await node.wait_line("hello", BOOT_SECONDS)
                node.send_serial(b"w")
                assert await node.wait_event("WATCHDOG", BOOT_SECONDS) == {"action": "reset"}
                await node.wait_line("hello", BOOT_SECONDS, after=1)

        asyncio.run(run())

    def test_missing_line_shows_what_was_heard(self, images: Path) -> None:
        async def run() -> None:
            async with Node(direct(images), name="n1") as node:
                await node.wait_line("hello", BOOT_SECONDS)
                with pytest.raises(
                    NodeError, match=r"(?s)n1: 0\.01 s passed and no line matched 'x'.*hello"
                ):
                    await node.wait_line("x", 0.01)

        asyncio.run(run())

    def test_refused_command_and_bad_image_tell_qemus_words(self, images: Path) -> None:
        async def run() -> None:
            async with Node(direct(images)) as node:
                with pytest.raises(NodeError, match=r"node: QMP no-such-command: .*not been found"):
                    await node.qmp("no-such-command")
            absent = NodeOptions(net=UserNet(), boot=DirectBoot(images / "absent"))
            with pytest.raises(NodeError, match=r"ended with 1: .*could not open kernel file"):
                await Node(absent).start()

        asyncio.run(run())

    def test_nothing_is_left_behind(self, images: Path) -> None:
        async def run() -> tuple[Path, int]:
            async with Node(direct(images)) as node:
                assert node.folder.is_dir()
                return node.folder, node.pid

        folder, pid = asyncio.run(run())
        assert not folder.exists()
        assert not Path(f"/proc/{pid}").exists()

    def test_node_dies_with_a_killed_parent(self, images: Path) -> None:
        script = f"""
import asyncio
from pathlib import Path
from pxe.node import DirectBoot, Node, NodeOptions, UserNet
async def run():
    node = Node(NodeOptions(net=UserNet(), boot=DirectBoot(Path({str(images / "direct.bin")!r}))))
    await node.start()
    print(node.pid, node.folder, flush=True)
    await asyncio.sleep(60)
asyncio.run(run())
"""
        with subprocess.Popen(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
        ) as parent:
            assert parent.stdout is not None
            pid, folder = parent.stdout.readline().split()
            parent.send_signal(signal.SIGKILL)
        Path(folder).rmdir()
        until = time.monotonic() + BOOT_SECONDS
        while is_running(int(pid)):
            assert time.monotonic() < until, "QEMU outlived its parent"
            time.sleep(0.02)


def is_running(pid: int) -> bool:
    """Return whether a process runs; a dead one that nobody reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class TestNetworkBoot:
    def test_every_nic_model_boots_from_the_user_network(
        self, images: Path, tmp_path: Path
    ) -> None:
        async def boot(nic: NicModel) -> None:
            net = UserNet(images, "nbp.bin")
            pcap = tmp_path / f"{nic.name}.pcap"
            async with Node(NodeOptions(net=net, nic=nic, pcap=pcap), name=nic.name) as node:
                await node.wait_line(HELLO, BOOT_SECONDS)
            # TFTP's request for the image went over the captured wire.
            assert b"nbp.bin\0octet" in pcap.read_bytes()

        async def run() -> None:
            await asyncio.gather(*map(boot, NicModel))

        asyncio.run(run())

    def test_two_nodes_boot_on_one_multicast_segment(self, images: Path) -> None:
        async def boot(net: MulticastNet, mac: str) -> None:
            async with Node(NodeOptions(net=net, mac=mac), name=mac) as node:
                await node.wait_line(HELLO, BOOT_SECONDS)

        async def run() -> None:
            net = MulticastNet(free_udp_port())
            guests = ("10.0.2.15", "10.0.2.16")
            async with Hub(net, UserNet(images, "nbp.bin", guests=guests)) as hub:
                assert len({await hub.forwarded_port(guest) for guest in guests}) == 2
                with pytest.raises(NodeError, match=r"no UDP port is forwarded to 10\.0\.2\.99"):
                    await hub.forwarded_port("10.0.2.99")
                await asyncio.gather(boot(net, "52:54:00:00:00:01"), boot(net, "52:54:00:00:00:02"))
                assert hub.exit_code is None

        asyncio.run(run())

    def test_two_nodes_boot_on_the_cables_of_one_hub(self, images: Path, tmp_path: Path) -> None:
        async def boot(cable: Path, mac: str) -> None:
            async with Node(NodeOptions(net=StreamNet(cable), mac=mac), name=mac) as node:
                await node.wait_line(HELLO, BOOT_SECONDS)

        async def run() -> None:
            cables = [tmp_path / "1", tmp_path / "2"]
            ends = [StreamNet(cable, server=True) for cable in cables]
            async with Hub(ends, UserNet(images, "nbp.bin")) as hub:
                macs = ("52:54:00:00:00:01", "52:54:00:00:00:02")
                await asyncio.gather(*map(boot, cables, macs))
                assert hub.exit_code is None

        asyncio.run(run())

    def test_dnsmasq_boots_a_node_on_a_bridge(self, images: Path) -> None:
        segment = Segment(taps=1)
        if os.geteuid() != 0:
            with pytest.raises(NodeError, match=r"needs root\. Use UserNet, or run as root"):
                segment.__enter__()
            return

        async def run() -> None:
            with segment:
                listener = segment.open_socket(socket.SOCK_STREAM)
                with listener:
                    assert listener.getsockname()[0] == "10.77.0.1"
                async with Dnsmasq(segment, BootServer(images, "nbp.bin")) as server:
                    options = NodeOptions(net=segment.taps[0], prefix=segment.prefix)
                    async with Node(options) as node:
                        await node.wait_line(HELLO, BOOT_SECONDS)
                    assert server.address_of(options.mac).startswith("10.77.0.")
                    with pytest.raises(NodeError, match="granted no address to 52:54:00:00:00:00"):
                        server.address_of("52:54:00:00:00:00")
                assert any("sent" in line and "nbp.bin" in line for line in server.lines)

        asyncio.run(run())
        assert not Path("/run/netns", segment.name).exists()

    def test_frames_reach_a_relay_by_datagram_and_by_stream(self, tmp_path: Path) -> None:
        mac = "52:54:00:00:00:07"

        async def first_datagram() -> bytes:
            ours, theirs = tmp_path / "relay", tmp_path / "node"
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as relay:
                relay.bind(str(ours))
                relay.setblocking(False)
                async with Node(NodeOptions(net=DatagramNet(theirs, ours), mac=mac)):
                    loop = asyncio.get_running_loop()
                    return await asyncio.wait_for(loop.sock_recv(relay, 65536), BOOT_SECONDS)

        async def first_of_stream() -> bytes:
            frame: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

            async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                length = int.from_bytes(await reader.readexactly(4))
                frame.set_result(await reader.readexactly(length))
                writer.close()

            server = await asyncio.start_unix_server(accept, tmp_path / "stream")
            async with server, Node(NodeOptions(net=StreamNet(tmp_path / "stream"), mac=mac)):
                return await asyncio.wait_for(frame, BOOT_SECONDS)

        async def run() -> list[bytes]:
            return list(await asyncio.gather(first_datagram(), first_of_stream()))

        for frame in asyncio.run(run()):
            assert frame[:6] == BROADCAST or frame[:2] == b"\x33\x33"
            assert frame[6:12] == bytes.fromhex(mac.replace(":", ""))
