"""The tables of docs/layers.md say what the contracts say, and leave no call between layers out."""

import re
from pathlib import Path

import pytest

from firmware import LAYERS
from firmware.image import link_bios

DOC = Path(__file__).parents[2] / "firmware/docs/layers.md"
ROW = re.compile(r"\| `(\w+)` \| (.*?) ?\| (.*?) ?\| (.+) \|")
REGISTER = re.compile(
    r"\b(?:[RE](?:AX|BX|CX|DX|SI|DI|BP)|AX|[ABCD]L|R(?:8|9|1[0-5])[DWB]?|XMM\d+|CF|ZF)\b"
)
ROUTINES = {p.name: p.thing for p in link_bios()[0].routines() if p.thing.bits == 64}


def layer(routine):
    return routine.module.split(".")[1]


def rows():
    """Return the routines by the layer of their table, with the cells of each."""
    found, heading = {}, ""
    for line in DOC.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            heading = line[3:]
        elif line.startswith("| `"):
            cells = ROW.fullmatch(line.replace("\\|", "/"))
            assert cells, f"not a row of four cells: {line}"
            assert cells[1] not in found, f"{cells[1]} has two rows"
            found[cells[1]] = (heading, *cells.groups()[1:])
    return found


ROWS = rows()


def named(items):
    return {item.reg.name.upper() for item in items}


@pytest.mark.parametrize("name", ROWS)
def test_a_row_names_the_registers_of_its_contract(name):
    heading, given, told, promise = ROWS[name]
    contract = ROUTINES[name].contract
    assert heading == layer(ROUTINES[name])
    assert set(REGISTER.findall(given)) == named(contract.inputs)
    # An output's meaning may lean on another output; it is one of them then.
    assert set(REGISTER.findall(told)) == named(contract.outputs)
    assert promise.strip()


@pytest.mark.parametrize("name", ROWS)
def test_a_row_begins_each_part_with_its_register(name):
    """The order is that of the contract."""
    _, given, told, _ = ROWS[name]
    contract = ROUTINES[name].contract
    for cell, items in ((given, contract.inputs), (told, contract.outputs)):
        starts = [part.split(" ")[0] for part in cell.split("; ")]
        wanted = [item.reg.name.upper() for item in items]
        assert [start for start in starts if start in wanted] == wanted


def test_every_call_from_another_layer_has_a_row():
    called = {
        target.name
        for routine in ROUTINES.values()
        for target in (*routine.contract.calls, *routine.contract.indirect())
        if target.bits == 64 and layer(target) != layer(routine)
    }
    assert called - set(ROWS) == set()


def test_tables_follow_the_order_of_the_layers():
    order = [LAYERS.index(heading) for heading, *_ in ROWS.values()]
    assert order == sorted(order)


def test_preserved_registers_are_those_of_the_document():
    """The document: "System V preserved set (RBX, RBP, R12-R15) holds across every call"."""
    preserved = {"rbx", "rbp", "r12", "r13", "r14", "r15"}
    for name, (heading, *_) in ROWS.items():
        contract = ROUTINES[name].contract
        if not contract.noreturn and heading != "boot":
            assert preserved.isdisjoint(r.full for r in contract.clobbers), name
            assert preserved.isdisjoint(o.reg.full for o in contract.outputs), name
