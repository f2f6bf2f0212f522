from __future__ import annotations

import struct

import pytest
from scapy.utils import rdpcap

from emulator.simulation.clock import NS_PER_US
from emulator.simulation.wire import Port, Segment
from emulator.simulation.world import World

LATENCY_NS = 50 * NS_PER_US
MACS = [bytes([2, 0, 0, 0, 0, n]) for n in range(3)]


def frame(dst: bytes, src: bytes, body: bytes = bytes(46)) -> bytes:
    return dst + src + b"\x88\xb5" + body


def segment_of_three(*, hub: bool = False) -> tuple[World, Segment, list[Port], list[list[bytes]]]:
    world = World(1)
    segment = Segment(world, hub=hub)
    inboxes: list[list[bytes]] = [[], [], []]
    ports = [segment.port(f"p{n}", inboxes[n].append) for n in range(3)]
    return world, segment, ports, inboxes


def test_an_unknown_address_is_flooded_and_a_learned_one_is_not():
    world, _, ports, inboxes = segment_of_three()
    ports[0].send(frame(MACS[1], MACS[0]))
    world.run_for(LATENCY_NS)
    assert [len(box) for box in inboxes] == [0, 1, 1]
    ports[1].send(frame(MACS[0], MACS[1]))
    world.run_for(LATENCY_NS)
    assert [len(box) for box in inboxes] == [1, 1, 1]


def test_a_hub_repeats_everything():
    world, _, ports, inboxes = segment_of_three(hub=True)
    for _ in range(2):
        ports[0].send(frame(MACS[1], MACS[0]))
        ports[1].send(frame(MACS[0], MACS[1]))
    world.run_for(LATENCY_NS)
    assert [len(box) for box in inboxes] == [2, 2, 4]


def test_a_frame_arrives_after_the_latency_and_padded():
    world, _, ports, inboxes = segment_of_three()
    ports[0].send(frame(MACS[1], MACS[0], b"x"))
    world.run_for(LATENCY_NS - 1)
    assert inboxes[1] == []
    world.run_for(1)
    assert inboxes[1] == [frame(MACS[1], MACS[0], b"x" + bytes(45))]


def test_a_pulled_cable_loses_frames_in_both_directions_and_on_the_way():
    world, _, ports, inboxes = segment_of_three()
    changes: list[bool] = []
    ports[1].link_changed.append(changes.append)
    ports[0].send(frame(MACS[1], MACS[0]))
    ports[1].set_link(up=False)
    ports[1].send(frame(MACS[0], MACS[1]))
    world.run_for(LATENCY_NS)
    assert inboxes[0] == inboxes[1] == []
    ports[1].set_link(up=True)
    ports[0].send(frame(MACS[1], MACS[0]))
    world.run_for(LATENCY_NS)
    assert len(inboxes[1]) == 1
    assert changes == [False, True]
    assert ports[1].lost == 2


def test_the_switch_forgets_a_port_whose_link_changed():
    world, _, ports, inboxes = segment_of_three()
    ports[1].send(frame(MACS[0], MACS[1]))
    world.run_for(LATENCY_NS)
    ports[1].set_link(up=False)
    ports[2].send(frame(MACS[0], MACS[1]))
    world.run_for(LATENCY_NS)
    ports[0].send(frame(MACS[1], MACS[0]))
    world.run_for(LATENCY_NS)
    assert len(inboxes[2]) == 2


def test_a_giant_needs_inject():
    world, _, ports, inboxes = segment_of_three()
    giant = frame(MACS[1], MACS[0], bytes(2000))
    with pytest.raises(ValueError, match=r"port p0: a frame of 2014 bytes .* use inject\(\)"):
        ports[0].send(giant)
    ports[0].inject(giant)
    world.run_for(LATENCY_NS)
    assert inboxes[1] == [giant]


def test_a_port_name_is_unique_in_the_world():
    world, segment, *_ = segment_of_three()
    with pytest.raises(ValueError, match="a port called 'p1' exists already"):
        Segment(world, "other").port("p1")
    assert world.port("p1") is segment.ports[1]


def test_faults_hit_the_direction_they_name():
    world, segment, ports, inboxes = segment_of_three()
    injector = segment.set_faults("drop from=p0; delay to=p2 by=1ms; duplicate to=p1 from=p2")
    ports[0].send(frame(MACS[1], MACS[0]))
    ports[1].send(frame(b"\xff" * 6, MACS[1]))
    ports[2].send(frame(MACS[1], MACS[2]))
    world.run_for(LATENCY_NS)
    assert [len(box) for box in inboxes] == [1, 2, 0]
    world.run_for(1_000_000)
    assert len(inboxes[2]) == 1
    assert injector is not None
    assert injector.hits == {"drop": 1, "delay": 1, "duplicate": 1}


def test_a_capture_is_a_nanosecond_pcap(tmp_path):
    world, segment, ports, _ = segment_of_three()
    path = tmp_path / "wire.pcap"
    with segment.capture(path):
        world.run_until(3_000_000_007)
        ports[0].send(frame(MACS[1], MACS[0]))
    raw = path.read_bytes()
    assert struct.unpack("<IHHiIII", raw[:24]) == (0xA1B23C4D, 2, 4, 0, 0, 65535, 1)
    assert struct.unpack("<IIII", raw[24:40]) == (3, 7, 60, 60)
    assert raw[40:] == frame(MACS[1], MACS[0])
    (read,) = rdpcap(str(path))
    assert (bytes(read), read.time * 10**9) == (frame(MACS[1], MACS[0]), 3_000_000_007)
