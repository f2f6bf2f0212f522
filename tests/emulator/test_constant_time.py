"""The judge of secrets tells what leaks, and does not take an empty trace for a proof."""

import re

import pytest

from emulator.constant_time import FIGURES, same_traces
from emulator.mismatch import Mismatch
from firmware.layouts.crypto import BUFFER_IN
from tests.support.lab import Lab
from toolchain.asm import (
    AL,
    ECX,
    NZ,
    RAX,
    RCX,
    RSI,
    Asm,
    In,
    Out,
    Reg64,
    mem8,
    mem64,
    routine,
)

KEY = [In(RSI, int, "a key")]


@routine(inputs=KEY, outputs=[Out(RAX, "a word")], reads=[BUFFER_IN], source="none")
def branches(a: Asm, key: Reg64) -> None:
    """Do more when the lowest bit of a key is set."""
    a.mov(RAX, mem64(key, ref=BUFFER_IN))
    a.test(AL, 1)
    with a.if_(NZ):
        a.add(RAX, 2)
    a.ret()


@routine(inputs=KEY, outputs=[Out(RAX, "a byte")], reads=[BUFFER_IN], source="none")
def looks_up(a: Asm, key: Reg64) -> None:
    """Load from a place that the key names."""
    a.movzx(RAX, mem8(key, ref=BUFFER_IN))
    a.movzx(RAX, mem8(key, index=RAX, ref=BUFFER_IN))
    a.ret()


@routine(
    inputs=KEY,
    outputs=[Out(RAX, "a sum")],
    clobbers=[RCX],
    reads=[BUFFER_IN],
    secret=[RAX, BUFFER_IN],
    source="none",
)
def adds(a: Asm, key: Reg64) -> None:
    """Add the bytes of a key up."""
    a.xor(ECX, ECX)
    a.mov(RAX, mem64(key, ref=BUFFER_IN))
    with a.loop() as top:
        a.add(RAX, mem64(key, index=RCX, scale=8, ref=BUFFER_IN))
        a.inc(ECX)
        a.cmp(ECX, 4)
        a.again(NZ, top)
    a.ret()


LAB = Lab(branches, looks_up, adds, semantics=False)
SECRETS = [bytes([n]) * 32 for n in (0, 1, 2, 0x55, 0xFF)]


def prepare(secret, offset):
    LAB.machine.write(LAB.machine.alloc(512), bytes(512))
    at = LAB.machine.alloc(64) + offset
    LAB.machine.write(at, secret)
    return {"key": at}


def judge(routine, secrets=SECRETS, minimum=3, prepare=prepare):
    same_traces(LAB.machine, routine, prepare, secrets=secrets, publics=[0, 1, 8], minimum=minimum)


def test_the_same_steps_for_each_secret_pass_and_are_counted():
    FIGURES.judged.pop("adds", None)
    judge(adds, minimum=18)
    assert FIGURES.judged["adds"] == 15


@pytest.mark.parametrize(
    ("leak", "message"),
    [
        (branches, r"branches: the secret shows after branches\+0x\w+ .*: with one it runs 0x"),
        (looks_up, r"looks_up: .* with one it reads 0x\w+ \(1 bytes\), with another it reads 0x"),
    ],
)
def test_a_leak_is_told_with_its_place(leak, message):
    with pytest.raises(Mismatch, match=message):
        judge(leak)


def test_a_trace_is_whole_after_a_run_without_hooks():
    at = prepare(SECRETS[0], 0)["key"]
    LAB.machine.call("adds", {"rsi": at})
    judge(adds, minimum=18)


def test_a_short_trace_proves_nothing():
    with pytest.raises(Mismatch, match="a trace of 19 instructions proves nothing, 20 are"):
        judge(adds, minimum=20)


def test_a_secret_that_changes_nothing_proves_nothing():
    with pytest.raises(Mismatch, match="two secrets move the same values: they never reach it"):
        judge(adds, prepare=lambda _secret, offset: prepare(b"", offset))


def test_few_secrets_are_refused():
    with pytest.raises(ValueError, match=re.escape("4 secrets tell little; give 5 or more")):
        judge(adds, SECRETS[:4])
