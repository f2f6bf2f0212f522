"""Runs linked bytes on the real processor, in a forked child that may crash.

Each region is mapped at its link address, the registers are loaded by a small trampoline, and the
routine returns into the trampoline, which stores them again. No page is ever writable and
executable at once. A crash or an endless loop costs one child and becomes a `NativeFault`.
"""

import ctypes
import enum
import mmap
import os
import pickle
import signal
import struct
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from emulator.refused import refused_instructions
from emulator.trampoline import (
    EXIT,
    EXIT_2,
    EXIT_MARK,
    FRAME_BASE,
    FRAME_SIZE,
    GUEST_GS,
    PAGE,
    TRAMPOLINE_BASE,
    USE_BASES,
    XMM,
    jump_to,
    trampoline,
)

__all__ = [
    "EXIT",
    "EXIT_2",
    "TRAMPOLINE_BASE",
    "Access",
    "Call",
    "Entry",
    "NativeFault",
    "NativeProgram",
    "NativeRefusedError",
    "NativeSetupError",
    "Region",
    "Result",
    "jump_to",
]

_RSP = 4
_MASK64 = 2**64 - 1
_MAP_SHARED, _MAP_PRIVATE, _MAP_ANONYMOUS, _MAP_FIXED_NOREPLACE = 0x01, 0x02, 0x20, 0x100000
_READ, _WRITE, _EXECUTE = mmap.PROT_READ, mmap.PROT_WRITE, mmap.PROT_EXEC
_MAP_FAILED = _MASK64
_FLAGS_NEVER_LOADED = 0x100 | 0x4000 | 0x4_0000  # TF, NT, AC


class NativeFault(RuntimeError):  # noqa: N818 - it is a processor fault seen from outside
    """The child was ended by a signal.

    Attributes:
        signal_name: For example "SIGSEGV"; "SIGVTALRM" means that the time limit passed.
        call: Index of the call that was running.
    """

    def __init__(self, signal_name: str, call: int, message: str) -> None:
        super().__init__(message)
        self.signal_name = signal_name
        self.call = call


class NativeRefusedError(ValueError):
    """The code contains an instruction that cannot be judged in a user process."""


class NativeSetupError(RuntimeError):
    """A region could not be mapped, or the child failed before it ran anything."""


class Access(enum.Enum):
    """What a region's pages allow."""

    CODE = "read, execute"
    DATA = "read, write"
    CONSTANT = "read"


@dataclass(frozen=True, slots=True)
class Region:
    """Memory at a fixed address.

    Attributes:
        address: Where it lies, a multiple of 4096.
        data: Contents; the rest of the last page is zero.
        access: Page permissions.
        routines: For CODE, the (address, size) ranges that will run and are searched for refused
            instructions; None = all of it.
        aliases: Further addresses at which the same bytes appear, multiples of 4096.
    """

    address: int
    data: bytes
    access: Access = Access.DATA
    routines: tuple[tuple[int, int], ...] | None = None
    aliases: tuple[int, ...] = ()


class Entry(enum.Enum):
    """How the trampoline enters the code."""

    CALL = "push a return address"
    JUMP = "load every register, RSP included, and jump; the code leaves through EXIT or EXIT_2"


@dataclass(frozen=True, slots=True)
class Call:
    """One run of one routine.

    Attributes:
        address: Where to enter.
        registers: The 16 general registers in encoding order; a longer sequence gives EFLAGS at
            index 17. RSP must point into a DATA region.
        xmm: XMM0..XMM15 as 128-bit integers; missing ones are zero.
        memory: (address, bytes) stored before the call.
        reads: (address, size) returned after the call; None = every DATA region.
        entry: Call or jump.
        fs_base: Base address of FS. With both bases 0 the trampoline leaves the host's in place.
        gs_base: Base address of GS.
    """

    address: int
    registers: Sequence[int]
    xmm: Sequence[int] = ()
    memory: tuple[tuple[int, bytes], ...] = ()
    reads: tuple[tuple[int, int], ...] | None = None
    entry: Entry = Entry.CALL
    fs_base: int = 0
    gs_base: int = 0


@dataclass(frozen=True, slots=True)
class Result:
    """State after a call.

    Attributes:
        registers: The 16 general registers.
        flags: EFLAGS.
        xmm: XMM0..XMM15.
        memory: Bytes by start address of each range read.
        second_exit: Whether the code left through EXIT_2.
        seconds: Processor time of the call, the trampoline's included.
    """

    registers: tuple[int, ...]
    flags: int
    xmm: tuple[int, ...]
    memory: dict[int, bytes] = field(default_factory=dict)
    second_exit: bool = False
    seconds: float = 0.0


