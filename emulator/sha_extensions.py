"""The SHA-256 instructions of the SHA extensions, which Unicorn 2.1.4 does not know.

Unicorn asks about an instruction that it cannot decode; these are carried out here by the words of
Intel SDM volume 2, so that routines with them run in lockstep like all others. The processor judges
whether they are right. Operands are registers: none of ours loads one from memory.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

import iced_x86 as ix
import unicorn as uc
import unicorn.x86_const as ux

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LONGEST = 5
"""Bytes of one of these with registers."""
_MASK = 0xFFFF_FFFF
MISSING = "this processor has no SHA extensions; run on one that has"


def _rotr(x: int, *amounts: int) -> int:
    result = 0
    for n in amounts:
        result ^= (x >> n | x << (32 - n)) & _MASK
    return result


def _sigma0(x: int) -> int:
    return _rotr(x, 7, 18) ^ x >> 3


def _sigma1(x: int) -> int:
    return _rotr(x, 17, 19) ^ x >> 10


def words(value: int) -> list[int]:
    """Return the four words of a register, the lowest first."""
    return [value >> 32 * n & _MASK for n in range(4)]


def joined(four: Sequence[int]) -> int:
    """Return the register of four words."""
    return sum((word & _MASK) << 32 * n for n, word in enumerate(four))


def sha256rnds2(first: int, second: int, implicit: int) -> int:
    """Two rounds: a, b, e, f after them."""
    h, g, d, c = words(first)
    f, e, b, a = words(second)
    for wk in words(implicit)[:2]:
        t1 = (e & f ^ ~e & g) + _rotr(e, 6, 11, 25) + wk + h
        t2 = (a & b ^ a & c ^ b & c) + _rotr(a, 2, 13, 22)
        a, b, c, d, e, f, g, h = t1 + t2 & _MASK, a, b, c, d + t1 & _MASK, e, f, g
    return joined((f, e, b, a))


def sha256msg1(first: int, second: int, _implicit: int) -> int:
    """Words 0 to 3, each with the small sigma 0 of the next one."""
    w = [*words(first), words(second)[0]]
    return joined([w[n] + _sigma0(w[n + 1]) for n in range(4)])


def sha256msg2(first: int, second: int, _implicit: int) -> int:
    """Words 16 to 19, each with the small sigma 1 of the one two before."""
    w = words(second)[2:]
    for n, word in enumerate(words(first)):
        w.append(word + _sigma1(w[n]) & _MASK)
    return joined(w[2:])


INSTRUCTIONS: dict[int, Callable[[int, int, int], int]] = {
    ix.Code.SHA256RNDS2_XMM_XMMM128: sha256rnds2,
    ix.Code.SHA256MSG1_XMM_XMMM128: sha256msg1,
    ix.Code.SHA256MSG2_XMM_XMMM128: sha256msg2,
}


def _register(register: ix.Register_) -> int:
    return int(ux.UC_X86_REG_XMM0) + register - ix.Register.XMM0


def _carry_out(engine: uc.Uc, _data: object) -> bool:
    """Carry out the instruction at RIP if it is one of these; tell whether it was."""
    rip = engine.reg_read(ux.UC_X86_REG_RIP)
    try:
        code = bytes(engine.mem_read(rip, _LONGEST))
    except uc.UcError:
        return False  # at the end of all code: one of these has a return behind it
    ins = ix.Decoder(64, code, ip=rip).decode()
    function = INSTRUCTIONS.get(ins.code)
    if function is None or ins.op1_kind != ix.OpKind.REGISTER:
        return False
    target, source = _register(ins.op0_register), _register(ins.op1_register)
    values = (engine.reg_read(r) for r in (target, source, ux.UC_X86_REG_XMM0))
    engine.reg_write(target, function(*values))
    engine.reg_write(ux.UC_X86_REG_RIP, ins.next_ip)
    return True


def add_sha_extensions(engine: uc.Uc) -> None:
    """Let an engine run these instructions."""
    engine.hook_add(uc.UC_HOOK_INSN_INVALID, _carry_out)


@functools.cache
def processor_has_them() -> bool:
    """Tell whether the processor that we run on has the SHA extensions."""
    known = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("flags")[2].splitlines()[0]
    return "sha_ni" in known.split()
