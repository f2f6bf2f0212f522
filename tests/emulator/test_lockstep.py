"""Lockstep finds every way in which bytes and model can disagree, and says where.

Each fault is planted on one side only: in the bytes (a patch over the NOPs of a good routine) or in
the model.
"""

import re

import pytest

from emulator.effects import ModelError
from emulator.environment import Environment
from emulator.lockstep import STATISTICS
from emulator.machine import MachineError
from tests.support.lockstep_pairs import (
    GOOD,
    IMAGE,
    MODELS,
    PAIR,
    Bench,
    add_up,
    ask_clock,
    caller,
    copy_vector,
    good_add_up,
    good_publish,
    good_store_two,
    publish,
    spin,
    store_two,
    tail,
    use,
)


@pytest.fixture
def bench():
    for subject, rule in GOOD.items():
        use(subject, rule)
    return Bench()


# -- agreement -------------------------------------------------------------------------------------
@pytest.mark.parametrize("settings", [{}, {"semantics": True}, {"native": True}])
def test_good_routines_agree(bench, settings):
    bench = Bench(**settings)
    bench.call(store_two)
    assert bench.call(add_up, number=3, other=2**64 - 1).outputs == {"rax": 2, "cf": 1}
    assert bench.call(copy_vector, vector=2**127 + 5).outputs == {"xmm1": 2**127 + 5}
    assert bench.call(caller).outputs == {"rax": 3}
    assert bench.call(tail, number=1, other=2**64 - 1).outputs == {"rax": 1, "cf": 0}
    bench.call(publish)
    bench.call(ask_clock, Environment(tsc=[5]))
    bench.call(spin, turns=9)


def test_a_call_and_its_return_are_events_with_values(bench):
    keys = [e.key for e in bench.call(caller).events if e.key[0] != "write"]
    assert keys == [
        ("call", "caller", ()),
        ("call", "store_two", ()),
        ("return", "store_two", ()),
        ("call", "add_up", (("number", 1), ("other", 2))),
        ("return", "add_up", (3, 0)),
    ]


def test_a_tail_call_returns_for_both(bench):
    keys = [e.key[:2] for e in bench.call(tail, number=1, other=1).events]
    assert keys == [("call", "tail"), ("call", "add_up"), ("return", "add_up")]


def test_a_loop_to_the_first_instruction_is_no_call(bench):
    assert [e.key for e in bench.call(spin, turns=3).events] == [("call", "spin", (("turns", 3),))]


def test_statistics_count_instructions(bench):
    calls, instructions = STATISTICS.calls, STATISTICS.instructions
    bench.call(spin, turns=3)
    assert STATISTICS.calls == calls + 1
    assert STATISTICS.instructions == instructions + 7
    assert STATISTICS.seconds > 0


# -- stores ----------------------------------------------------------------------------------------
def test_a_surplus_store_is_found(bench):
    place = IMAGE.address(PAIR) + 0xC
    bench.patch(store_two, f"c70425{place.to_bytes(4, 'little').hex()}05000000")
    text = bench.fails("store_two: .* stores 0x05 at .*; the model wants no store", store_two)
    assert re.search(r"store_two\+0x\w+ \(.*lockstep_pairs\.py:\d+\) stores", text)
    assert "(pair+0xc)" in text


def test_a_surplus_store_of_the_old_value_is_found(bench):
    bench.machine.write(IMAGE.address(PAIR), bytes(16))
    place = IMAGE.address(PAIR) + 0xC
    bench.patch(store_two, f"c70425{place.to_bytes(4, 'little').hex()}00000000")
    bench.fails("stores 0x00 at .*; the model wants no store", store_two)


def test_a_wrong_value_that_does_not_last_is_found(bench):
    """The word is set to 9 and at once to its right value again."""
    at = IMAGE.address(PAIR).to_bytes(4, "little").hex()
    bench.patch(store_two, f"c70425{at}09000000" + f"c70425{at}01000000")
    text = bench.fails("stores 0x09 at .*the model wants 0x01", store_two)
    assert "Pair.first" in text
    assert "lockstep_pairs.py" in text


def test_a_missing_store_is_found(bench):
    def rule(w):
        good_store_two(w)
        w.g(PAIR).spare = 4

    use(store_two, rule)
    bench.fails(
        r"nothing stores Pair.spare at 0x\w+ \(pair\+0xc\); the model wants 0x04", store_two
    )


def test_a_store_that_is_taken_back_is_found(bench):
    """Both values are wanted at some time, but the last one is the other."""

    def rule(w):
        w.g(PAIR).first = 1
        w.g(PAIR).first = 0x0101
        w.g(PAIR).second = 2

    use(store_two, rule)
    bench.fails("leaves 0x00 in Pair.first; the model wants 0x01", store_two)


