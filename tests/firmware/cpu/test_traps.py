"""Whose fault it is: a shard's own goes back to its guarded call, anything else is not charged."""

import pytest
import unicorn.x86_const as ux

from firmware.cpu.traps import fault_charge, fault_handle
from firmware.layouts.cpu import FAULTS, TrapFrame
from firmware.layouts.node import CORE
from firmware.limits import (
    SHARDS_MAX,
    STACK_BYTES,
    STACK_TOP,
    WORKSPACE_BASE,
    WORKSPACE_STATE,
    WORKSPACE_STRIDE,
)
from tests.support.lab import Lab

LAB = Lab(fault_handle)
SAVED_RSP = STACK_TOP - 0x200
CR2 = 0x7000_4008


def prepare(slot=1, slots=2, **changes):
    """Return a frame of a fault in the given slot's code, with fields changed."""
    LAB.reset()
    LAB.machine.engine.reg_write(ux.UC_X86_REG_CR2, CR2)
    core = LAB.g(CORE)
    for n in range(2):
        core.slots[n].context = LAB.shard(n)
    core.slots_used, core.current_shard = slots, LAB.shard(slot)
    faults = LAB.g(FAULTS)
    faults.pending, faults.count = 0, 7
    way = {"recovery": SAVED_RSP, "back": LAB.image.address("fault_charge") + 5} | changes
    LAB.machine.write(STACK_TOP - 8, way["recovery"].to_bytes(8, "little"))
    if STACK_TOP - STACK_BYTES <= way["recovery"] - 8 < STACK_TOP - 8:
        LAB.machine.write(way["recovery"] - 8, way["back"].to_bytes(8, "little"))
    frame = LAB.machine.alloc(TrapFrame.SIZE)
    trap = LAB.view(TrapFrame, frame)
    trap.vector, trap.error, trap.rip = 14, 2, 0x6000_1234
    trap.rsp, trap.rflags, trap.rbx = STACK_TOP - 0x400, 0x10246, 0
    for name, value in changes.items():
        if name not in way or name == "rsp":
            setattr(trap, name, value)
    for name in ("vector", "rsp"):
        if name in changes:
            setattr(trap, name, changes[name])
    return frame, trap


def test_fault_charge_sends_the_shard_back_to_its_guarded_call():
    frame, trap = prepare()
    shard = LAB.g(CORE).current_shard
    assert LAB.call(fault_charge, frame=frame).outputs["cf"] == 0
    assert (trap.rip, trap.rsp) == (LAB.image.address("fault_charge") + 5, SAVED_RSP)
    assert (trap.rbx, trap.rax, trap.rflags) == (shard, 2**64 - 1, 2)
    faults = LAB.g(FAULTS)
    assert (faults.pending, faults.count, faults.vector) == (1, 8, 14)
    assert (faults.rip, faults.address, faults.error) == (0x6000_1234, CR2, 2)
    assert faults.shard == shard


@pytest.mark.parametrize(("slot", "charged"), [(254, 1), (255, 1), (253, 0), (2, 0)])
def test_fault_charge_knows_the_rows_of_the_links(slot, charged):
    """They lie beyond those in use; another row out of use is nobody's."""
    frame, trap = prepare()
    core = LAB.g(CORE)
    link = WORKSPACE_BASE + slot * WORKSPACE_STRIDE + WORKSPACE_STATE
    core.slots[slot].context = core.current_shard = link
    assert LAB.call(fault_charge, frame=frame).outputs["cf"] == 1 - charged
    assert trap.rbx == (link if charged else 0)


def test_fault_charge_a_link_without_a_workspace_is_nobodys():
    frame, _ = prepare()
    LAB.g(CORE).current_shard = WORKSPACE_BASE + 255 * WORKSPACE_STRIDE + WORKSPACE_STATE
    assert LAB.call(fault_charge, frame=frame).outputs["cf"] == 1


def test_fault_handle_returns_when_the_shard_was_charged():
    frame, trap = prepare()
    LAB.call(fault_handle, frame=frame)
    assert trap.rsp == SAVED_RSP


@pytest.mark.parametrize("rsp", [STACK_TOP - STACK_BYTES, STACK_TOP - 1, SAVED_RSP])
def test_fault_charge_any_place_in_the_stack_will_do(rsp):
    frame, _ = prepare(rsp=rsp)
    assert LAB.call(fault_charge, frame=frame).outputs["cf"] == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"vector": 2},
        {"vector": 8},
        {"vector": 18},
        {"rsp": STACK_TOP},
        {"rsp": STACK_TOP - STACK_BYTES - 1},
        {"rsp": 0x7000_1000},
        {"recovery": 0},
        {"recovery": STACK_TOP + 8},
        {"recovery": STACK_TOP - STACK_BYTES},
        {"back": 0},
        {"back": 0x6000_0000 - 1},
        {"back": 0x7000_0000},
    ],
)
def test_fault_charge_refuses_what_is_not_a_shards_or_cannot_go_back(changes):
    frame, trap = prepare(**changes)
    assert LAB.call(fault_charge, frame=frame).outputs["cf"] == 1
    assert trap.rip == 0x6000_1234


def test_fault_charge_node_code_is_never_charged():
    frame, _ = prepare()
    LAB.g(CORE).current_shard = 0
    assert LAB.call(fault_charge, frame=frame).outputs["cf"] == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda core: setattr(core, "slots_used", SHARDS_MAX + 1),
        lambda core: setattr(core, "slots_used", 1),
        lambda core: setattr(core, "slots_used", 0),
        lambda core: setattr(core.slots[1], "context", 0),
        lambda core: setattr(core, "current_shard", core.current_shard + 64),
        lambda core: setattr(core, "current_shard", core.current_shard - WORKSPACE_STRIDE),
        lambda core: setattr(core, "current_shard", 0x1234),
        lambda core: setattr(core, "current_shard", core.current_shard | 1 << 32),
    ],
)
def test_fault_charge_damaged_node_structures_are_a_panic(damage):
    frame, _ = prepare()
    damage(LAB.g(CORE))
    # Slot 0 is the neighbour below: naming it while its row says otherwise must not be believed.
    LAB.g(CORE).slots[0].context = 0
    assert LAB.call(fault_charge, frame=frame).outputs["cf"] == 1


def test_fault_charge_back_at_the_end_of_the_text_is_refused():
    frame, _ = prepare(back=LAB.image.address("text_end"))
    assert LAB.call(fault_charge, frame=frame).outputs["cf"] == 1
