"""Mutants of small routines: who kills them, and that a missing test lets them live."""

import pytest

from emulator.environment import Environment
from emulator.machine import Machine
from emulator.mutation.campaign import run_campaign
from emulator.mutation.replay import Replay
from emulator.mutation.trial import BUILD, LOCKSTEP, NOBODY, REPLAY, Trials
from tests.support.mutants import (
    IMAGE,
    TALLY,
    Recorded,
    count_small,
    count_twice,
    mutant_of,
    spin,
    tell_port,
)


def verdict(recorded, subject, key):
    (found,) = Trials(recorded.corpus).verdicts(subject, [mutant_of(subject, key)])
    return found


@pytest.fixture
def counted():
    """Calls on both sides of the limit."""
    recorded = Recorded(count_small)
    for value in (0, 9, 10, 2**31, 2**32 - 1):
        recorded.tally(seen=3, kept=5, last=7, spare=9)
        recorded.lockstep.call(count_small, value=value)
    return recorded


# -- recording -------------------------------------------------------------------------------------
def test_a_call_is_recorded_with_what_it_needs(counted):
    call = counted.corpus.calls[0]
    assert (call.routine, call.inputs, call.outputs) == (count_small, {"value": 0}, (1,))
    (page,), (after,) = call.pages.values(), call.final.values()
    assert page[:16] == bytes([3, 0, 0, 0, 5, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0])
    assert after[:16] == bytes([4, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0])
    assert call.events == ()
    assert len(counted.corpus.calls) == 5


def test_an_equal_call_is_recorded_once(counted):
    counted.tally(seen=3, kept=5, last=7, spare=9)
    counted.lockstep.call(count_small, value=9)
    assert len(counted.corpus.calls) == 5


def test_a_call_of_no_wanted_routine_is_not_recorded(counted):
    counted.lockstep.call(spin, turns=2)
    assert len(counted.corpus.calls) == 5


def test_a_call_counts_for_what_it_calls():
    recorded = Recorded(count_small)
    recorded.tally()
    recorded.lockstep.call(count_twice, value=1)
    assert recorded.corpus.touching("count_small", 0) == [0]
    assert recorded.corpus.touching("count_twice", 0) == []


def test_the_shortest_calls_come_first(counted):
    lengths = [counted.corpus.calls[n].length for n in counted.corpus.touching("count_small", 0)]
    assert lengths == sorted(lengths)
    assert len(set(lengths)) == 2


def test_each_way_through_a_routine_comes_before_any_comes_twice(counted):
    trials = Trials(counted.corpus)
    order = trials._various("count_small", counted.corpus.touching("count_small", 0))
    kept = [counted.corpus.calls[n].outputs == (1,) for n in order]
    assert kept == [False, True, False, True, False]


# -- replay ----------------------------------------------------------------------------------------
def test_the_original_repeats_every_call(counted):
    assert Trials(counted.corpus).unrepeatable(range(5)) == []


def test_a_record_that_does_not_hold_is_not_used(counted):
    call = counted.corpus.calls[0]
    key, page = next(iter(call.final.items()))
    call.final[key] = b"\xff" + page[1:]
    assert Trials(counted.corpus).unrepeatable(range(5)) == [0]
    assert run_campaign(counted.corpus, [count_small], 1).unrepeatable == 1


def test_the_original_comes_back_after_a_mutant(counted):
    replay = Replay(counted.corpus.benches[0])
    call = counted.corpus.calls[0]
    replay.patch(mutant_of(count_small, "inc dword Tally.seen -> nop"))
    assert replay.differs(call) == ".bss has other contents"
    replay.patch(None)
    assert replay.differs(call) == ""
    assert replay.judged(call) == ""


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("inc dword Tally.seen -> nop", ".bss has other contents"),
        ("stc -> nop", "cf is another"),
        ("cmp ecx, 0xa -> cmp ecx, 0xb", "cf is another"),
        ("cmp ecx, 0xa -> cmp ecx, 9", "cf is another"),
        ("jae endif_1 -> ja endif_1", "cf is another"),
        ("jae endif_1 -> jge endif_1", "cf is another"),
        ("mov dword Tally.last, ecx -> mov ecx, dword Tally.last", "rcx is not kept"),
    ],
)
def test_a_recorded_call_kills(counted, key, why):
    found = verdict(counted, count_small, key)
    assert found.by == REPLAY
    assert why in found.why


def test_without_the_call_at_the_edge_the_mutant_lives():
    recorded = Recorded(count_small)
    for value in (0, 20):
        recorded.tally()
        recorded.lockstep.call(count_small, value=value)
    found = verdict(recorded, count_small, "cmp ecx, 0xa -> cmp ecx, 0xb")
    assert (found.by, found.why, found.calls) == (NOBODY, "", 2)