class NativeProgram:
    """Regions of linked code and data, ready to run.

    Raises:
        NativeRefusedError: If a routine contains an instruction that cannot be judged natively.
        NativeSetupError: If a region is not page-aligned or overlaps the trampoline.
    """

    def __init__(self, regions: Sequence[Region], seconds: float = 5.0) -> None:
        """Check the regions.

        Args:
            regions: What to map.
            seconds: Processor time that one `run` may take.
        """
        self.regions = tuple(regions)
        self.seconds = seconds
        for region in regions:
            _check_region(region)

    def run(self, calls: Sequence[Call]) -> list[Result]:
        """Run the calls one after another in one forked child; memory carries over.

        Raises:
            NativeFault: If a call crashes or does not end within the time limit.
            NativeSetupError: If the child cannot map a region or a call names unmapped memory.
        """
        progress = mmap.mmap(-1, PAGE)
        reader, writer = os.pipe()
        with warnings.catch_warnings():
            # The child maps, runs and leaves; it never touches a lock of another thread.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            os.close(reader)
            self._child(calls, writer, progress)
        os.close(writer)
        with os.fdopen(reader, "rb") as stream:
            answer = stream.read()
        _, status = os.waitpid(child, 0)
        done = int.from_bytes(progress[:8], "little")
        progress.close()
        if os.WIFSIGNALED(status):
            raise self._fault(calls, done, signal.Signals(os.WTERMSIG(status)).name)
        if not answer:
            raise NativeSetupError(f"the child ended with status {status} and said nothing")
        results = pickle.loads(answer)  # noqa: S301 - written by our own child
        if isinstance(results, str):
            raise NativeSetupError(results)
        return [Result(*fields) for fields in results]

    def _fault(self, calls: Sequence[Call], index: int, name: str) -> NativeFault:
        address = calls[index].address if index < len(calls) else 0
        why = (
            f"ran longer than {self.seconds} s of processor time"
            if name == "SIGVTALRM"
            else f"ended with {name}"
        )
        return NativeFault(name, index, f"native call {index} at {address:#x} {why}")

    def _child(self, calls: Sequence[Call], writer: int, progress: mmap.mmap) -> None:
        """Map, run, answer through the pipe, and leave without any of the parent's clean-up."""
        # pytest and faulthandler would otherwise report the crash that we want to see ourselves.
        for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
        try:
            answer: object = self._run_all(calls, progress)
        except (NativeSetupError, OverflowError, struct.error) as error:
            answer = str(error)
        with os.fdopen(writer, "wb") as stream:
            stream.write(pickle.dumps(answer))
        os._exit(0)

    def _run_all(
        self, calls: Sequence[Call], progress: mmap.mmap
    ) -> list[tuple[tuple[int, ...], int, tuple[int, ...], dict[int, bytes], bool, float]]:
        for region in self.regions:
            if region.aliases:
                _map_shared(region)
            else:
                _map(region.address, region.data, _PROTECTION[region.access])
        code, _, _ = trampoline()
        _map(TRAMPOLINE_BASE, code, _READ | _EXECUTE)
        _map(FRAME_BASE, bytes(FRAME_SIZE), _READ | _WRITE)
        frame = (ctypes.c_char * FRAME_SIZE).from_address(FRAME_BASE)
        enter = ctypes.CFUNCTYPE(None)(TRAMPOLINE_BASE)
        everything = tuple(
            (region.address, len(region.data))
            for region in self.regions
            if region.access is Access.DATA
        )
        signal.setitimer(signal.ITIMER_VIRTUAL, self.seconds)
        results = []
        for index, call in enumerate(calls):
            progress[:8] = index.to_bytes(8, "little")
            self._prepare(call, frame)
            begun = time.process_time_ns()
            enter()
            seconds = (time.process_time_ns() - begun) / 1e9
            words = struct.unpack_from("<17Q", frame.raw)
            halves = struct.unpack_from("<32Q", frame.raw, XMM)
            xmm = tuple(halves[2 * n] | halves[2 * n + 1] << 64 for n in range(16))
            reads = everything if call.reads is None else call.reads
            memory = {address: self._peek(address, size) for address, size in reads}
            second = frame.raw[EXIT_MARK] == 1
            results.append((words[:16], words[16], xmm, memory, second, seconds))
        return results

    def _prepare(self, call: Call, frame: "ctypes.Array[ctypes.c_char]") -> None:
        for address, data in call.memory:
            self._poke(address, data)
        registers = list(call.registers[:16])
        if call.entry is Entry.CALL:
            registers[_RSP] = registers[_RSP] - 8 & _MASK64
            self._poke(registers[_RSP], EXIT.to_bytes(8, "little"))
        flags = (call.registers[17] if len(call.registers) > 17 else 0) & ~_FLAGS_NEVER_LOADED
        xmm = [*call.xmm, *(0 for _ in range(16 - len(call.xmm)))]
        # glibc needs its own FS base back in every call; the trampoline restores it.
        struct.pack_into("<18Q", frame, 0, *registers, flags | 0x202, call.address)
        struct.pack_into("<2Q", frame, GUEST_GS, call.gs_base, call.fs_base)
        frame[USE_BASES] = b"\1" if call.fs_base or call.gs_base else b"\0"
        for number, value in enumerate(xmm):
            struct.pack_into("<2Q", frame, XMM + 16 * number, value & _MASK64, value >> 64)

    def _region_of(self, address: int, size: int) -> Region:
        for region in self.regions:
            if region.address <= address and address + size <= region.address + _mapped(region):
                return region
        raise NativeSetupError(
            f"{size} bytes at {address:#x} lie in no region; add a Region there or move RSP"
        )

    def _poke(self, address: int, data: bytes) -> None:
        region = self._region_of(address, len(data))
        if region.access is Access.DATA:
            ctypes.memmove(address, data, len(data))
            return
        # Code is patched between calls, never while it can be executed.
        start = address & -PAGE
        length = (address + len(data) - start + PAGE - 1) & -PAGE
        _protect(start, length, _READ | _WRITE)
        ctypes.memmove(address, data, len(data))
        _protect(start, length, _PROTECTION[region.access])

    def _peek(self, address: int, size: int) -> bytes:
        self._region_of(address, size)
        return ctypes.string_at(address, size)


