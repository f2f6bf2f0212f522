"""The client machine, state by state and message by message, against RFC 8446 A.1 written again."""

import re
from pathlib import Path

import pytest

from firmware.layouts.tls import MOVES, Action, HandshakeType, TlsState
from firmware.tls.moves import tls_find_move
from tests.support.lab import Lab

LAB = Lab(tls_find_move)
DOC = Path(__file__).parents[3] / "firmware/docs/tls.md"
# RFC 8446 A.1 by number: state, message, action, next. Resumption and client keys are left out.
LEGAL = {
    (3, 2): ("SERVER_HELLO", 5),
    (3, 6): ("RETRY", 4),
    (4, 2): ("SERVER_HELLO", 5),
    (5, 8): ("EXTENSIONS", 6),
    (6, 13): ("REQUEST", 7),
    (6, 11): ("CERTIFICATE", 8),
    (7, 11): ("CERTIFICATE", 8),
    (8, 15): ("VERIFY", 9),
    (9, 20): ("FINISHED", 10),
    (10, 4): ("TICKET", 10),
    (10, 24): ("KEY_UPDATE", 10),
}


@pytest.mark.parametrize("state", [*TlsState, len(TlsState), 255])
def test_every_message_in_every_state(state):
    for kind in range(256):
        got = LAB.call(tls_find_move, state=state, kind=kind).outputs
        action, following = LEGAL.get((state, kind), ("REFUSE", 0))
        assert (Action(got["eax"]).name, got["ecx"]) == (action, following), (state, kind)


def test_a_message_that_may_come_is_refused_with_its_first_bit_flipped():
    for state, kind in LEGAL:
        assert LAB.call(tls_find_move, state=state, kind=kind ^ 0x80).outputs["eax"] == 0


def test_the_way_to_connected_passes_every_state_that_waits():
    reached, way = {TlsState.WAIT_SERVER_HELLO}, {TlsState.WAIT_SERVER_HELLO}
    while way:
        way = {move.next for (state, _), move in MOVES.items() if state in way} - reached
        reached |= way
    waiting = {state for state in TlsState if state.name.startswith("WAIT_")}
    assert reached == waiting | {TlsState.CONNECTED}


def test_the_page_lists_the_table():
    rows = re.findall(r"^\| (\w+) \| (\w+) \| (\w+) \| (\w+) \|$", DOC.read_text(), re.MULTILINE)
    listed = {tuple(row) for row in rows if row[0] in TlsState.__members__}
    assert listed == {
        (state.name, HandshakeType(kind).name, move.action.name, move.next.name)
        for (state, kind), move in MOVES.items()
    }
