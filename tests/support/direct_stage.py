"""The 32-bit stage of the direct image on a bare processor: from the loader's jump to page tables.

Unicorn in 32-bit mode, flat memory, no operating system below. The stage ends where it would load
CR3, or where it refuses and halts. What ran counts as covered.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import iced_x86 as ix
import unicorn as uc
import unicorn.x86_const as ux

from emulator.coverage import process_coverage
from firmware.boot.multiboot import multiboot_entry
from firmware.boot.paging import enter_long
from firmware.image import DIRECT_ADDRESS, link_direct
from firmware.layouts.boot import BOOT_INFO_ADDRESS, BootInfo
from firmware.layouts.memory import ADDRESS_MASK, PageBit
from firmware.layouts.multiboot import FLAG_MEMORY_MAP, LOADER_MAGIC, MultibootInfo
from firmware.layouts.trust import EMPTY_STORE
from toolchain.layout.pack import unpack

if TYPE_CHECKING:
    from collections.abc import Sequence

IMAGE, FILE = link_direct()
MEMORY_BYTES = 64 << 20
INFO, MAP = 0x9000, 0x9100
A20_LOW, A20_HIGH = 0x500, 0x10_0500
MAX_INSTRUCTIONS = 5_000_000
LONG_MODE_AND_NX = {0x8000_0000: (0x8000_0008, 0, 0, 0), 0x8000_0001: (0, 0, 0, 1 << 29 | 1 << 20)}
TSC = 0x1234_5678_9ABC_DEF0


def _find(routine: Any, mnemonic: ix.Mnemonic_, operand: ix.Register_ | None = None) -> int:
    """Return the address of a routine's instruction."""
    at = IMAGE.address(routine)
    boot = IMAGE.section(".boot")
    for ins in ix.Decoder(32, boot.contents[at - boot.address :], ip=at):
        if ins.mnemonic == mnemonic and operand in {None, ins.op0_register}:
            return ins.ip
    raise AssertionError(f"{routine.name} has no such instruction")


