"""Diagnostics: one padded question, one answer of the same size, nothing secret in it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import UDP
from scapy.layers.l2 import Ether

from firmware.layouts.bus import BUS, LinkState
from firmware.layouts.config import CONFIG
from firmware.layouts.control import CONTROL
from firmware.layouts.crypto import DRBG
from firmware.layouts.enrol import ENROL, ENROL_SEAL, EnrolState
from firmware.layouts.net import ANSWERS_PER_TURN, ARP, NET, ArpState
from firmware.layouts.nic import NIC, NicState
from firmware.layouts.node import CLOCK, CORE, LEASE, PLAN
from firmware.layouts.plan import MOVES
from firmware.layouts.shard import End, ShardContext, ShardState
from firmware.layouts.smbios import SMBIOS
from firmware.layouts.status import (
    AGE_UNKNOWN,
    DIAGNOSTICS,
    SHARD_HEAD_BYTES,
    STATUS_REPLY_MAGIC,
    STATUS_REQUEST_MAGIC,
    StatusReply,
)
from firmware.layouts.stop import STOP, StopPhase
from firmware.layouts.tcp import TcpState
from firmware.node.diagnostics import age_in_ms, diagnostics_input
from tests.support.lab import Lab
from tests.support.net import MAC, MS, NEEDED, PEER, PEER_MAC, SECOND, NetBench, ip32
from tests.support.states import QWORD
from tests.support.token import set_token
from toolchain.layout.pack import pack, unpack

LAB = Lab(*NEEDED, diagnostics_input, age_in_ms, slots=2)
ASKER_PORT = 40_000
TOKEN = b"MTk4.the-token.of_the-bot"


@pytest.fixture
def bench():
    made = NetBench(LAB)
    made.learn(PEER)
    LAB.g(CONFIG).diagnostics_port = 4747
    core = LAB.g(CORE)
    core.slots_used = 2
    for n in range(2):
        shard = LAB.shard(n)
        core.slots[n].context, core.slots[n].flags = shard, 1
    return made


def request(slot=0, magic=STATUS_REQUEST_MAGIC, nonce=0x1122334455667788):
    return pack(StatusReply, {"magic": magic, "slot": slot, "nonce": nonce})


def ask(bench, message):
    address = LAB.machine.alloc(len(message) + 8)
    LAB.machine.write(address, message or b"\0")
    frame = Ether(dst=MAC.hex(":"), src=PEER_MAC.hex(":"))
    LAB.g(NET).rx_frame = bench.put(bytes(frame))
    bench.call(
        diagnostics_input,
        request=address,
        length=len(message),
        source=ip32(PEER),
        port=ASKER_PORT,
    )
    frames = [Ether(frame) for frame in bench.sent()]
    return [bytes(frame[UDP].payload) for frame in frames if UDP in frame]


def test_diagnostics_tells_of_the_links_of_a_fleet_node(bench):
    bus, wanted = LAB.g(BUS), []
    for n in range(2):
        link, tcp = bus.links[n], LAB.view(ShardContext, LAB.shard(n)).tcp
        link.context = LAB.shard(n, wipe=False)
        link.state, link.error, link.version = LinkState.UP, 0x0C04_0000 + n, 0x020F01
        link.ups, link.failures, link.denials = 3 + n, 5 + n, 7 + n
        tcp.remote_ip, tcp.remote_port = 0x0100000A + n, 4222 + n
        wanted.append(
            {
                "state": LinkState.UP, "error": 0x0C04_0000 + n, "ip": 0x0100000A + n,
                "port": 4222 + n, "version": 0x020F01, "ups": 3 + n, "failures": 5 + n,
                "denials": 7 + n,
            }
        )  # fmt: skip
    (answer,) = ask(bench, request())
    got = unpack(StatusReply, answer)
    assert (got["fleet"], got["links"]) == (1, wanted)
    bus.links[0].context = 0
    (answer,) = ask(bench, request())
    assert unpack(StatusReply, answer)["fleet"] == 0


def test_diagnostics_answers_with_node_and_shard(bench):
    context = LAB.view(ShardContext, LAB.shard(1))
    context.state, context.reconnects, context.hb_misses = ShardState.READY, 3, 2
    context.evidence.end, context.evidence.error = End.TCP_FAILED, 0x04020000
    context.tcp.state = TcpState.ESTABLISHED
    context.gateway.last_ack_at = LAB.g(CORE).now - 7 * SECOND
    context.gateway.latency_ms = 12
    LAB.g(LEASE).generation, LAB.g(LEASE).deadline = 5, 99
    control = LAB.g(CONTROL)
    control.accepted, control.bad, control.refused = 7, 2, 3
    LAB.g(STOP).phase = StopPhase.DRAINING
    LAB.g(DRBG).weak, LAB.g(DRBG).sources[:] = 1, bytes([2, 1, 0, 2])
    LAB.g(PLAN).global_total, LAB.g(PLAN).local_start, LAB.g(PLAN).local_count = 64, 16, 2
    LAB.g(MOVES).recommended = 80
    enrol = LAB.g(ENROL)
    enrol.state, enrol.refused, enrol.error = EnrolState.WAITING, 7, ENROL_SEAL.code
    enrol.digest[:] = bytes(range(50, 82))
    set_token(LAB, TOKEN)
    LAB.g(SMBIOS).uuid[:], LAB.g(SMBIOS).serial[:] = bytes(range(16)), b"S-1".ljust(64, b"\0")
    message = request(slot=1)
    (answer,) = ask(bench, message)
    assert len(answer) == len(message)
    got = unpack(StatusReply, answer)
    assert (got["magic"], got["slot"], got["nonce"]) == (STATUS_REPLY_MAGIC, 1, 0x1122334455667788)
    assert (got["global_total"], got["local_start"], got["local_count"]) == (64, 16, 2)
    assert got["recommended"] == 80
    assert (got["token_known"], got["enrol_state"], got["enrol_refused"]) == (1, 1, 7)
    assert (got["enrol_error"], got["fingerprint"]) == (ENROL_SEAL.code, bytes(range(50, 58)))
    assert TOKEN not in answer
    assert (got["uuid"], got["serial"]) == (bytes(range(16)), b"S-1".ljust(64, b"\0"))
    assert (got["lease_generation"], got["lease_deadline"]) == (5, 99)
    assert (got["commands"], got["commands_bad"]) == (7, 5)
    assert got["stop_phase"] == StopPhase.DRAINING
    assert (got["entropy_weak"], got["entropy_sources"]) == (1, bytes([2, 1, 0, 2]))
    assert (got["tcp_state"], got["latency_ms"]) == (TcpState.ESTABLISHED, 12)
    assert (got["ack_age_ms"], got["frame_age_ms"]) == (7000, AGE_UNKNOWN)
    assert got["shard"] == LAB.machine.read(context.address_, SHARD_HEAD_BYTES)
    assert LAB.g(DIAGNOSTICS).requests == 1


def test_diagnostics_says_whether_there_is_a_token(bench):
    set_token(LAB, b"")
    (answer,) = ask(bench, request())
    assert unpack(StatusReply, answer)["token_known"] == 0


@pytest.mark.parametrize("slot", [2, 63, 0xFFFF_FFFF])
def test_diagnostics_slot_beyond_the_table_gets_the_node_part(bench, slot):
    (answer,) = ask(bench, request(slot=slot))
    got = unpack(StatusReply, answer)
    assert got["slots_used"] == 2
    assert not any(got["shard"])


def test_diagnostics_slot_without_a_shard_gets_the_node_part(bench):
    LAB.g(CORE).slots[0].flags = 0
    (answer,) = ask(bench, request())
    assert not any(unpack(StatusReply, answer)["shard"])


@pytest.mark.parametrize(
    "message",
    [b"", request()[:-1], request(magic=0), request(magic=STATUS_REPLY_MAGIC), b"\0" * 2000],
)
def test_diagnostics_bad_request_is_counted_and_gets_nothing(bench, message):
    assert ask(bench, message) == []
    assert LAB.g(DIAGNOSTICS).bad == 1


def test_diagnostics_answers_strangers_where_they_are_and_remembers_none(bench):
    """Forged sources could otherwise push every neighbour out of the table."""
    LAB.g(ARP).entries[0].state = ArpState.FREE
    before = LAB.machine.read(LAB.image.address(ARP), ARP.size)
    assert len(ask(bench, request())) == 1
    assert LAB.machine.read(LAB.image.address(ARP), ARP.size) == before


def test_diagnostics_a_turn_answers_sixteen_and_the_next_one_goes_on(bench):
    for n in range(ANSWERS_PER_TURN + 3):
        assert len(ask(bench, request())) == (n < ANSWERS_PER_TURN)
    assert LAB.g(NET).counters.answers_held == 3
    bench.advance(1)
    assert len(ask(bench, request())) == 1


def test_diagnostics_without_a_transmit_buffer_answers_later(bench):
    LAB.g(NIC).state = NicState.FAILED
    ask(bench, request())
    assert LAB.g(NET).counters.tx_no_buffer == 1


@pytest.mark.parametrize(
    ("milliseconds", "age"),
    [(0, 0), (2**32 - 2, 2**32 - 2), (2**32 - 1, 2**32 - 2), (2**32 + 5, 2**32 - 2)],
)
def test_age_of_more_than_49_days_does_not_begin_anew(milliseconds, age):
    LAB.g(CORE).now, LAB.g(CLOCK).tsc_cycles_per_ms = 7 + milliseconds * MS, MS
    assert LAB.call(age_in_ms, since=7).outputs["eax"] == age


@settings(max_examples=60, deadline=None)
@given(since=QWORD, now=QWORD, cycles=st.sampled_from([0, 1, MS]))
def test_age_any_stamp_matches_model(since, now, cycles):
    LAB.g(CORE).now, LAB.g(CLOCK).tsc_cycles_per_ms = now, cycles
    LAB.call(age_in_ms, since=since)
