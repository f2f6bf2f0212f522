"""One reusable Unicorn machine over a linked image, at its link addresses.

Memory lies in buffers that Python reads directly; regions may appear at two addresses (the receive
ring). RDTSC, RDRAND, RDSEED, CPUID, port and MMIO accesses are answered by the test's `Environment`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import iced_x86 as ix
import unicorn as uc
import unicorn.x86_const as ux

from emulator.environment import Environment
from emulator.memory import PAGE, Page, Region, split, whole_pages
from emulator.registers import GPR, UC_GPR, RegisterWriter, Snapshot
from emulator.sha_extensions import add_sha_extensions
from toolchain.link.reader import reloaded

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.bare_hook import BareHook
    from toolchain.link import Image, Section

PATTERN = 0xA5
STACK_TOP, STACK_BYTES = 0x6E01_0000, 0x1_0000
STOP = 0x6F00_0000
"""Where a called routine returns to; execution ends there."""
ARENA, ARENA_BYTES = 0x6800_0000, 0x8_0000
"""Free memory for the objects of a test."""
_SPECIAL = {
    ix.Mnemonic.RDTSC, ix.Mnemonic.RDRAND, ix.Mnemonic.RDSEED, ix.Mnemonic.CPUID, ix.Mnemonic.RDMSR,
    ix.Mnemonic.WRMSR, ix.Mnemonic.HLT, ix.Mnemonic.INVLPG, ix.Mnemonic.WBINVD, ix.Mnemonic.CLI,
    ix.Mnemonic.STI, ix.Mnemonic.LIDT, ix.Mnemonic.LGDT, ix.Mnemonic.LTR, ix.Mnemonic.RDTSCP,
}  # fmt: skip


class MachineError(Exception):
    """The code did what the machine does not allow; the message names address and routine."""


@dataclass(frozen=True)
class Loaded:
    """What a machine needs of an image, for whoever starts many machines with the same one.

    Attributes:
        sections: of its file, as lief reads them.
        special: instructions that the test answers, by address.
    """

    sections: tuple[Section, ...]
    special: dict[int, ix.Instruction]

    @classmethod
    def of(cls, image: Image) -> Loaded:
        """Read an image."""
        special = {
            ins.ip: ins
            for s in image.sections
            if s.executable and s.bits == 64
            for ins in ix.Decoder(64, s.contents, ip=s.address)
            if ins.mnemonic in _SPECIAL
        }
        return cls(tuple(reloaded(image).sections), special)


class Machine:
    """An image in memory, ready to call its routines.

    Args:
        image: The linked image; its sections are loaded as lief reads them in its ELF file.
        extra: Further regions (workspaces, DMA pools).
        loaded: The image as it was read before; None reads it.

    Attributes:
        watchers: Who is told of each `write` before it happens: while code runs, a device's store.
    """

    def __init__(
        self, image: Image, extra: tuple[Region, ...] = (), loaded: Loaded | None = None
    ) -> None:
        loaded = loaded or Loaded.of(image)
        self.image = image
        self.engine = uc.Uc(uc.UC_ARCH_X86, uc.UC_MODE_64)
        self.engine.ctl_set_cpu_model(ux.UC_CPU_X86_ICELAKE_SERVER)
        self.snapshot = Snapshot(self.engine)
        self._enter = RegisterWriter(self.engine, (UC_GPR["rsp"], ux.UC_X86_REG_RFLAGS))
        self._time = RegisterWriter(self.engine, (UC_GPR["rax"], UC_GPR["rdx"]))
        self.environment = Environment()
        self.regions: list[Region] = []
        self.pages: dict[int, Page] = {}
        self.windows: list[tuple[int, int]] = []
        self.watchers: list[Callable[[int, bytes], None]] = []
        self._sections: list[tuple[Region, bytes]] = []
        for s in loaded.sections:
            if s.bits != 64 or not s.size:
                continue
            region = Region(s.name, s.address, whole_pages(s.size), s.writable, s.executable)
            self._sections.append((region, s.contents))
            self._add(region)
        self._add(Region("stack", STACK_TOP - STACK_BYTES, STACK_BYTES))
        self._add(Region("arena", ARENA, ARENA_BYTES, foreign=True))
        for region in extra:
            self._add(region)
        self.engine.mem_map(STOP, PAGE, uc.UC_PROT_READ | uc.UC_PROT_EXEC)
        self.engine.mem_write(STOP, b"\xf4" * 16)
        self._arena_next = ARENA
        self.special = dict(loaded.special)
        self._fault = ""
        self._error: BaseException | None = None
        self.ran_freely = False
        add_sha_extensions(self.engine)
        self.engine.hook_add(uc.UC_HOOK_MEM_INVALID, self._on_invalid)
        self._ports = [
            self.engine.hook_add(uc.UC_HOOK_INSN, self._on_in, None, 1, 0, ux.UC_X86_INS_IN),
            self.engine.hook_add(uc.UC_HOOK_INSN, self._on_out, None, 1, 0, ux.UC_X86_INS_OUT),
        ]
        self.reset()

    # -- memory -----------------------------------------------------------------------------------
    def _add(self, region: Region) -> None:
        rights = uc.UC_PROT_READ
        rights |= uc.UC_PROT_WRITE if region.writable else 0
        rights |= uc.UC_PROT_EXEC if region.executable else 0
        for address in (region.address, *region.aliases):
            self.engine.mem_map_ptr(address, region.size, rights, region.pointer)
            for offset in range(0, region.size, PAGE):
                first = (region.address + offset) // PAGE
                self.pages[(address + offset) // PAGE] = Page(region, offset, first)
        self.regions.append(region)

    def reset(self) -> None:
        """Put the image's contents back; fill everything writable else with the pattern."""
        for region in self.regions:
            region.buffer[:] = self.clean(region)
        self._arena_next = ARENA

    def clean(self, region: Region) -> bytes:
        """Return what `reset` puts into a region."""
        for loaded, contents in self._sections:
            if loaded is region:
                return contents + bytes(region.size - len(contents))
        return bytes([PATTERN]) * region.size

    def alloc(self, size: int, align: int = 16) -> int:
        """Take memory for a test from the arena."""
        start = -(-self._arena_next // align) * align
        if start + size > ARENA + ARENA_BYTES:
            raise MachineError(f"the arena has no {size} bytes left; raise ARENA_BYTES")
        self._arena_next = start + size
        return start

    def page(self, address: int) -> Page:
        """Return the page of an address.

        Raises:
            MachineError: Nothing is mapped there.
        """
        found = self.pages.get(address // PAGE)
        if found is None:
            raise MachineError(f"no memory at {address:#x}")
        return found

    def read(self, address: int, size: int) -> bytes:
        """Return bytes of memory."""
        at = address % PAGE
        if at + size <= PAGE:
            region, offset, _ = self.page(address)
            return region.buffer[offset + at : offset + at + size]
        parts = []
        for start, length in split(address, size):
            region, offset, _ = self.page(start)
            offset += start % PAGE
            parts.append(region.buffer[offset : offset + length])
        return b"".join(parts)

    def write(self, address: int, contents: bytes) -> None:
        """Set bytes of memory, whatever its protection."""
        for watcher in self.watchers:
            watcher(address, contents)
        at = address % PAGE
        if at + len(contents) <= PAGE:
            region, offset, _ = self.page(address)
            region.buffer[offset + at : offset + at + len(contents)] = contents
            return
        for start, length in split(address, len(contents)):
            region, offset, _ = self.page(start)
            offset += start % PAGE
            done = start - address
            region.buffer[offset : offset + length] = contents[done : done + length]

    def canonical(self, address: int) -> int:
        """Return the first address of the byte that `address` names."""
        found = self.pages.get(address // PAGE)
        return address if found is None else found.first * PAGE + address % PAGE

    # -- instructions that the test answers -------------------------------------------------------
    def answer(self, ins: ix.Instruction) -> None:
        """Carry out an instruction for the test and step over it."""
        e, env = self.engine, self.environment
        following = ins.ip + ins.len
        match ins.mnemonic:
            case ix.Mnemonic.RDTSC | ix.Mnemonic.RDTSCP:
                now = env.rdtsc()
                self._time.put(now & 0xFFFF_FFFF, now >> 32)
            case ix.Mnemonic.RDRAND | ix.Mnemonic.RDSEED:
                seed = ins.mnemonic == ix.Mnemonic.RDSEED
                good, value = env.rdseed() if seed else env.rdrand()
                self._write_register(ins.op0_register, value)
                flags = e.reg_read(ux.UC_X86_REG_RFLAGS) & ~0x8D5
                e.reg_write(ux.UC_X86_REG_RFLAGS, flags | int(good))
            case ix.Mnemonic.CPUID:
                leaf = e.reg_read(ux.UC_X86_REG_EAX), e.reg_read(ux.UC_X86_REG_ECX)
                answer = env.cpuid(*leaf)
                for reg, value in zip(("RAX", "RBX", "RCX", "RDX"), answer, strict=True):
                    e.reg_write(getattr(ux, f"UC_X86_REG_{reg}"), value)
            case ix.Mnemonic.RDMSR:
                value = env.rdmsr(e.reg_read(ux.UC_X86_REG_ECX))
                e.reg_write(ux.UC_X86_REG_RAX, value & 0xFFFF_FFFF)
                e.reg_write(ux.UC_X86_REG_RDX, value >> 32)
            case ix.Mnemonic.WRMSR:
                value = e.reg_read(ux.UC_X86_REG_EDX) << 32 | e.reg_read(ux.UC_X86_REG_EAX)
                env.wrmsr(e.reg_read(ux.UC_X86_REG_ECX), value)
            case _:
                env.system(ix.Formatter(ix.FormatterSyntax.NASM).format(ins).split()[0])
        e.reg_write(ux.UC_X86_REG_RIP, following)

    def _write_register(self, register: ix.Register_, value: int) -> None:
        size = ix.RegisterExt.size(register)
        full = ix.RegisterExt.full_register(register)
        name = GPR[full - ix.Register.RAX]
        old = self.engine.reg_read(UC_GPR[name])
        mask = (1 << (8 * size)) - 1
        kept = 0 if size >= 4 else old & ~mask
        self.engine.reg_write(UC_GPR[name], kept | (value & mask))

    def _on_in(self, _engine: uc.Uc, port: int, size: int, _data: object) -> int:
        return self.port_in(port, size)

    def port_in(self, port: int, size: int) -> int:
        """Ask the environment for a port; an error ends the run."""
        return self._guarded(self.environment.port_in, port, size)

    def _guarded(self, ask: Callable[[int, int], int], place: int, size: int) -> int:
        """Return an answer; the binding cannot carry an exception out of a hook with a result."""
        try:
            return ask(place, size)
        except Exception as error:
            self._error = error
            self.engine.emu_stop()
            return 0

    def stop_with(self, error: BaseException) -> None:
        """End the run from within a native hook; `run` raises the error, the first of several."""
        self._error = self._error or error
        self.engine.emu_stop()

    def _on_out(self, _engine: uc.Uc, port: int, size: int, value: int, _data: object) -> None:
        self.port_out(port, size, value)

    def port_out(self, port: int, size: int, value: int) -> None:
        """Tell the environment of a write to a port; an error ends the run."""
        try:
            self.environment.port_out(port, size, value)
        except Exception as error:
            self.stop_with(error)

    def _on_invalid(
        self, _engine: uc.Uc, access: int, address: int, size: int, _value: int, _data: object
    ) -> bool:
        verb = {
            uc.UC_MEM_WRITE_UNMAPPED: "write to unmapped",
            uc.UC_MEM_READ_UNMAPPED: "read of unmapped",
            uc.UC_MEM_FETCH_UNMAPPED: "jump to unmapped",
            uc.UC_MEM_WRITE_PROT: "write to read-only",
            uc.UC_MEM_FETCH_PROT: "jump to non-executable",
        }.get(access, "bad access to")
        self._fault = f"{verb} {address:#x} ({size} bytes)"
        return False

    def map_mmio(self, address: int, size: int) -> None:
        """Let the environment answer reads and writes of a device's registers."""
        self.windows.append((address, size))

        def load(_engine: uc.Uc, offset: int, size: int, _data: object) -> int:
            return self._guarded(self.environment.mmio_read, address + offset, size)

        def store(_engine: uc.Uc, offset: int, size: int, value: int, _data: object) -> None:
            self.environment.mmio_write(address + offset, size, value)

        self.engine.mmio_map(address, size, load, None, store, None)

    # -- running ----------------------------------------------------------------------------------
    def set_registers(self, values: dict[str, int]) -> None:
        """Set 64-bit registers by name."""
        for name, value in values.items():
            self.engine.reg_write(UC_GPR[name], value)

    def registers(self) -> dict[str, int]:
        """Return the 64-bit registers by name."""
        return dict(zip(GPR, self.snapshot.take()[:16], strict=True))

    def prepare_call(self, address: int, registers: dict[str, int], flags: int = 0x202) -> int:
        """Set up a call of the code at `address`; return the RSP that it must leave."""
        rsp = STACK_TOP - 0x100
        self.write(rsp, STOP.to_bytes(8, "little"))
        if registers:
            self.set_registers(registers)
        self._enter.put(rsp, flags)
        return rsp + 8

    def run(self, start: int, limit: int = 0) -> None:
        """Run until the STOP address; `limit` bounds the instructions (0: none).

        Raises:
            MachineError: A fault, or the limit was reached.
            Exception: Whatever an answer of the environment raised.
        """
        self._fault, self._error = "", None
        try:
            self.engine.emu_start(start, STOP, count=limit)
        except uc.UcError as error:
            if self._error is not None:
                raise self._error from None
            rip = self.engine.reg_read(ux.UC_X86_REG_RIP)
            raise MachineError(f"{self.where(rip)}: {self._fault or error}") from None
        if self._error is not None:
            raise self._error
        if limit and (rip := self.engine.reg_read(ux.UC_X86_REG_RIP)) != STOP:
            raise MachineError(f"{self.where(rip)}: still running after {limit} instructions")

    def where(self, address: int) -> str:
        """Name an address: routine, offset and source line."""
        placed = self.image.symbol_at(address)
        if placed is None:
            return f"{address:#x}"
        line = max((row for row in self.image.lines if row[0] <= address), default=None)
        source = f" ({line[1]}:{line[2]})" if line is not None else ""
        return f"{placed.name}+{address - placed.address:#x}{source}"

    def release_ports(self) -> None:
        """Leave IN, OUT and RDTSC to hooks of somebody else."""
        for handle in self._ports:
            self.unhook(handle)
        self.special = {
            at: ins for at, ins in self.special.items() if ins.mnemonic != ix.Mnemonic.RDTSC
        }

    def hook_special(self) -> None:
        """Answer special instructions in free runs, without a hook on any other instruction."""

        def visit(_engine: uc.Uc, address: int, _size: int, _data: object) -> None:
            self.answer(self.special[address])

        for address in self.special:
            self.engine.hook_add(uc.UC_HOOK_CODE, visit, None, address, address)

    def call(
        self, name: str, registers: dict[str, int] | None = None, limit: int = 0
    ) -> dict[str, Any]:
        """Call a routine freely and return the registers it left."""
        address = self.image.address(name)
        leave = self.prepare_call(address, registers or {})
        self.ran_freely = True
        self.run(address, limit)
        after: dict[str, Any] = self.registers()
        after["flags"] = self.engine.reg_read(ux.UC_X86_REG_RFLAGS)
        if after["rsp"] != leave:
            raise MachineError(f"{name} left RSP {after['rsp'] - leave:+d} bytes off")
        return after

    def hook(self, kind: int, callback: Callable[..., Any], begin: int = 1, end: int = 0) -> int:
        """Add a Unicorn hook; return its handle for `unhook`."""
        self.retranslate()
        return int(self.engine.hook_add(kind, callback, None, begin, end))

    def hook_bare(self, hook: BareHook, begin: int = 1, end: int = 0) -> int:
        """Add a hook that the library calls directly; return its handle for `unhook`."""
        self.retranslate()
        return hook.add(self.engine, begin, end)

    def retranslate(self) -> None:
        """Forget translated blocks: those made without hooks would never call a new one."""
        if self.ran_freely:
            self.engine.ctl_flush_tb()
            self.ran_freely = False

    def unhook(self, handle: int) -> None:
        """Remove a hook."""
        self.engine.hook_del(handle)