def test_a_store_on_the_wrong_side_of_a_call_is_found(bench):
    def rule(w):
        MODELS[store_two](w)
        w.g(PAIR).second = 3
        return MODELS[add_up](w, 1, 2)[0]

    use(caller, rule)
    bench.fails("caller: nothing stores Pair.second .*the model wants 0x03", caller)


def test_a_store_of_a_callee_is_not_one_of_the_caller(bench):
    """The model lets the caller do what the bytes do in the callee: the return lies between."""

    def callee(w):
        w.g(PAIR).first = 1

    def rule(w):
        MODELS[store_two](w)
        w.g(PAIR).second = 2
        MODELS[add_up](w, 1, 2)
        w.g(PAIR).second = 3
        return 3

    use(store_two, callee)
    use(caller, rule)
    bench.fails("stores 0x02 at .*the model wants no store", caller)


def test_a_field_declared_ordered_may_not_come_early(bench):
    def rule(w):
        pair = w.g(PAIR)
        pair.ready = 1
        pair.first = 1
        pair.second = 2

    use(publish, rule)
    bench.fails("publish: .* stores 0x01 at .*the model wants no store", publish)


def test_an_ordered_field_must_be_stored_whole(bench):
    def rule(w):
        good_publish(w)
        w.write(w.g(PAIR).offset_of("ready"), b"\1")

    use(publish, rule)
    bench.fails("the model wants", publish)


def test_memory_that_changes_behind_both_is_found(bench):
    """Somebody who is no device writes a page that the routine writes too."""
    region, offset, _ = bench.machine.page(IMAGE.address(PAIR))
    environment = Environment(tsc=[1])
    environment.on_port_out = lambda *_: region.buffer.__setitem__(offset + 0xC, 0x77)
    bench.fails(
        r"ask_clock: \.bss\+0xc \(pair\+0xc\) is 0x77, the model has", ask_clock, environment
    )


# -- events ----------------------------------------------------------------------------------------
def test_a_missing_call_is_found(bench):
    def rule(w):
        MODELS[store_two](w)
        return 3

    use(caller, rule)
    text = bench.fails("caller: the machine did call add_up", caller)
    assert "call add_up(number=0x1, other=0x2) at add_up+0x0" in text
    assert "the model wants return from caller(0x3)" in text


def test_a_surplus_call_of_the_model_is_found(bench):
    def rule(w, number, other):
        MODELS[store_two](w)
        return good_add_up(w, number, other)

    use(add_up, rule)
    bench.fails("the machine did return from add_up.*the model wants call store_two", add_up, number=1, other=1)  # fmt: skip


def test_other_arguments_of_a_call_are_found(bench):
    def rule(w):
        MODELS[store_two](w)
        MODELS[add_up](w, 2, 2)
        w.g(PAIR).second = 3
        return 3

    use(caller, rule)
    bench.fails(r"did call add_up\(number=0x1, .*wants call add_up\(number=0x2, ", caller)


def test_another_port_value_is_found(bench):
    def rule(w):
        w.g(PAIR).first = w.rdtsc()
        w.port_out(0x80, 8, 4)

    use(ask_clock, rule)
    bench.fails(
        "the machine did out 0x80 0x4 0x7 at .*; the model wants out 0x80 0x4 0x8",
        ask_clock,
        Environment(tsc=[1]),
    )


def test_events_that_the_model_lacks_at_the_end_are_found(bench):
    def rule(w):
        w.g(PAIR).first = w.rdtsc()

    use(ask_clock, rule)
    bench.fails(
        "did out .*; the model wants return from ask_clock", ask_clock, Environment(tsc=[1])
    )


def test_a_question_that_the_model_does_not_ask_is_found(bench):
    def rule(w):
        w.g(PAIR).first = 1
        w.port_out(0x80, 7, 4)

    use(ask_clock, rule)
    bench.fails("ask_clock: the model did not ask for rdtsc", ask_clock, Environment(tsc=[1]))


def test_a_question_that_the_machine_did_not_ask_is_an_error_of_the_model(bench):
    def rule(w):
        w.rdtsc()
        good_store_two(w)

    use(store_two, rule)
    with pytest.raises(
        ModelError, match=r"test_lockstep.py:\d+: the model wants rdtsc, the machine"
    ):
        bench.call(store_two)


# -- outputs ---------------------------------------------------------------------------------------
def test_another_output_is_found(bench):
    use(add_up, lambda w, number, other: (number + other + 1, 0))
    bench.fails(r"add_up: rax \(their sum\) is 0x3 at .*; the model has 0x4", add_up, number=1, other=2)  # fmt: skip


def test_another_flag_is_found(bench):
    use(add_up, lambda w, number, other: (number + other, 1))
    bench.fails(r"add_up: cf \(1 = it wrapped\) is 0x0 .*the model has 0x1", add_up, number=1, other=2)  # fmt: skip


