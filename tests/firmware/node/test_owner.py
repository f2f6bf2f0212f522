"""Owners: only the very context of a row in use is a shard, whatever else is asked about."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.layouts.control import ControlRequest, ControlResult
from firmware.layouts.events import EVENTS
from firmware.layouts.gateway import GatewayFlag
from firmware.layouts.log import LOG
from firmware.layouts.log_line import Level
from firmware.layouts.node import CORE, SLOT_ACTIVE
from firmware.layouts.owner import OwnerServices, Task
from firmware.layouts.shard import End, ShardContext
from firmware.layouts.stop import STOP, StopPhase
from firmware.limits import PAGE, SHARDS_MAX, WORKSPACE_BASE, WORKSPACE_STRIDE
from firmware.node.owner import control_owner, owner_at, owner_of, owner_tasks
from tests.support.lab import Lab
from toolchain.layout.pack import pack, unpack

LAB = Lab(control_owner, owner_at, owner_of, owner_tasks, slots=3)
UNUSED = 2
"""A workspace that is mapped and has a row, which nobody uses."""


def at(slot):
    return LAB.shard(slot, wipe=False)


def prepare(used=2):
    LAB.reset()
    core = LAB.g(CORE)
    core.slots_used = used
    for n in range(3):
        core.slots[n].context = LAB.shard(n)
        core.slots[n].flags = 0 if n == UNUSED else SLOT_ACTIVE
        shard = LAB.view(ShardContext, at(n))
        shard.slot, shard.shard_id = n, 10 + n
    return core


def resolve(candidate):
    got = LAB.call(owner_of, candidate=candidate % 2**64).outputs
    assert got["cf"] == (got["rdx"] == 0)
    return got["rdx"]


@pytest.mark.parametrize("slot", [0, 1])
def test_an_index_and_the_context_itself_resolve(slot):
    prepare()
    assert resolve(slot) == resolve(at(slot)) == at(slot)


FOREIGN = {
    "null stride": WORKSPACE_BASE,
    "inside a workspace": WORKSPACE_BASE + 0x1000 + PAGE,
    "the session of a shard": WORKSPACE_BASE + 0x1000 + ShardContext.session.offset,
    "another slot's stride, the first's colour": WORKSPACE_BASE
    + 0x1000
    + WORKSPACE_STRIDE
    + 2 * 64,
    "unaligned": WORKSPACE_BASE + 0x1000 + 1,
    "one before": WORKSPACE_BASE + 0x1000 - 1,
    "below all workspaces": WORKSPACE_BASE - 1,
    "the last below": WORKSPACE_BASE - WORKSPACE_STRIDE + 0x1000,
    "behind the table": WORKSPACE_BASE + SHARDS_MAX * WORKSPACE_STRIDE + 0x1000,
    "far behind the table": WORKSPACE_BASE + (SHARDS_MAX << 32) * WORKSPACE_STRIDE + 0x1000,
    "the same in the next 4 GB": WORKSPACE_BASE + 0x1000 + 2**32,
    "a row not in use": UNUSED,
    "beyond the rows": 3,
    "the last index": SHARDS_MAX - 1,
    "no index any more": SHARDS_MAX,
    "all ones of 32 bits": 2**32 - 1,
    "all ones": 2**64 - 1,
    "the highest bit": 2**63,
}


@pytest.mark.parametrize("what", sorted(FOREIGN))
def test_anything_else_is_foreign(what):
    prepare()
    assert resolve(FOREIGN[what]) == 0


def test_zero_is_the_first_index_and_no_pointer():
    prepare(used=0)
    assert resolve(0) == 0
    prepare()
    assert resolve(0) == at(0)


def test_a_mapped_workspace_without_a_row_is_foreign():
    prepare(used=3)
    assert resolve(at(UNUSED)) == 0
    core = prepare(used=3)
    core.slots[UNUSED].flags = SLOT_ACTIVE
    assert resolve(at(UNUSED)) == at(UNUSED)
    core.slots[UNUSED].context = 0
    assert resolve(at(UNUSED)) == 0
    assert resolve(UNUSED) == 0


def test_a_row_that_names_another_workspace_makes_neither_a_shard():
    core = prepare()
    core.slots[1].context = at(0)
    assert resolve(at(1)) == 0


@settings(max_examples=150, deadline=None)
@given(
    st.one_of(
        st.integers(0, 2**64 - 1),
        st.integers(0, 2 * SHARDS_MAX),
        st.integers(WORKSPACE_BASE - 0x4_0000, WORKSPACE_BASE + 4 * WORKSPACE_STRIDE),
        st.builds(lambda n, d: at(n) + d, st.integers(0, 2), st.integers(-65, 65)),
    )
)
def test_any_candidate_matches_the_model(candidate):
    prepare()
    found = resolve(candidate)
    assert found in (0, at(0), at(1))
    assert not found or candidate in (0, 1, found)


@pytest.mark.parametrize("index", [0, 1, 2, 3, 255, 256, 2**32 - 1, WORKSPACE_BASE + 0x1000])
def test_an_index_is_never_a_pointer(index):
    prepare()
    got = LAB.call(owner_at, index=index).outputs
    assert got["rdx"] == (at(index) if index < 2 else 0)


def ask(argument, room=OwnerServices.SIZE):
    answer = LAB.machine.alloc(OwnerServices.SIZE)
    got = LAB.call(
        control_owner,
        request=LAB.put(pack(ControlRequest, {"argument": argument})),
        length=0,
        answer=answer,
        room=room,
    ).outputs
    return ControlResult(got["eax"]), got["rdx"], LAB.machine.read(answer, got["ecx"])


def test_a_shard_of_this_node_has_its_services():
    prepare()
    shard = LAB.view(ShardContext, at(1))
    shard.user_id, shard.failure, shard.last_error = 2**63 + 5, End.PROTOCOL, 0x0A01_0000
    shard.close_deadline, shard.events.open = 9, 2
    shard.tcp.tx_start, shard.tcp.tx_end = 5, 6
    log = LAB.g(LOG)
    log.head, log.tail, log.dropped, log.level = 700, 660, 3, Level.WARN
    LAB.g(EVENTS).listeners = 2
    LAB.g(STOP).phase = StopPhase.DRAINING
    result, value, payload = ask(at(1))
    assert (result, value) == (ControlResult.DONE, at(1))
    assert unpack(OwnerServices, payload) == {
        "context": at(1),
        "user_id": 2**63 + 5,
        "log_waiting": 40,
        "log_dropped": 3,
        "shard_id": 11,
        "slot": 1,
        "failure": End.PROTOCOL,
        "last_error": 0x0A01_0000,
        "listeners": 2,
        "event_open": 2,
        "tasks": Task.FAREWELL | Task.SENDING | Task.EVENT,
        "drain": StopPhase.DRAINING,
        "log_level": Level.WARN,
    }


@pytest.mark.parametrize("argument", [UNUSED, 2**64 - 1, WORKSPACE_BASE + 0x1040])
def test_a_foreign_one_has_nothing(argument):
    prepare()
    assert ask(argument) == (ControlResult.DONE, 0, b"")


def test_services_need_their_room():
    prepare()
    assert ask(1, OwnerServices.SIZE - 1) == (ControlResult.ARGUMENT, 0, b"")


@pytest.mark.parametrize("flag", [0, GatewayFlag.ACK_PENDING, GatewayFlag.BEAT_OWED])
def test_a_beat_runs_until_its_ack(flag):
    prepare()
    LAB.view(ShardContext, at(0)).gateway.flags = flag
    LAB.view(ShardContext, at(0)).tcp.tx_start = 0
    LAB.view(ShardContext, at(0)).tcp.tx_end = 0
    tasks = LAB.call(owner_tasks, shard=at(0)).outputs["eax"]
    assert tasks == (Task.BEAT if flag else 0)
