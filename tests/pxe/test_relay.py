"""Frames cross the relay by plan; once, a QEMU node boots through it."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from emulator.simulation.faults import FaultPlan
from pxe.node import DatagramNet, Hub, Node, NodeOptions, UserNet
from pxe.relay import DatagramEnd, Relay, StreamEnd

BOOT_SECONDS = 60
WAIT_SECONDS = 60
FRAMES = [bytes([number]) * 60 for number in range(40)]


class Wire:
    """What QEMU would be: a datagram socket at an end's remote path."""

    def __init__(self, folder: Path, name: str) -> None:
        self.end = DatagramEnd(local=folder / f"{name}.relay", remote=folder / f"{name}.qemu")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.socket.bind(str(self.end.remote))

    async def send(self, frame: bytes) -> None:
        while True:
            try:
                self.socket.sendto(frame, str(self.end.local))
            except BlockingIOError:
                await asyncio.sleep(0)
            else:
                return

    async def receive(self, count: int) -> list[bytes]:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(WAIT_SECONDS):
            return [await loop.sock_recv(self.socket, 65536) for _ in range(count)]


@contextlib.asynccontextmanager
async def relayed(
    folder: Path, plan: FaultPlan | str, seed: int = 0
) -> AsyncIterator[tuple[Relay, Wire, Wire]]:
    left, right = Wire(folder, "left"), Wire(folder, "right")
    with left.socket, right.socket:
        async with Relay(left.end, right.end, plan, seed=seed) as relay:
            yield relay, left, right
    for wire in (left, right):
        assert not wire.end.local.exists()
        wire.end.remote.unlink()


def pass_through(folder: Path, plan: FaultPlan | str, expected: int, seed: int = 0) -> list[bytes]:
    """Send FRAMES from the left and return what comes out on the right."""

    async def run() -> list[bytes]:
        async with relayed(folder, plan, seed) as (relay, left, right):
            collecting = asyncio.create_task(right.receive(expected))
            for frame in FRAMES:
                await left.send(frame)
            got = await collecting
            assert relay.forwarded == {"right": expected}
            assert relay.injector.frames["left", ""] == len(FRAMES)
            return got

    return asyncio.run(run())


def test_without_rules_every_frame_passes_in_both_directions(tmp_path: Path) -> None:
    async def run() -> None:
        async with relayed(tmp_path, "") as (relay, left, right):
            await left.send(b"to the right")
            await right.send(b"to the left")
            assert await right.receive(1) == [b"to the right"]
            assert await left.receive(1) == [b"to the left"]
            assert relay.forwarded == {"left": 1, "right": 1}

    asyncio.run(run())


def test_scripted_damage_hits_the_frames_it_names(tmp_path: Path) -> None:
    plan = "drop nth=1,3; duplicate nth=2; truncate keep=5 nth=4 to=right; drop from=right"
    got = pass_through(tmp_path, plan, len(FRAMES) - 1)
    assert got[:2] == [FRAMES[1]] * 2
    # Frame 4 of those that leave: the second copy was the second, then 4 and 5 of those sent.
    assert got[3] == FRAMES[4][:5]
    assert got[4:] == FRAMES[5:]


def test_delayed_frames_keep_their_order(tmp_path: Path) -> None:
    assert pass_through(tmp_path, "delay by=20ms nth=1,5", len(FRAMES)) == FRAMES


def test_a_reordered_frame_is_overtaken(tmp_path: Path) -> None:
    got = pass_through(tmp_path, "reorder by=500ms nth=2", len(FRAMES))
    # How many overtake it is up to the machine; the others keep their order.
    assert got.index(FRAMES[1]) > 1
    assert [frame for frame in got if frame != FRAMES[1]] == [FRAMES[0], *FRAMES[2:]]


def test_the_seed_decides_and_the_script_replays(tmp_path: Path) -> None:
    plan = FaultPlan.parse("drop p=0.2; corrupt p=0.2; seed 11")

    async def run(used: FaultPlan) -> tuple[list[bytes], FaultPlan]:
        async with relayed(tmp_path, used) as (relay, left, right):
            for frame in FRAMES:
                await left.send(frame)
                # One at a time, so that the number of frames that come out is known.
                while relay.injector.frames["left", ""] < FRAMES.index(frame) + 1:
                    await asyncio.sleep(0)
            return await right.receive(relay.forwarded["right"]), relay.injector.script()

    first, script = asyncio.run(run(plan))
    assert 20 < len(first) < 40
    assert asyncio.run(run(plan))[0] == first
    assert asyncio.run(run(script))[0] == first


