"""The targets of fuzzing in the normal suite: good inputs are good, changed ones break nothing."""

import functools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.fuzz.engine import BrokenRuleError, Fuzzer
from firmware.layouts.tls import TlsState
from tests.fuzz import corpus
from tests.fuzz.handshake import Handshake
from tests.fuzz.targets import TARGETS

EXAMPLES = 40
BYTES = st.one_of(st.sampled_from([0, 1, 0x7F, 0x80, 0x81, 0x82, 0xFF]), st.integers(0, 255))
EDITS = st.lists(
    st.tuples(st.integers(0, 2000), st.sampled_from("scid"), BYTES), min_size=1, max_size=5
)
REACHED = {
    "certificate": 250, "chain": 400, "message-server_hello": 130, "message-second_hello": 60,
    "message-extensions": 40, "message-certificate_or_request": 350, "message-certificate": 350,
    "message-verify": 60, "message-finished": 30, "records-plain": 150, "records-flight": 600, "records-sealed": 100,
    "records-raw": 50, "bus-info": 100, "bus-up": 150, "smbios": 25, "grant": 6,
}  # fmt: skip
"""Blocks that the seeds alone reach, at least: a target whose state is wrong reaches few."""


@functools.cache
def fuzzer(name):
    """Return a target that has run its seeds."""
    made = Fuzzer(TARGETS[name]())
    for _ in made.target.seeds:
        made.step()
    return made


def edited(seed, edits):
    """Return a seed with bytes set, cut and put in, and pieces doubled."""
    data = bytearray(seed)
    for place, what, byte in edits:
        at = place % (len(data) + 1)
        if what == "s":
            data[at : at + 1] = bytes([byte])
        elif what == "i":
            data.insert(at, byte)
        elif what == "c":
            del data[at : at + 1 + byte % 8]
        else:
            data[at:at] = data[at : at + 1 + byte % 8]
    return bytes(data)


@pytest.mark.parametrize("name", TARGETS)
def test_good_inputs_reach_the_parser_and_break_nothing(name):
    under_test = fuzzer(name)
    assert list(under_test.findings) == []
    assert under_test.blocks >= REACHED[name]


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=EXAMPLES, deadline=None)
@given(choice=st.integers(0, 7), edits=EDITS)
def test_changed_inputs_break_nothing(name, choice, edits):
    under_test = fuzzer(name)
    seeds = under_test.target.seeds
    data = edited(seeds[choice % len(seeds)], edits)[: under_test.target.longest]
    under_test.run(data)
    assert list(under_test.findings) == []


def test_the_good_flight_ends_in_a_connection():
    under_test = fuzzer("records-flight")
    places = {under_test.target.watch.place(end) for _, end in under_test.edges}
    assert {("tls_send_finished", 0), ("tls_data_secrets", 0)} <= places


@settings(max_examples=100)
@given(data=st.binary(max_size=200))
def test_records_of_an_input_are_what_was_packed(data):
    records = corpus.unpacked(data)
    assert corpus.unpacked(corpus.packed(*records)) == records


def test_a_state_that_cannot_be_is_told():
    at = Handshake("rules")
    at.judge()
    at.bench.tls.error = 0x0700_0000
    at.bench.tls.state = TlsState.FAILED
    with pytest.raises(BrokenRuleError, match="with the error"):
        at.judge()
