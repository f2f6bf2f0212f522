"""Conditions on raw frames, by name, for fault rules: `tcp+synack`, `port:53`, `longer:1400`."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from emulator.simulation.packet import (
    ACK,
    BROADCAST_MAC,
    FIN,
    PROTOCOL_ICMP,
    PROTOCOL_TCP,
    PROTOCOL_UDP,
    RST,
    SYN,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_DHCP_MAGIC = b"\x63\x82\x53\x63"
_DHCP_TYPES = {
    "discover": 1, "offer": 2, "request": 3, "decline": 4, "ack": 5, "nak": 6, "release": 7,
}  # fmt: skip


def _network(frame: bytes) -> int:
    """Return the offset of the network header, past an 802.1Q tag if there is one."""
    return 18 if frame[12:14] == b"\x81\x00" else 14


def _ethertype(frame: bytes) -> bytes:
    at = _network(frame)
    return frame[at - 2 : at]


def _protocol(frame: bytes) -> int:
    at = _network(frame)
    return frame[at + 9] if _ethertype(frame) == b"\x08\x00" and len(frame) >= at + 20 else -1


def _transport(frame: bytes) -> int:
    at = _network(frame)
    return at + (frame[at] & 15) * 4


def _tcp_flags(frame: bytes) -> int:
    if _protocol(frame) != PROTOCOL_TCP:
        return 0
    at = _transport(frame) + 13
    return frame[at] if at < len(frame) else 0


def _tcp_payload(frame: bytes) -> int:
    """Return the payload length of a TCP segment, -1 for anything else."""
    if _protocol(frame) != PROTOCOL_TCP:
        return -1
    at = _transport(frame)
    if len(frame) < at + 20:
        return -1
    network = _network(frame)
    total = int.from_bytes(frame[network + 2 : network + 4], "big")
    return total - (at - network) - (frame[at + 12] >> 4) * 4


def _ports(frame: bytes) -> tuple[int, int]:
    if _protocol(frame) not in (PROTOCOL_TCP, PROTOCOL_UDP):
        return (-1, -1)
    at = _transport(frame)
    return int.from_bytes(frame[at : at + 2], "big"), int.from_bytes(frame[at + 2 : at + 4], "big")


def _dhcp_type(frame: bytes) -> int:
    at = frame.find(_DHCP_MAGIC)
    mark = frame.find(b"\x35\x01", at + 4) if at >= 0 else -1
    return frame[mark + 2] if 0 <= mark < len(frame) - 2 else 0


def _flags(mask: int, value: int) -> Callable[[bytes], bool]:
    return lambda frame: _tcp_flags(frame) & mask == value


def _dhcp(number: int) -> Callable[[bytes], bool]:
    return lambda frame: _dhcp_type(frame) == number


def _pure_ack(frame: bytes) -> bool:
    return _tcp_flags(frame) & (SYN | FIN | RST | ACK) == ACK and _tcp_payload(frame) == 0


TESTS: dict[str, Callable[[bytes], bool]] = {
    "any": lambda _frame: True,
    "broadcast": lambda frame: frame[:6] == BROADCAST_MAC,
    "arp": lambda frame: _ethertype(frame) == b"\x08\x06",
    "ipv4": lambda frame: _ethertype(frame) == b"\x08\x00",
    "icmp": lambda frame: _protocol(frame) == PROTOCOL_ICMP,
    "udp": lambda frame: _protocol(frame) == PROTOCOL_UDP,
    "tcp": lambda frame: _protocol(frame) == PROTOCOL_TCP,
    "dhcp": lambda frame: bool({67, 68}.intersection(_ports(frame))),
    "dns": lambda frame: 53 in _ports(frame),
    "syn": _flags(SYN | ACK, SYN),
    "synack": _flags(SYN | ACK, SYN | ACK),
    "fin": _flags(FIN, FIN),
    "rst": _flags(RST, RST),
    "ack": _pure_ack,
    "data": lambda frame: _tcp_payload(frame) > 0,
}
TESTS.update({f"dhcp-{name}": _dhcp(number) for name, number in _DHCP_TYPES.items()})

_WITH_NUMBER: dict[str, Callable[[int], Callable[[bytes], bool]]] = {
    "port": lambda number: lambda frame: number in _ports(frame),
    "longer": lambda number: lambda frame: len(frame) > number,
    "shorter": lambda number: lambda frame: len(frame) < number,
    "ethertype": lambda number: lambda frame: _ethertype(frame) == number.to_bytes(2, "big"),
}


def _one(word: str) -> Callable[[bytes], bool]:
    if word in TESTS:
        return TESTS[word]
    name, colon, number = word.partition(":")
    if colon and name in _WITH_NUMBER:
        return _WITH_NUMBER[name](int(number, 0))
    known = ", ".join([*TESTS, *(f"{key}:N" for key in _WITH_NUMBER)])
    raise ValueError(f"match={word} is unknown; known: {known}")


@lru_cache(maxsize=256)
def matcher(text: str) -> Callable[[bytes], bool]:
    """Return a test for frames from words joined with `+`; every word must hold.

    Raises:
        ValueError: a word is unknown; the text lists the known ones.
    """
    tests = [_one(word) for word in text.split("+")]
    if len(tests) == 1:
        return tests[0]
    return lambda frame: all(test(frame) for test in tests)
