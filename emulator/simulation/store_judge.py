"""A hook of a few native instructions that judges every store into a workspace.

Called back in Python, each store would cost about a microsecond, and a busy turn has hundreds; the
code here costs a few nanoseconds, so that every turn of every seed can be judged. Only a breach goes
on to Python.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import TYPE_CHECKING

import unicorn as uc
from iced_x86 import Code, Instruction, MemoryOperand, Register, Register_
from unicorn.unicorn_py3.unicorn import uclib

from emulator.trampoline import assemble
from firmware.limits import PAGE, WORKSPACE_BASE, WORKSPACE_STRIDE

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_SLOTS = 256
_SHIFT = WORKSPACE_STRIDE.bit_length() - 1
# What the hook's user data points to, as offsets in bytes; then one byte for each slot.
_RUNNING, _STORES, _BREACH, _BY_NODE = 0, 8, 16, 24
_BY_SHARD = _BY_NODE + MOST_SLOTS
_TABLE_BYTES = _BY_SHARD + MOST_SLOTS
_Breach = ctypes.CFUNCTYPE(
    None,
    ctypes.c_void_p,
    ctypes.c_int,
    ctypes.c_uint64,
    ctypes.c_int,
    ctypes.c_int64,
    ctypes.c_void_p,
)


def _table(offset: int, index: Register_ = Register.NONE) -> MemoryOperand:
    return MemoryOperand(Register.R9, index, displ=offset, displ_size=8)


def _slot_of(register: Register_) -> tuple[Instruction, Instruction]:
    """Turn an address inside a workspace into its slot."""
    return (
        Instruction.create_reg_i32(Code.SUB_RM64_IMM32, register, WORKSPACE_BASE),
        Instruction.create_reg_i32(Code.SHR_RM64_IMM8, register, _SHIFT),
    )


def _code() -> bytes:
    """Return the hook: System V, RDX = address, R9 = user data; a breach goes on in Python."""
    new = Instruction
    head = assemble(
        [
            new.create_mem(Code.INC_RM64, _table(_STORES)),
            new.create_reg_reg(Code.MOV_R64_RM64, Register.R10, Register.RDX),
            *_slot_of(Register.R10),
            # RAX = the context of the shard whose code runs, 0 for node code.
            new.create_reg_mem(Code.MOV_R64_RM64, Register.RAX, _table(_RUNNING)),
            new.create_reg_mem(Code.MOV_R64_RM64, Register.RAX, MemoryOperand(Register.RAX)),
            new.create_reg_reg(Code.TEST_RM64_R64, Register.RAX, Register.RAX),
        ]
    )
    by_node = assemble(
        [
            new.create_mem_i32(Code.MOV_RM8_IMM8, _table(_BY_NODE, Register.R10), 1),
            new.create(Code.RETNQ),
        ]
    )
    test = assemble(
        [
            *_slot_of(Register.RAX),
            new.create_reg_reg(Code.CMP_R64_RM64, Register.RAX, Register.R10),
        ]
    )
    by_shard = assemble(
        [
            new.create_mem_i32(Code.MOV_RM8_IMM8, _table(_BY_SHARD, Register.R10), 1),
            new.create(Code.RETNQ),
        ]
    )
    breach = assemble([new.create_mem(Code.JMP_RM64, _table(_BREACH))])
    # JNE over what node code does; JNE over what the shard's own code does.
    return (
        head + bytes((0x75, len(by_node))) + by_node + test
        + bytes((0x75, len(by_shard))) + by_shard + breach
    )  # fmt: skip


class StoreJudge:
    """Native hook on the stores into the workspaces of one engine.

    Args:
        engine: watched from here on.
        slots: number of workspaces.
        running: host address of the qword that names the shard whose code runs.
        breach: called with address and with the context of the shard that stored there.
    """

    def __init__(
        self, engine: uc.Uc, slots: int, running: int, breach: Callable[[int, int], None]
    ) -> None:
        self._engine = engine
        self._table = ctypes.create_string_buffer(_TABLE_BYTES)
        self._slots = slots
        read = ctypes.c_uint64.from_address(running)

        def note(
            _engine: int, _kind: int, address: int, _size: int, _value: int, _data: object
        ) -> None:
            breach(address, read.value)

        self._callback = _Breach(note)
        start = ctypes.addressof(self._table)
        pointer = ctypes.cast(self._callback, ctypes.c_void_p).value or 0
        ctypes.c_uint64.from_address(start + _RUNNING).value = running
        ctypes.c_uint64.from_address(start + _BREACH).value = pointer
        self._stores = ctypes.c_uint64.from_address(start + _STORES)
        self._page = executable(_code())
        handle = ctypes.c_size_t()
        # The binding takes Python callables only; this is the same call with a native one.
        status = uclib.uc_hook_add(
            engine._uch,
            ctypes.byref(handle),
            uc.UC_HOOK_MEM_WRITE,
            ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(self._page))),
            ctypes.c_void_p(start),
            ctypes.c_uint64(WORKSPACE_BASE),
            ctypes.c_uint64(WORKSPACE_BASE + slots * WORKSPACE_STRIDE - 1),
        )
        if status != uc.UC_ERR_OK:
            raise uc.UcError(status)
        self._handle = handle

    @property
    def stores(self) -> int:
        """Stores judged so far."""
        return int(self._stores.value)

    def take_by_node(self) -> set[int]:
        """Return the slots that node code stored into since the last call, and forget them."""
        return self._take(_BY_NODE)

    def take_by_shard(self) -> set[int]:
        """Return the slots whose own code stored since the last call, and forget them."""
        return self._take(_BY_SHARD)

    def stop(self) -> None:
        """Judge no longer."""
        uclib.uc_hook_del(self._engine._uch, self._handle)

    def _take(self, offset: int) -> set[int]:
        start = ctypes.addressof(self._table) + offset
        raw = ctypes.string_at(start, self._slots)
        if not any(raw):
            return set()
        ctypes.memset(start, 0, self._slots)
        return {slot for slot, seen in enumerate(raw) if seen}


def executable(code: bytes) -> mmap.mmap:
    """Return a page with the code; it is never writable and executable at once."""
    page = mmap.mmap(-1, PAGE)
    page[: len(code)] = code
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    if protect(address, PAGE, mmap.PROT_READ | mmap.PROT_EXEC):
        raise OSError(ctypes.get_errno(), "the page of the hook cannot be made executable")
    return page
