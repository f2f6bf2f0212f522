"""The processor as a judge: it agrees with Unicorn, finds what differs, and names what it leaves."""

import dataclasses

import pytest

from emulator import native_judge
from emulator.environment import Environment
from emulator.lockstep import Lockstep, Mismatch
from emulator.native import Access, Call, NativeProgram, Region
from emulator.native_judge import Figures
from firmware.layouts.node import CLOCK
from firmware.layouts.shard import ShardContext
from firmware.net.checksum import checksum
from firmware.shard.backoff import schedule_backoff
from firmware.shard.resume import shard_is_resumable
from tests.support.lab import Lab

RING = 0x7000_8000


@pytest.fixture
def figures(monkeypatch):
    fresh = Figures()
    monkeypatch.setattr(native_judge, "FIGURES", fresh)
    return fresh


@pytest.fixture
def lab(figures):
    lab = Lab(checksum, schedule_backoff, shard_is_resumable, semantics=False)
    lab.lockstep = Lockstep(lab.machine, native=True)
    return lab


def test_each_routine_is_judged_at_its_first_call_and_then_in_samples(lab, figures):
    data = lab.machine.alloc(64)
    for _ in range(2 * native_judge.EVERY):
        lab.call(checksum, total=0, data=data, length=9)
    assert figures.judged == {"checksum": 3}
    assert figures.left == {}


def test_a_routine_that_asks_the_test_is_listed_until_a_call_does_not(lab, figures):
    shard = lab.shard()
    lab.g(CLOCK).tsc_cycles_per_ms = 1
    lab.call(schedule_backoff, Environment(tsc=[1]), shard=shard)
    assert list(figures.left) == ["schedule_backoff"]
    assert figures.left["schedule_backoff"].startswith("rdtsc at schedule_backoff+0x")
    lab.g(CLOCK).tsc_cycles_per_ms = 0
    lab.call(schedule_backoff, shard=shard)
    assert figures.left == {}
    assert figures.judged == {"schedule_backoff": 1}
    assert lab.view(ShardContext, shard).reconnects == 2


def test_the_ring_is_mapped_twice(lab, figures):
    """Bytes read across the seam come from the ring's start, on the processor as in Unicorn."""
    lab.machine.write(RING, bytes(range(8)))
    lab.machine.write(RING + 0x5000 - 4, b"\x11\x22\x33\x44")
    result = lab.call(checksum, total=0, data=RING + 0x5000 - 4, length=8)
    words = b"\x11\x22\x33\x44" + bytes(range(4))
    total = sum(int.from_bytes(words[n : n + 2], "little") for n in range(0, 8, 2))
    total = (total & 0xFFFF) + (total >> 16)
    assert result.outputs["ax"] == ~total & 0xFFFF
    assert figures.judged == {"checksum": 1}


def test_other_bytes_on_the_processor_are_found(lab, monkeypatch):
    """The control: NOT EAX becomes NEG EAX in what the processor runs."""
    good = native_judge.NativeJudge._regions

    def planted(self, before):
        return [
            dataclasses.replace(r, data=r.data.replace(b"\xf7\xd0", b"\xf7\xd8"))
            if r.access is Access.CODE
            else r
            for r in good(self, before)
        ]

    monkeypatch.setattr(native_judge.NativeJudge, "_regions", planted)
    with pytest.raises(Mismatch, match=r"checksum: rax is 0x\w+ in Unicorn and 0x\w+ on the proc"):
        lab.call(checksum, total=0, data=lab.machine.alloc(64), length=9)


def test_a_fault_on_the_processor_is_found(lab, monkeypatch):
    good = native_judge.NativeJudge._regions
    monkeypatch.setattr(
        native_judge.NativeJudge,
        "_regions",
        lambda self, before: [r for r in good(self, before) if r.address != 0x6800_0000],
    )
    with pytest.raises(Mismatch, match=r"checksum: on the processor: .* ended with SIGSEGV"):
        lab.call(checksum, total=0, data=lab.machine.alloc(64), length=9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: {"xmm": (*r.xmm[:5], r.xmm[5] ^ 1, *r.xmm[6:])}, "xmm5 is 0x"),
        (lambda r: {"registers": (*r.registers[:4], 0, *r.registers[5:])}, "rsp is 0x"),
        (lambda r: {"flags": r.flags ^ 1}, "RFLAGS is 0x"),
        (lambda r: {"flags": r.flags ^ 0x400}, "RFLAGS is 0x"),
        (
            lambda r: {"memory": r.memory | {0x7000_1000: bytes(0x3000)}},
            r"state0\+0x\w+ is 0x\w+ in Unicorn",
        ),
    ],
)
def test_any_difference_is_found(lab, monkeypatch, change, message):
    good = NativeProgram.run

    def planted(self, calls):
        (result,) = good(self, calls)
        return [dataclasses.replace(result, **change(result))]

    monkeypatch.setattr(NativeProgram, "run", planted)
    with pytest.raises(Mismatch, match=f"shard_is_resumable: {message}"):
        lab.call(shard_is_resumable, shard=lab.shard())


def test_the_state_before_the_call_is_given_not_the_state_after(lab, figures):
    shard = lab.shard()
    lab.g(CLOCK).tsc_cycles_per_ms = 0
    lab.view(ShardContext, shard).reconnects = 7
    lab.call(schedule_backoff, shard=shard)
    assert lab.view(ShardContext, shard).reconnects == 8
    assert figures.judged == {"schedule_backoff": 1}


def test_aliases_of_a_region_are_the_same_bytes():
    # [rsi] = AX through the alias, CX = [rdi] at the first address.
    code = bytes.fromhex("668906" + "668b0f" + "c3")
    code_at, stack, first, alias = 0x6000_0000, 0x7000_0000, 0x7000_4000, 0x7000_8000
    registers = [0] * 16
    registers[0], registers[4] = 0xBEEF, stack + 0x800
    registers[6], registers[7] = alias + 0x10, first + 0x10
    regions = [
        Region(code_at, code, Access.CODE),
        Region(stack, bytes(0x1000)),
        Region(first, bytes(0x1000), aliases=(alias,)),
    ]
    (result,) = NativeProgram(regions).run([Call(code_at, registers)])
    assert result.registers[1] & 0xFFFF == 0xBEEF
    assert result.memory[first][0x10:0x12] == b"\xef\xbe"
