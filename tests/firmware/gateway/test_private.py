"""Which parts of a message a listener must not get while nobody knows what it is."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.gateway.heard import gateway_is_private
from firmware.layouts.json import JsonField, JsonKind
from tests.firmware.gateway.test_heard import LAB, SECRET, Heard, message
from tests.support.gateway_client import ready_data
from tests.support.stream import server_frame


@pytest.mark.parametrize(
    ("name", "private"),
    [(b"READY", 1), (b"READX", 0), (b"XEADY", 0), (b"READYX", 0), (b"READ", 0), (b"N" * 65, 0)],
)
def test_private_only_ready_is_by_its_name(name, private):
    c = Heard(listeners=0)
    parser = c.gateway.parser
    parser.kinds[JsonField.T] = JsonKind.STRING
    parser.values[4 * JsonField.T : 4 * JsonField.T + 4] = len(name).to_bytes(4, "little")
    parser.t[: min(len(name), 64)] = name[:64]
    assert LAB.call(gateway_is_private, shard=c.at).outputs["cf"] == private


@pytest.mark.parametrize("field_before", [0, 7])
@pytest.mark.parametrize("op", [0, 7, 2**32 - 1])
def test_private_is_what_is_no_dispatch_by_its_opcode(op, field_before):
    c = Heard(listeners=0)
    parser = c.gateway.parser
    parser.kinds[JsonField.OP], parser.kinds[JsonField.T] = JsonKind.INTEGER, JsonKind.STRING
    for field, number in ((0, field_before), (JsonField.OP, op), (JsonField.T, 1)):
        parser.values[4 * field : 4 * field + 4] = number.to_bytes(4, "little")
    assert LAB.call(gateway_is_private, shard=c.at).outputs["cf"] == (op != 0)


KINDS = st.sampled_from(JsonKind)


@settings(max_examples=60, deadline=None)
@given(
    kinds=st.tuples(KINDS, KINDS, KINDS),
    op=st.sampled_from([0, 1, 2**32 - 1]),
    name=st.sampled_from([b"READY", b"READX", b"XEADY", b"READYX", b"X"]),
    field=st.sampled_from(JsonField),
)
def test_private_any_parser_matches_the_model(kinds, op, name, field):
    c = Heard(listeners=0)
    parser = c.gateway.parser
    fields = (JsonField.OP, JsonField.T, JsonField.SESSION_ID)
    for which, kind in zip(fields, kinds, strict=True):
        parser.kinds[which] = kind
    parser.values[4 * JsonField.OP : 4 * JsonField.OP + 4] = op.to_bytes(4, "little")
    parser.values[4 * JsonField.T : 4 * JsonField.T + 4] = len(name).to_bytes(4, "little")
    parser.t[: len(name)] = name
    parser.field = field
    LAB.call(gateway_is_private, shard=c.at)


@pytest.mark.parametrize("letters", range(6))
def test_a_session_id_before_half_a_name_stays_here(letters):
    c = Heard(listeners=1)
    c.resuming(2)
    text = message("READY", 3, ready_data(), "d op s t")
    frame = server_frame(1, text)
    cut = frame.index(b'"READY"') + 1 + letters
    c.raw(frame[:cut])
    c.raw(frame[cut:])
    assert SECRET.encode() not in c.text()


@pytest.mark.parametrize("order", ["d op s t", "d t op s", "t s op d"])
def test_no_cut_of_ready_lets_its_session_id_through(order):
    text = server_frame(1, message("READY", 3, ready_data(session_id=SECRET), order))
    for cut in range(1, len(text), 1 if order == "d op s t" else 11):
        c = Heard(listeners=1)
        c.resuming(2)
        c.raw(text[:cut])
        c.raw(text[cut:])
        assert SECRET.encode() not in c.text(), f"cut at {cut}"