_PROTECTION: Final = {
    Access.CODE: _READ | _EXECUTE,
    Access.DATA: _READ | _WRITE,
    Access.CONSTANT: _READ,
}


def _mapped(region: Region) -> int:
    """Return the region's size in whole pages, in bytes."""
    return (len(region.data) + PAGE - 1) & -PAGE


def _check_region(region: Region) -> None:
    if any(address % PAGE for address in (region.address, *region.aliases)) or not region.data:
        raise NativeSetupError(
            f"region at {region.address:#x} ({len(region.data)} bytes): the address must be a "
            f"multiple of {PAGE:#x} and the data not empty"
        )
    end = region.address + _mapped(region)
    if region.address < FRAME_BASE + PAGE and end > TRAMPOLINE_BASE:
        raise NativeSetupError(
            f"region at {region.address:#x} overlaps the trampoline at {TRAMPOLINE_BASE:#x}"
        )
    if region.access is not Access.CODE:
        return
    ranges = region.routines
    if ranges is None:
        ranges = ((region.address, len(region.data)),)
    for address, size in ranges:
        offset = address - region.address
        refused = refused_instructions(region.data[offset : offset + size], address)
        if refused:
            raise NativeRefusedError(
                f"`{refused[0]}` at {refused[0].ip:#x} cannot run in a user process; judge this "
                "routine in Unicorn with a supplied value, or in QEMU"
            )


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_uint64
    libc.mmap.argtypes = (
        *(ctypes.c_uint64, ctypes.c_size_t, ctypes.c_int),
        *(ctypes.c_int, ctypes.c_int, ctypes.c_int64),
    )
    libc.mprotect.argtypes = (ctypes.c_uint64, ctypes.c_size_t, ctypes.c_int)
    return libc


def _protect(address: int, size: int, protection: int) -> None:
    if _libc().mprotect(address, size, protection):
        raise NativeSetupError(
            f"cannot change protection of {address:#x}: {os.strerror(ctypes.get_errno())}"
        )


def _map(address: int, data: bytes, protection: int) -> None:
    """Map pages at an address that must be free, fill them, then set their protection."""
    size = (len(data) + PAGE - 1) & -PAGE
    _place(address, size, _MAP_PRIVATE | _MAP_ANONYMOUS, -1)
    ctypes.memmove(address, data, len(data))
    _protect(address, size, protection)


def _map_shared(region: Region) -> None:
    """Map the same pages at the region's address and at each alias."""
    size = _mapped(region)
    file = os.memfd_create("shardfw-alias")
    os.ftruncate(file, size)
    os.pwrite(file, region.data, 0)
    for address in (region.address, *region.aliases):
        _place(address, size, _MAP_SHARED, file)
        _protect(address, size, _PROTECTION[region.access])
    os.close(file)


def _place(address: int, size: int, flags: int, file: int) -> None:
    """Reserve a range that must be free, readable and writable."""
    flags |= _MAP_FIXED_NOREPLACE
    got = _libc().mmap(address, size, _READ | _WRITE, flags, file, 0)
    if got != address:
        reason = os.strerror(ctypes.get_errno()) if got == _MAP_FAILED else f"got {got:#x}"
        raise NativeSetupError(f"cannot map {size:#x} bytes at {address:#x}: {reason}")
