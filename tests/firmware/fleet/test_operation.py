"""Operations: when each left is remembered, and nobody's moment is another's."""

import pytest

from emulator.environment import Environment
from firmware.fleet.operation import jitter, op_send
from firmware.layouts.fleet import FLEET, OPS_MAX
from tests.support.bus import BusBench
from tests.support.fleet import set_fields
from tests.support.segments import CYCLES_PER_MS as MS
from tests.support.segments import NOW

BENCH = BusBench(jitter, op_send)
LAB = BENCH.lab


@pytest.fixture(autouse=True)
def node():
    BENCH.reset()
    BENCH.up()


def call(routine, tsc=NOW + 7, **inputs):
    return LAB.call(routine, Environment(tsc=lambda: tsc), **inputs).outputs


def test_op_send_remembers_when_each_operation_left():
    slot = LAB.g(FLEET).held[0]
    set_fields(slot, generation=1, duration_ms=20_000, ops_next=OPS_MAX - 1)
    for n in range(3):
        assert call(op_send, tsc=NOW + n, held=slot.address_, expected=9 + n)["cf"] == 0
    places = (OPS_MAX - 1, 0, 1)
    assert [(slot.ops[p].op, slot.ops[p].sent_at) for p in places] == [
        (n + 1, NOW + n) for n in range(3)
    ]
    assert (slot.last_op, slot.sent_at) == (3, NOW + 2)
    assert NOW + 600 * MS <= slot.retry_at - 2 < NOW + 1_000 * MS


def test_jitter_is_below_its_bound():
    drawn = [call(jitter, milliseconds=300)["rax"] for _ in range(20)]
    assert max(drawn) < 300 * MS
    assert len(set(drawn)) > 15