class DirectStage:
    """One boot.

    Args:
        regions: The loader's memory map: (base, length, kind).
        magic: What the loader leaves in EAX.
        flags: Of the loader's information.
        cpuid: Leaf -> EAX, EBX, ECX, EDX; other leaves give zeros.
        alike: The doublewords at 500h and 100500h, which lies in the image, are equal.
        masked: Address line 20 is masked: the two doublewords are one.
        store: The trust store of the file.
    """

    def __init__(
        self,
        regions: Sequence[tuple[int, int, int]],
        *,
        magic: int = LOADER_MAGIC,
        flags: int = FLAG_MEMORY_MAP,
        cpuid: dict[int, tuple[int, int, int, int]] | None = None,
        alike: bool = False,
        masked: bool = False,
        store: bytes = EMPTY_STORE,
    ) -> None:
        self.cpuid = LONG_MODE_AND_NX if cpuid is None else cpuid
        self.masked = masked
        self.trace: list[int] = []
        self.said = bytearray()
        self.end = _find(enter_long, ix.Mnemonic.MOV, ix.Register.CR3)
        self._after_rdtsc = _find(multiboot_entry, ix.Mnemonic.RDTSC) + 2
        self.engine = e = uc.Uc(uc.UC_ARCH_X86, uc.UC_MODE_32)
        e.mem_map(0, MEMORY_BYTES)
        # What is not written must be seen to be cleared by the stage.
        e.mem_write(BOOT_INFO_ADDRESS, b"\xee" * BootInfo.SIZE)
        at = FILE.index(EMPTY_STORE)
        e.mem_write(DIRECT_ADDRESS, FILE[:at] + store)
        rows = b"".join(struct.pack("<IQQI", 20, *region) for region in regions)
        e.mem_write(MAP, rows)
        info = bytearray(MultibootInfo.SIZE)
        for field, value in (("flags", flags), ("map_length", len(rows)), ("map_address", MAP)):
            struct.pack_into("<I", info, getattr(MultibootInfo, field).offset, value)
        e.mem_write(INFO, bytes(info))
        if alike or masked:
            e.mem_write(A20_LOW, bytes(e.mem_read(A20_HIGH, 4)))
        e.reg_write(ux.UC_X86_REG_EAX, magic)
        e.reg_write(ux.UC_X86_REG_EBX, INFO)
        e.hook_add(uc.UC_HOOK_CODE, self._on_code)
        e.hook_add(uc.UC_HOOK_INSN, self._on_cpuid, None, 1, 0, ux.UC_X86_INS_CPUID)
        e.hook_add(uc.UC_HOOK_INSN, self._on_in, None, 1, 0, ux.UC_X86_INS_IN)
        e.hook_add(uc.UC_HOOK_INSN, self._on_out, None, 1, 0, ux.UC_X86_INS_OUT)
        e.hook_add(uc.UC_HOOK_MEM_WRITE_UNMAPPED, self._on_unmapped)
        if masked:
            e.hook_add(uc.UC_HOOK_MEM_WRITE, self._on_write, None, A20_HIGH, A20_HIGH + 3)

    def run(self) -> DirectStage:
        """Run to the end of the stage; return itself."""
        self.engine.emu_start(IMAGE.address(multiboot_entry), self.end, count=MAX_INSTRUCTIONS)
        process_coverage().add_trace(IMAGE, self.trace)
        return self

    @property
    def finished(self) -> bool:
        """Whether it came to the load of CR3."""
        return bool(self.engine.reg_read(ux.UC_X86_REG_EIP) == self.end)

    @property
    def info(self) -> dict[str, Any]:
        """The BootInfo, by field."""
        return unpack(BootInfo, self.engine.mem_read(BOOT_INFO_ADDRESS, BootInfo.SIZE))

    @property
    def regions(self) -> list[tuple[int, int, int]]:
        """The memory map that the stage leaves."""
        info = self.info
        rows = info["regions"][: info["region_count"]]
        return [(r["base"], r["length"], r["kind"]) for r in rows]

    def quadword(self, address: int) -> int:
        """Return eight bytes of physical memory."""
        return int.from_bytes(self.engine.mem_read(address, 8), "little")

    def entry(self, virtual: int) -> int:
        """Return the last page-table entry of an address, as the processor walks."""
        found = self.engine.reg_read(ux.UC_X86_REG_EBX) | 1
        for shift in (39, 30, 21, 12):
            table = found & ADDRESS_MASK
            found = self.quadword(table + 8 * (virtual >> shift & 511))
            if not found & PageBit.PRESENT or found & PageBit.LARGE:
                break
        return int(found)

    # -- hooks ------------------------------------------------------------------------------------
    def _on_code(self, engine: uc.Uc, address: int, _size: int, _data: object) -> None:
        if address == self._after_rdtsc:
            engine.reg_write(ux.UC_X86_REG_EAX, TSC & 0xFFFF_FFFF)
            engine.reg_write(ux.UC_X86_REG_EDX, TSC >> 32)
        self.trace.append(address)

    def _on_cpuid(self, engine: uc.Uc, _data: object) -> bool:
        values = self.cpuid.get(engine.reg_read(ux.UC_X86_REG_EAX), (0, 0, 0, 0))
        for name, value in zip(("EAX", "EBX", "ECX", "EDX"), values, strict=True):
            engine.reg_write(getattr(ux, f"UC_X86_REG_{name}"), value)
        return True

    def _on_in(self, _engine: uc.Uc, _port: int, _size: int, _data: object) -> int:
        return 0x20

    def _on_out(self, _engine: uc.Uc, port: int, _size: int, value: int, _data: object) -> None:
        assert port == 0x3F8
        self.said.append(value)

    def _on_unmapped(
        self, engine: uc.Uc, _access: int, address: int, _size: int, _value: int, _data: object
    ) -> bool:
        """Put memory where the stage took it, wherever the loader's map said that it is."""
        engine.mem_map(address & ~0xFFFF, 0x1_0000)
        return True

    def _on_write(
        self, engine: uc.Uc, _access: int, _address: int, size: int, value: int, _data: object
    ) -> None:
        engine.mem_write(A20_LOW, (value & 0xFFFF_FFFF).to_bytes(size, "little"))