def test_another_vector_is_found(bench):
    use(copy_vector, lambda w, vector: vector ^ 1 << 100)
    bench.fails(r"copy_vector: xmm1 \(the same vector\) is", copy_vector, vector=1)


def test_an_output_that_is_none_is_not_compared(bench):
    use(add_up, lambda w, number, other: (None, 0))
    assert bench.call(add_up, number=1, other=2).outputs["rax"] == 3


def test_another_number_of_outputs_is_found(bench):
    use(add_up, lambda w, number, other: number + other)
    bench.fails(
        "add_up: the model returns 1 outputs, the contract has 2", add_up, number=1, other=2
    )


def test_outputs_of_a_callee_are_compared_when_it_returns(bench):
    """The caller's own result is right all the same, so only the return tells."""

    def callee(w, number, other):
        return number + other, 1

    def rule(w):
        MODELS[store_two](w)
        MODELS[add_up](w, 1, 2)
        w.g(PAIR).second = 3
        return 3

    use(add_up, callee)
    use(caller, rule)
    text = bench.fails("add_up: cf", caller)
    assert "caller+0x" in text


# -- registers, flags, stack -----------------------------------------------------------------------
def test_a_register_outside_the_contract_is_found(bench):
    bench.patch(store_two, "4883c101")  # ADD RCX, 1
    bench.fails(r"store_two: rcx changed from 0x\w+ to 0x\w+ at store_two\+", store_two)


def test_a_vector_register_outside_the_contract_is_found(bench):
    bench.patch(store_two, "660f76ff")  # PCMPEQD XMM7, XMM7
    bench.fails("store_two: xmm7 changed from", store_two)


def test_a_register_of_a_callee_is_found_even_if_the_caller_saves_it(bench):
    bench.patch(add_up, "4883c301")  # ADD RBX, 1
    bench.fails("add_up: rbx changed", caller)


def test_df_set_is_found(bench):
    bench.patch(store_two, "fd")
    bench.fails(r"store_two: returns with DF set at store_two\+", store_two)


def test_other_flag_bits_are_found(bench):
    # PUSHFQ; OR DWORD [RSP], 4000h (NT); POPFQ, in a routine that may use eight bytes of stack.
    bench.patch(caller, "9c810c24004000009dc3", at=0)
    bench.fails("caller: changed bits 0x4000 of RFLAGS", caller)


def test_rsp_off_is_found(bench):
    bench.patch(store_two, "c20800")  # RET 8
    bench.fails(r"store_two: RSP is \+8 bytes off at store_two\+", store_two)


def test_rsp_off_after_a_call_is_found_at_its_return(bench):
    bench.patch(add_up, "c20800")
    bench.fails("add_up: RSP is [+]8 bytes off at add_up", caller)


def test_a_store_into_the_frame_of_the_caller_is_found(bench):
    bench.patch(store_two, "48c744241000000000")  # MOV QWORD [RSP+10h], 0
    bench.fails(r"store_two: .* stores at RSP\+0x10 of the caller", store_two)


def test_the_return_address_is_not_the_routines_own(bench):
    bench.patch(store_two, "48c7042400000000")
    bench.fails(r"stores at RSP\+0x0 of the caller", store_two)


def test_more_stack_than_the_linker_counted_is_found(bench):
    bench.patch(store_two, "5058")  # PUSH RAX; POP RAX
    bench.fails("store_two: .* uses 8 bytes of stack; the linker counted 0", store_two)


def test_an_endless_loop_ends(bench):
    bench = Bench(limit=1000)
    bench.patch(store_two, "ebfe")
    bench.fails(r"store_two: store_two\+0x\w+ .* still runs after 1000 instructions", store_two)


# -- protection ------------------------------------------------------------------------------------
def test_code_is_not_writable(bench):
    at = IMAGE.address(store_two).to_bytes(4, "little").hex()
    bench.patch(store_two, f"c60425{at}00")
    with pytest.raises(MachineError, match=r"store_two\+0x\w+ .*write to read-only 0x6000"):
        bench.call(store_two)


def test_data_is_not_executable(bench):
    at = IMAGE.address(PAIR).to_bytes(4, "little").hex()
    bench.patch(store_two, f"b8{at}ffe0")  # MOV EAX, pair; JMP RAX
    with pytest.raises(MachineError, match="jump to non-executable 0x6000"):
        bench.call(store_two)


def test_wrong_inputs_of_a_test_are_refused(bench):
    with pytest.raises(TypeError, match=r"add_up takes \('number', 'other'\), got \('number',\)"):
        bench.call(add_up, number=1)


def test_narrow_inputs_come_with_junk_above(bench):
    """A routine that takes the whole register of a 32-bit input is found."""
    bench.patch(add_up, "9090", at=0)  # no MOV EAX, EAX: the junk stays
    bench.fails(r"add_up: rax \(their sum\) is 0x5eed0bad00000003", add_up, number=1, other=2)