def test_without_any_call_the_mutant_lives():
    found = verdict(Recorded(count_small), count_small, "cmp ecx, 0xa -> cmp ecx, 0xb")
    assert (found.by, found.calls) == (NOBODY, 0)


def test_an_endless_loop_ends_at_the_limit():
    recorded = Recorded(spin)
    recorded.lockstep.call(spin, turns=3)
    found = verdict(recorded, spin, "dec ecx -> nop")
    assert found.by == REPLAY
    assert "still running after 1028 instructions" in found.why


def test_a_fault_kills():
    recorded = Recorded(spin)
    recorded.lockstep.call(spin, turns=3)
    assert verdict(recorded, spin, "ret -> nop").by == REPLAY


def test_what_the_outside_sees_is_compared():
    recorded = Recorded(tell_port)
    environment = Environment(on_port_in=lambda _port, _size: 5)
    recorded.lockstep.call(tell_port, environment, value=7)
    assert recorded.corpus.calls[0].answers == (("in", 5),)
    assert recorded.corpus.calls[0].events == (("in", 0x40, 4), ("out", 0x80, 4, 12))
    for key, why in (
        ("out 0x80, eax -> out 0x81, eax", "the outside saw something else"),
        ("add eax, edx -> nop", "the outside saw something else"),
        ("in eax, 0x40 -> nop", "it no longer asks for in"),
    ):
        found = verdict(recorded, tell_port, key)
        assert (found.by, found.why) == (REPLAY, why)


def test_what_a_device_stores_is_stored_again():
    recorded = Recorded(tell_port)
    place = recorded.machine.alloc(16)

    def store(_port, _size, value):
        recorded.machine.write(place, bytes([value, 0xA5, value]))

    environment = Environment(on_port_in=lambda _port, _size: 5, on_port_out=store)
    recorded.lockstep.call(tell_port, environment, value=7)
    (stored,) = recorded.corpus.calls[0].device
    assert [contents for _, _, contents in stored] == [b"\x0c\xa5\x0c"]
    assert environment.on_port_out is store, "the test has its own device back"
    assert Trials(recorded.corpus).unrepeatable([0]) == []


# -- in lockstep -----------------------------------------------------------------------------------
def test_a_store_that_changes_nothing_is_seen_in_lockstep_alone():
    recorded = Recorded(count_small)
    recorded.tally(last=4)
    recorded.lockstep.call(count_small, value=4)
    found = verdict(recorded, count_small, "mov dword Tally.last, ecx -> nop")
    assert found.by == LOCKSTEP
    assert "nothing stores Tally.last" in found.why


def test_the_arguments_of_a_call_are_seen_in_lockstep():
    recorded = Recorded(count_twice)
    recorded.tally()
    recorded.lockstep.call(count_twice, value=1)
    found = verdict(recorded, count_twice, "mov ecx, 0xa -> mov ecx, 0xb")
    assert found.by == LOCKSTEP
    assert "call count_small(value=0xb)" in found.why


# -- the build -------------------------------------------------------------------------------------
def test_what_could_not_be_built_is_killed_by_the_build():
    """Without a call below the limit no test tells; the contract does."""
    recorded = Recorded(count_small)
    recorded.tally()
    recorded.lockstep.call(count_small, value=20)
    found = verdict(recorded, count_small, "mov dword Tally.last, ecx -> nop")
    assert found.by == BUILD
    assert "lists Tally.last in `writes` but never writes it" in found.why


# -- a campaign ------------------------------------------------------------------------------------
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_campaign_tries_every_mutant(counted, jobs):
    told = []
    campaign = run_campaign(counted.corpus, [count_small], jobs, lambda *n: told.append(n))
    places = [v.mutant.offset for v in campaign.verdicts]
    assert places == sorted(places)
    assert told[0] == (0, len(places))
    assert told[-1] == (len(places), len(places))
    assert (campaign.calls, campaign.unrepeatable) == (5, 0)
    left = {v.mutant.key for v in campaign.verdicts if v.by == NOBODY}
    assert left == {"clc -> nop"}, "CMP left CF clear already"


def test_the_machine_of_the_test_is_left_alone(counted):
    before = counted.machine.read(IMAGE.address(TALLY), 16)
    run_campaign(counted.corpus, [count_small], 1)
    assert counted.machine.read(IMAGE.address(TALLY), 16) == before
    assert isinstance(counted.machine, Machine)
