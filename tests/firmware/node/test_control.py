"""Commands over UDP: only with the key, only once, and never answered with more than was asked."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import UDP
from scapy.layers.l2 import Ether

from firmware.layouts.config import CONFIG
from firmware.layouts.control import (
    CONTROL,
    CONTROL_LEAST,
    CONTROL_MOST,
    CONTROL_REPLY_MAGIC,
    CONTROL_TRIES_PER_TURN,
    CONTROL_VERSION,
    ControlResult,
    ControlVerb,
)
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.net import ANSWERS_PER_TURN, NET
from firmware.layouts.node import CLOCK, CORE, LEASE
from firmware.layouts.status import DIAGNOSTICS, STATUS_REQUEST_MAGIC, StatusReply
from firmware.layouts.survivor import SURVIVAL
from firmware.node.control import HANDLERS, VERBS, control_try, operator_input
from tests.support.control import BOOT, KEY, answer, command
from tests.support.lab import Lab
from tests.support.net import MAC, MS, NEEDED, PEER, PEER_MAC, START, NetBench, ip32
from tests.support.pages import tables_region
from toolchain.layout.pack import pack

LAB = Lab(*NEEDED, operator_input, control_try, slots=1, semantics=False, extra=(tables_region(),))
JUDGED = Lab(*NEEDED, operator_input, slots=1, extra=(tables_region(),))
"""With the Python semantics, which take their time over so many rounds of SHA-256."""
PORT, ASKER_PORT = 4747, 40_000
S = ControlResult


def prepare(key=KEY, lab=LAB):
    made = NetBench(lab)
    config = lab.g(CONFIG)
    config.diagnostics_port, config.control_key_len = PORT, len(key)
    config.control_key[:] = key.ljust(64, b"\0")
    lab.g(CONTROL).boot = BOOT
    return made


@pytest.fixture
def bench():
    return prepare()


def say(bench, datagram):
    """Hand a datagram to the node; return the answers."""
    frame = Ether(dst=MAC.hex(":"), src=PEER_MAC.hex(":"))
    bench.lab.g(NET).rx_frame = bench.put(bytes(frame))
    environment = bench.environment()
    environment._tsc = lambda: bench.lab.g(CORE).now
    bench.lab.call(
        operator_input,
        environment,
        datagram=bench.lab.put(datagram),
        length=len(datagram),
        source=ip32(PEER),
        port=ASKER_PORT,
    )
    frames = [Ether(sent) for sent in bench.sent()]
    return [bytes(sent[UDP].payload)[: sent[UDP].len - 8] for sent in frames if UDP in sent]


def one(bench, datagram):
    (got,) = say(bench, datagram)
    assert len(got) <= len(datagram)
    return answer(got)


def counts():
    state = LAB.g(CONTROL)
    return state.accepted, state.refused, state.bad


def test_there_is_one_handler_for_each_verb():
    assert len(HANDLERS) == len(ControlVerb) == VERBS.size // 8
    assert [verb.value for verb in ControlVerb] == list(range(len(ControlVerb)))


def test_ping_is_answered_with_its_counter_and_argument(bench):
    got = one(bench, command(counter=77, argument=0x0102_0304_0506_0708))
    assert (got["magic"], got["version"]) == (CONTROL_REPLY_MAGIC, CONTROL_VERSION)
    assert (got["result"], got["counter"], got["last"]) == (S.DONE, 77, 77)
    assert (got["boot"], got["value"], got["payload"]) == (BOOT, 0x0102_0304_0506_0708, b"")
    assert counts() == (1, 0, 0)


@pytest.mark.parametrize("size", [CONTROL_LEAST, CONTROL_LEAST + 1, 511, CONTROL_MOST])
def test_any_length_within_the_bounds_will_do(bench, size):
    assert one(bench, command(size=size))["result"] == S.DONE


@pytest.mark.parametrize("size", [CONTROL_LEAST - 1, CONTROL_MOST + 1])
def test_a_length_out_of_bounds_is_counted_and_gets_nothing(bench, size):
    assert say(bench, command(size=size)) == []
    assert counts() == (0, 0, 1)


@pytest.mark.parametrize("at", [4, 6, 8, 0x10, 0x20, 100, 223, 224, 255])
def test_a_request_with_one_changed_bit_is_counted_and_gets_nothing(bench, at):
    forged = bytearray(command(counter=5))
    forged[at] ^= 0x40
    assert say(bench, bytes(forged)) == []
    assert counts() == (0, 0, 1)
    assert LAB.g(CONTROL).last == 0


@pytest.mark.parametrize("key", [b"", KEY[:-1], KEY[:-1] + b"\0", KEY + b"\1"])
def test_another_key_is_counted_and_gets_nothing(bench, key):
    assert say(bench, command(key=key)) == []
    assert counts() == (0, 0, 1)


def test_without_a_key_the_channel_is_off():
    bench = prepare(b"")
    assert say(bench, command(key=b"")) == []
    assert counts() == (0, 0, 1)


def test_a_key_of_a_whole_block_serves():
    bench = prepare(b"k" * 64)
    (got,) = say(bench, command(key=b"k" * 64))
    assert answer(got, b"k" * 64)["result"] == S.DONE


def test_an_old_counter_is_refused_and_told_the_last_one(bench):
    one(bench, command(counter=100))
    got = one(bench, command(ControlVerb.LEASE_EXPIRE, counter=99))
    assert (got["result"], got["counter"], got["last"]) == (S.REPLAYED, 99, 100)
    assert LAB.g(LEASE).expired == 0
    assert counts() == (1, 1, 0)


def test_a_repeated_request_gets_its_answer_again_and_acts_once(bench):
    LAB.g(CLOCK).tsc_cycles_per_ms = MS
    request = command(ControlVerb.LEASE_ARM, counter=7, argument=1000)
    first = say(bench, request)
    bench.advance(MS)
    assert say(bench, request) == first
    assert (LAB.g(LEASE).generation, LAB.g(LEASE).deadline) == (1, START + 1000 * MS)
    assert counts() == (1, 0, 0)


def test_a_refusal_in_between_leaves_the_answer_to_the_last_request(bench):
    request = command(counter=7, argument=3)
    first = say(bench, request)
    assert one(bench, command(counter=6))["result"] == S.REPLAYED
    assert say(bench, request) == first


def test_two_requests_with_one_counter_are_two(bench):
    """Two operators in the same microsecond: the second is told so, and tries again."""
    one(bench, command(counter=7, argument=3))
    got = one(bench, command(ControlVerb.LEASE_EXPIRE, counter=7))
    assert got["result"] == S.REPLAYED
    assert LAB.g(LEASE).expired == 0


def test_counter_zero_is_never_new(bench):
    assert one(bench, command(counter=0))["result"] == S.REPLAYED


def test_the_highest_counter_ends_the_boot_s_commands(bench):
    assert one(bench, command(counter=2**64 - 1))["result"] == S.DONE
    assert one(bench, command(counter=0))["result"] == S.REPLAYED


@pytest.mark.parametrize("boot", [0, BOOT ^ 1])
def test_a_request_of_another_boot_is_told_this_one(bench, boot):
    """What was recorded before a restart does nothing after it; who names none only asks for it."""
    got = one(bench, command(ControlVerb.LEASE_EXPIRE, counter=500, boot=boot))
    assert (got["result"], got["boot"], got["last"]) == (S.BOOT, BOOT, 0)
    assert (LAB.g(LEASE).expired, LAB.g(CONTROL).last) == (0, 0)
    assert counts() == (0, int(boot != 0), 0)


def test_the_nonce_is_drawn_with_the_first_request(bench):
    LAB.g(CONTROL).boot = 0
    nonce = one(bench, command(boot=0))["boot"]
    assert nonce == LAB.g(CONTROL).boot != 0
    assert one(bench, command(boot=nonce))["boot"] == nonce


@pytest.mark.parametrize(
    ("fields", "result"),
    [
        ({"version": 2}, S.VERSION),
        ({"version": 0}, S.VERSION),
        ({"verb": len(ControlVerb)}, S.VERB),
        ({"verb": 0xFFFF}, S.VERB),
        ({"length": 257}, S.ARGUMENT),
        ({"length": 2**32 - 1}, S.ARGUMENT),
    ],
)
def test_what_no_handler_may_see_is_refused(bench, fields, result):
    got = one(bench, command(**{"verb": ControlVerb.PING} | fields))
    assert (got["result"], got["value"], got["payload"]) == (result, 0, b"")
    assert counts() == (1, 1, 0)


@pytest.mark.parametrize("size", [CONTROL_LEAST, 300])
def test_the_payload_may_fill_the_request_and_no_more(bench, size):
    room = size - 0x28 - 32
    assert one(bench, command(size=size, payload=b"x" * room))["result"] == S.DONE
    assert one(bench, command(size=size, counter=2, length=room + 1))["result"] == S.ARGUMENT


@pytest.mark.parametrize(
    ("verb", "argument", "cycles", "expired", "result"),
    [
        (ControlVerb.LEASE_ARM, 1000, MS, 0, S.DONE),
        (ControlVerb.LEASE_ARM, 2**32 - 1, MS, 1, S.DONE),
        (ControlVerb.LEASE_ARM, 0, MS, 0, S.ARGUMENT),
        (ControlVerb.LEASE_ARM, 2**32, MS, 0, S.ARGUMENT),
        (ControlVerb.LEASE_ARM, 2**64 - 1, MS, 0, S.ARGUMENT),
        (ControlVerb.LEASE_ARM, 1, 0, 0, S.NO_CLOCK),
        (ControlVerb.LEASE_RENEW, 1000, MS, 0, S.DONE),
        (ControlVerb.LEASE_RENEW, 0, MS, 0, S.ARGUMENT),
        (ControlVerb.LEASE_RENEW, 1000, MS, 1, S.LEASE_OVER),
        (ControlVerb.LEASE_RENEW, 1000, 0, 0, S.NO_CLOCK),
        (ControlVerb.LEASE_EXPIRE, 0, MS, 0, S.DONE),
        (ControlVerb.LEASE_EXPIRE, 0, 0, 0, S.DONE),
        (ControlVerb.LEASE_EXPIRE, 0, MS, 1, S.LEASE_OVER),
    ],
)
def test_lease_verbs(bench, verb, argument, cycles, expired, result):
    LAB.g(CLOCK).tsc_cycles_per_ms = cycles
    lease = LAB.g(LEASE)
    lease.generation, lease.expired = 6, expired
    got = one(bench, command(verb, argument=argument))
    armed = (verb, result) == (ControlVerb.LEASE_ARM, S.DONE)
    assert (got["result"], got["value"]) == (result, 6 + armed)
    if result == S.DONE and verb != ControlVerb.LEASE_EXPIRE:
        assert (lease.expired, lease.deadline) == (0, START + argument * MS)
    else:
        assert lease.expired == (expired or (verb, result) == (ControlVerb.LEASE_EXPIRE, S.DONE))


@pytest.mark.parametrize(
    "verb", [ControlVerb.LEASE_ARM, ControlVerb.LEASE_RENEW, ControlVerb.LEASE_EXPIRE]
)
def test_a_node_of_a_fleet_refuses_every_lease_verb(bench, verb):
    LAB.g(FLEET_CONFIG).magic = FLEET_MAGIC
    lease = LAB.g(LEASE)
    lease.generation, lease.deadline = 6, START + 5
    got = one(bench, command(verb, argument=60_000))
    assert (got["result"], got["value"]) == (S.FLEET, 6)
    assert (lease.generation, lease.deadline, lease.expired) == (6, START + 5, 0)


@pytest.mark.parametrize("held", [0, 1])
def test_release_ends_the_hold_of_a_node_that_crashed(bench, held):
    LAB.g(SURVIVAL).held = held
    got = one(bench, command(ControlVerb.NODE_RELEASE))
    assert (got["result"], got["value"]) == (S.DONE, held)
    assert LAB.g(SURVIVAL).held == 0


def test_a_turn_looks_at_eight_and_the_next_one_goes_on(bench):
    for n in range(CONTROL_TRIES_PER_TURN + 3):
        got = say(bench, command(counter=n + 1))
        assert len(got) == (n < CONTROL_TRIES_PER_TURN)
    assert LAB.g(CONTROL).held == 3
    bench.advance(1)
    assert one(bench, command(counter=50))["result"] == S.DONE


def test_a_turn_that_has_answered_enough_acts_and_answers_the_repeat(bench):
    LAB.g(NET).answers_at, LAB.g(NET).answers = LAB.g(CORE).now, ANSWERS_PER_TURN
    request = command(ControlVerb.LEASE_EXPIRE, counter=4)
    assert say(bench, request) == []
    assert LAB.g(LEASE).expired == 1
    bench.advance(1)
    assert one(bench, request)["result"] == S.DONE


def test_questions_still_go_to_diagnostics(bench):
    question = pack(StatusReply, {"magic": STATUS_REQUEST_MAGIC, "slot": 0})
    assert len(say(bench, question)) == 1
    assert LAB.g(DIAGNOSTICS).requests == 1
    for short in (b"", b"SCQ"):
        assert say(bench, short) == []
    assert (LAB.g(DIAGNOSTICS).bad, LAB.g(CONTROL).bad) == (2, 0)


def test_every_way_through_agrees_with_the_semantics_too():
    bench = prepare(lab=JUDGED)
    new = command(ControlVerb.LEASE_EXPIRE, counter=9, size=128)
    for datagram, result in (
        (new, S.DONE),
        (new, S.DONE),
        (command(counter=9, size=128), S.REPLAYED),
        (command(counter=10, boot=0, size=128), S.BOOT),
        (command(counter=11, verb=99, size=128), S.VERB),
    ):
        assert one(bench, datagram)["result"] == result
    assert say(bench, new[:-1]) == []


@settings(max_examples=25)
@given(
    text=st.binary(max_size=200),
    head=st.sampled_from([b"", b"SCQ1", command()[:40]]),
    cut=st.integers(0, 300),
)
def test_any_bytes_match_model_and_do_nothing(text, head, cut):
    bench = prepare()
    say(bench, (head + text)[:cut])
    assert (LAB.g(CONTROL).accepted, LAB.g(LEASE).expired) == (0, 0)


@settings(max_examples=12)
@given(
    verb=st.integers(0, len(ControlVerb)),
    counters=st.lists(st.integers(0, 6), min_size=1, max_size=6),
    argument=st.sampled_from([0, 1, 60_000, 2**32]),
)
def test_any_order_of_counters_acts_on_rising_ones_only(verb, counters, argument):
    bench = prepare()
    highest = done = 0
    for counter in counters:
        bench.advance(1)
        one(bench, command(verb, counter=counter, argument=argument, size=128))
        done += counter > highest
        highest = max(highest, counter)
    assert (LAB.g(CONTROL).accepted, LAB.g(CONTROL).last) == (done, highest)
