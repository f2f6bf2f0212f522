"""What a node may send in the turn in which its lease ends."""

from types import SimpleNamespace
from typing import Any

import pytest

from emulator.simulation.invariants import InvariantError, Invariants
from emulator.simulation.packet import ACK, RST, Ethernet, Ipv4, Tcp, ip, mac
from emulator.simulation.shard_rules import Turn
from firmware.layouts.fleet import FLEET, HELD_MAX, HeldPhase

MAC, ADDRESS, GATEWAY, LINKS = mac("52:54:00:12:34:01"), ip("10.0.0.52"), ip("203.0.113.5"), 4222


def segment(flags: int, port: int = 80) -> bytes:
    tcp = Tcp(55_529, port, 1, 0, flags, 0).encode(ADDRESS, GATEWAY)
    packet = Ipv4(ADDRESS, GATEWAY, 6, tcp).encode()
    return Ethernet(mac("02:00:0a:00:00:01"), MAC, 0x0800, packet).encode()


def judge(frames: list[bytes], *phases: HeldPhase, fleet: bool = True, before: int = 0) -> None:
    """Judge a turn that ended with an expired lease."""
    held = [SimpleNamespace(phase=HeldPhase.NONE) for _ in range(HELD_MAX)]
    for slot, phase in zip(held, phases, strict=False):
        slot.phase = phase
    invariants: Any = object.__new__(Invariants)
    invariants.node = SimpleNamespace(
        facts=SimpleNamespace(fleet=fleet, link_port=LINKS, mac=MAC),
        turn_frames=frames, turns=0, g={FLEET: SimpleNamespace(held=held)}.__getitem__,
    )  # fmt: skip
    invariants._core, invariants._address = bytes(4096), ADDRESS
    invariants._last = Turn(0, 0, before, 5, 0)
    count = sum(invariants._is_of_shard(frame) for frame in frames)
    invariants._check_node(Turn(0, 0, 1, 5, count))


def test_a_stray_segment_may_be_reset_in_the_turn_that_gives_the_last_slot_back():
    judge([segment(RST), segment(ACK, LINKS)], HeldPhase.RELEASING, HeldPhase.RELEASING)
    judge([segment(ACK, LINKS)], HeldPhase.GONE)


@pytest.mark.parametrize(
    ("frames", "phases", "more"),
    [
        ([segment(ACK)], [HeldPhase.RELEASING], {}),
        ([segment(RST), segment(ACK)], [HeldPhase.RELEASING], {}),
        ([segment(RST)], [HeldPhase.RELEASING, HeldPhase.GONE], {}),
        ([segment(RST)], [], {}),
        ([segment(RST)], [HeldPhase.RELEASING], {"before": 1}),
        ([segment(RST)], [HeldPhase.RELEASING], {"fleet": False}),
    ],
)
def test_nothing_else_leaves_with_an_expired_lease(frames, phases, more):
    with pytest.raises(InvariantError, match=r"[12] TCP frames left in a turn that ended with an"):
        judge(frames, *phases, **more)
