"""Operator commands on the serial line."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.environment import Environment
from firmware.layouts.console import CONSOLE
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.log import LOG, LOG_RING
from firmware.layouts.node import CLOCK, CORE, LEASE
from firmware.node.console import console_command, console_poll, parse_milliseconds
from tests.support.lab import Lab
from tests.support.states import MS, NOW

LAB = Lab(console_poll, console_command, parse_milliseconds)
DATA, STATUS = 0x3F8, 0x3FD


@pytest.fixture(autouse=True)
def _fresh():
    prepare()


def prepare():
    LAB.reset()
    LAB.g(CLOCK).tsc_cycles_per_ms, LAB.g(CORE).now = MS, NOW


def type_in(text, *, limit=40):
    """Let the port give the bytes, one turn after another."""
    waiting = list(text)

    def port(number, _size):
        if number == STATUS:
            return 0x61 if waiting else 0x60
        return waiting.pop(0)

    for _ in range(limit):
        LAB.call(console_poll, Environment(tsc=lambda: NOW, on_port_in=port))
        if not waiting:
            return
    raise AssertionError(f"{len(waiting)} bytes were never taken")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"1", 1),
        (b"60000", 60000),
        (b"4294967295", 4294967295),
        (b"4294967296", None),
        (b"0", None),
        (b"", None),
        (b"12a", None),
        (b"-1", None),
        (b"99999999999999999999999", None),
        (b"/", None),
    ],
)
def test_parse_milliseconds(text, value):
    address = LAB.machine.alloc(32)
    LAB.machine.write(address, text or b"\0")
    got = LAB.call(parse_milliseconds, digits=address, count=len(text)).outputs
    assert (got["cf"], got["rax"]) == ((0, value) if value else (1, 0))


def test_console_arm_grants_and_starts_a_generation():
    LAB.g(LEASE).expired = 1
    type_in(b"lease arm 60000\r\n")
    lease = LAB.g(LEASE)
    assert (lease.expired, lease.generation, lease.deadline) == (0, 1, NOW + 60_000 * MS)


def test_console_renew_moves_the_deadline_only():
    LAB.g(LEASE).generation, LAB.g(LEASE).deadline = 7, NOW + 5
    type_in(b"lease renew 1000\n")
    lease = LAB.g(LEASE)
    assert (lease.generation, lease.deadline) == (7, NOW + 1000 * MS)


def test_console_renew_does_not_revive_an_expired_lease():
    LAB.g(LEASE).expired, LAB.g(LEASE).deadline = 1, 5
    type_in(b"lease renew 1000\n")
    assert (LAB.g(LEASE).expired, LAB.g(LEASE).deadline) == (1, 5)


def test_console_expire_ends_the_lease_now():
    type_in(b"lease expire\n")
    assert (LAB.g(LEASE).expired, LAB.g(LEASE).deadline) == (1, NOW)


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"lease\n",
        b"lease arm\n",
        b"lease arm \n",
        b"lease arm 0\n",
        b"lease arm 5x\n",
        b"lease renew \n",
        b"lease expires\n",
        b"Lease arm 5\n",
        b"x" * 64 + b"\n",
        b"x" * 200 + b"\n",
        b"lease arm " + b"1" * 80 + b"\n",
        b"\xff\x00\n",
    ],
)
def test_console_bad_line_changes_nothing(line):
    type_in(line)
    lease = LAB.g(LEASE)
    assert (lease.expired, lease.generation, lease.deadline) == (0, 0, 0)
    assert LAB.g(CONSOLE).length == 0


def test_console_expire_twice_is_refused_the_second_time():
    LAB.g(LEASE).expired, LAB.g(LEASE).deadline = 1, 3
    type_in(b"lease expire\n")
    assert LAB.g(LEASE).deadline == 3


@settings(max_examples=40, deadline=None)
@given(line=st.binary(max_size=90))
def test_console_any_bytes_match_model(line):
    prepare()
    type_in(line + b"\n", limit=200)


@pytest.mark.parametrize("text", [b"lease arm 60000\n", b"lease renew 60000\n"])
def test_console_without_a_clock_grants_nothing(text):
    """A span of no cycles would be over at once, or never."""
    LAB.g(CLOCK).tsc_cycles_per_ms = 0
    LAB.g(LEASE).generation, LAB.g(LEASE).deadline = 7, NOW + 5
    type_in(text)
    assert (LAB.g(LEASE).generation, LAB.g(LEASE).deadline) == (7, NOW + 5)


def test_console_without_a_clock_still_expires():
    LAB.g(CLOCK).tsc_cycles_per_ms = 0
    type_in(b"lease expire\n")
    assert (LAB.g(LEASE).expired, LAB.g(LEASE).deadline) == (1, NOW)


def lines():
    raw = LAB.machine.read(LAB.image.address(LOG_RING), LAB.g(LOG).head)
    return [line.split(" code=")[1] for line in raw.decode().splitlines()]


def test_console_noise_is_logged_once_a_second():
    """A babbling line must not drive the lines of failing shards out of the ring."""
    for _ in range(5):
        type_in(b"\x00\xff\n")
    assert lines() == ["lease.bad_command length=2 reason=verb"]
    LAB.g(CORE).now += 999 * MS
    type_in(b"?\n")
    assert len(lines()) == 1
    LAB.g(CORE).now += MS
    type_in(b"?\n")
    assert len(lines()) == 2


def test_console_renew_comes_too_late_when_the_lease_ran_out_within_the_turn():
    """The turn's first look at the lease was before its end; the command's is after it."""
    lease = LAB.g(LEASE)
    lease.generation, lease.deadline = 7, NOW
    type_in(b"lease renew 60000\n")
    assert (lease.expired, lease.deadline) == (1, NOW)
    assert lines() == [
        "lease.expired generation=7 late=0",
        "lease.bad_command length=17 reason=lease_over",
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("lease arm 0", "argument"),
        ("lease renew x", "argument"),
        ("lease expires", "verb"),
        ("release", "verb"),
        ("x" * 65, "verb"),
    ],
)
def test_console_says_why_a_line_is_refused(line, reason):
    type_in(line.encode() + b"\n")
    assert lines() == [f"lease.bad_command length={len(line)} reason={reason}"]


@pytest.mark.parametrize("line", ["lease arm 600000", "lease renew 600000", "lease expire"])
def test_console_of_a_node_of_a_fleet_refuses_every_order(line):
    LAB.g(FLEET_CONFIG).magic = FLEET_MAGIC
    lease = LAB.g(LEASE)
    lease.generation, lease.deadline = 7, NOW + 5
    type_in(line.encode() + b"\n")
    assert (lease.expired, lease.generation, lease.deadline) == (0, 7, NOW + 5)
    assert lines() == [f"lease.bad_command length={len(line)} reason=fleet"]


def test_console_without_a_port_takes_nothing():
    """An absent port reads all ones, which looks like a byte that waits."""
    asked = []

    def port(number, _size):
        asked.append(number)
        return 0xFF

    LAB.call(console_poll, Environment(on_port_in=port))
    assert asked == [STATUS]
    assert LAB.g(CONSOLE).length == 0