def test_a_pulled_cable_loses_frames_until_it_is_back(tmp_path: Path) -> None:
    async def run() -> None:
        async with relayed(tmp_path, "") as (relay, left, right):
            for name in ("left", "right"):
                relay.set_link(name, up=False)
                await left.send(b"lost")
                while relay.lost["right"] == 0:
                    await asyncio.sleep(0)
                relay.lost.clear()
                relay.set_link(name, up=True)
            await left.send(b"through")
            assert await right.receive(1) == [b"through"]
            with pytest.raises(LookupError, match="no end is called 'middle'; known: left, right"):
                relay.set_link("middle", up=True)

    asyncio.run(run())


def test_plan_events_pull_cables_and_others_are_refused(tmp_path: Path) -> None:
    async def run() -> None:
        async with relayed(tmp_path, "at 0s link-down left; at 50ms link-up left") as wires:
            relay, left, right = wires
            await asyncio.sleep(0)
            await left.send(b"lost")
            while relay.lost["right"] == 0:
                await asyncio.sleep(0)
            receiving = asyncio.create_task(right.receive(1))
            while not receiving.done():
                await left.send(b"again")
                await asyncio.sleep(0.001)
            assert receiving.result() == [b"again"]
        with pytest.raises(LookupError, match="cannot do at 1s power-off left; it knows link-down"):
            async with relayed(tmp_path, "at 1s power-off left"):
                pass

    asyncio.run(run())


def test_rules_can_be_replaced_while_it_runs(tmp_path: Path) -> None:
    async def run() -> None:
        async with relayed(tmp_path, "drop") as (relay, left, right):
            await left.send(b"lost")
            while relay.injector.hits["drop"] == 0:
                await asyncio.sleep(0)
            relay.set_plan("")
            await left.send(b"through")
            assert await right.receive(1) == [b"through"]

    asyncio.run(run())


def test_an_end_without_qemu_loses_frames_and_does_not_fail(tmp_path: Path) -> None:
    async def run() -> None:
        left = Wire(tmp_path, "left")
        nobody = DatagramEnd(tmp_path / "right.relay", tmp_path / "nobody")
        with left.socket:
            async with Relay(left.end, nobody) as relay:
                await left.send(b"x")
                while relay.lost["right"] == 0:
                    await asyncio.sleep(0)

    asyncio.run(run())


def test_a_burst_longer_than_a_socket_holds_arrives_whole(tmp_path: Path) -> None:
    async def run() -> None:
        async with relayed(tmp_path, "") as (_, left, right):
            for number in range(300):
                await left.send(number.to_bytes(2, "big"))
            got = await right.receive(300)
            assert got == [number.to_bytes(2, "big") for number in range(300)]

    asyncio.run(run())


def test_a_stream_end_frames_by_length_and_survives_a_restart(tmp_path: Path) -> None:
    async def run() -> None:
        wire = Wire(tmp_path, "left")
        stream = StreamEnd(tmp_path / "right.relay")
        with wire.socket:
            async with Relay(wire.end, stream) as relay, asyncio.timeout(WAIT_SECONDS):
                for _ in range(2):
                    reader, writer = await asyncio.open_unix_connection(str(stream.path))
                    # Cut in the middle of the length and of the frame.
                    for part in (b"\x00\x00", b"\x00\x05he", b"llo\x00\x00\x00\x01!"):
                        writer.write(part)
                        await writer.drain()
                        await asyncio.sleep(0)
                    assert await wire.receive(2) == [b"hello", b"!"]
                    await wire.send(b"answer")
                    assert await reader.readexactly(10) == b"\x00\x00\x00\x06answer"
                    writer.close()
                    await writer.wait_closed()
                assert relay.forwarded == {"left": 4, "right": 2}
        assert not stream.path.exists()

    asyncio.run(run())


def test_a_taken_path_closes_the_end_that_was_open(tmp_path: Path) -> None:
    async def run() -> None:
        left = DatagramEnd(tmp_path / "a", tmp_path / "b")
        right = DatagramEnd(tmp_path / "missing" / "a", tmp_path / "c")
        with pytest.raises(OSError, match="No such file"):
            async with Relay(left, right):
                pass
        assert not left.local.exists()

    asyncio.run(run())


@pytest.mark.system
def test_a_node_boots_through_the_relay_with_one_percent_loss(images: Path, tmp_path: Path) -> None:
    left = DatagramEnd(tmp_path / "left.relay", tmp_path / "left.qemu")
    right = DatagramEnd(tmp_path / "right.relay", tmp_path / "right.qemu")
    user = UserNet(tftp=images, bootfile="nbp.bin", diagnostics_port=None)

    async def run() -> Relay:
        async with (
            Relay(left, right, "drop p=0.01; duplicate p=0.01; delay by=1ms", seed=5) as relay,
            Hub(DatagramNet(right.remote, right.local), user),
            Node(NodeOptions(DatagramNet(left.remote, left.local))) as node,
        ):
            await node.wait_line("hello from the boot image", BOOT_SECONDS)
            return relay

    relay = asyncio.run(run())
    assert relay.forwarded["left"] > 5
    assert relay.forwarded["right"] > 5
    assert relay.injector.hits["delay"] > 10
