"""The BIOS boot program: 16-bit code that a PXE boot ROM loads to 0:7C00.

It asks the ROM for the DHCPACK and the NIC, the BIOS for the memory map, shuts the ROM's network
stack down, and goes to 32-bit code. It stays on the ROM's stack until then.
"""

from firmware.boot.bios import a20_open, bios_memory_map
from firmware.boot.low import BOOT_GDT, BOOT_GDTR, EVERYTHING, SELECTOR_CODE32, low8, low16, low32
from firmware.boot.paging import enter_long
from firmware.layouts import pxe
from firmware.layouts.boot import (
    ACK_MAX,
    BOOT_INFO_ADDRESS,
    LOW_BOOT,
    BootInfo,
    BootPacket,
    BootPath,
)
from firmware.layouts.pci import ADDRESS_PORT, DATA_PORT, PciCommand, PciRegister
from firmware.layouts.pxe import BANG_PXE, PXENV, CachedInfo
from toolchain.asm import (
    AX,
    BX,
    CR0,
    CX,
    DI,
    DS,
    DX,
    EAX,
    EDI,
    EDX,
    ES,
    FS,
    GS,
    NZ,
    SI,
    SP,
    A,
    Asm,
    B,
    In,
    Offset,
    Out,
    Reg16,
    Z,
    mem16,
    mem32,
    routine,
)
from toolchain.layout import Data

ENTRY_TSC = Data("entry_tsc", 8, bytes(8), section=".boot", doc="TSC at the first instruction")
ENTRY_PXENV = Data("entry_pxenv", 4, bytes(4), section=".boot", doc="ES:BX on entry")
PXE_API = Data("pxe_api", 4, bytes(4), section=".boot", doc="entry point of the ROM; 0 = none")
BLOCK = Data("pxe_block", pxe.BLOCK_BYTES, bytes(pxe.BLOCK_BYTES), section=".boot",
             doc="parameters of a PXE call")  # fmt: skip
# CachedInfo is placed at the symbol; 16-bit code takes its address from the linker.
INFO = CachedInfo(None, symbol=BLOCK)


@routine(
    inputs=[In(BX, int, "PXE function")],
    outputs=[Out(AX, "0 = done"), Out(CX, "0, as DS and ES")],
    clobbers=EVERYTHING,
    reads=[PXE_API, CachedInfo.status],
    bits=16,
    section=".boot",
    source="PXE 2.1, 3.2.1",
)
def pxe_call(a: Asm, function: Reg16) -> None:
    """Call the ROM with the parameter block; both calling conventions at once."""
    a.mov(DI, Offset(BLOCK))
    a.push(DS)
    a.push(DI)
    a.push(function)
    a.far_call(PXE_API.m32())
    a.add(SP, 6)
    a.cld()
    a.xor(CX, CX)
    a.mov(DS, CX)
    a.mov(ES, CX)
    # The status in the block counts too: some ROMs leave AX alone.
    a.or_(AX, INFO.status)
    a.ret()


@routine(
    outputs=[Out(CX, "0")],
    clobbers=[EAX, EDI],
    bits=16,
    section=".boot",
    source="PXE 2.1, 3.2.1",
)
def pxe_clear(a: Asm) -> None:
    """Zero the parameter block; ES is 0."""
    a.mov(DI, Offset(BLOCK))
    a.mov(CX, pxe.BLOCK_BYTES // 2)
    a.xor(AX, AX)
    a.rep_stosw()
    a.ret()


@routine(
    clobbers=EVERYTHING,
    reads=[ENTRY_PXENV, PXENV, BANG_PXE],
    writes=[PXE_API],
    bits=16,
    section=".boot",
    source="PXE 2.1, 4.4.5",
)
def pxe_find(a: Asm) -> None:
    """Find the ROM's entry point: !PXE through PXENV+, else PXENV+ itself, else none."""
    none, old = a.label("none"), a.label("old")
    a.mov(BX, ENTRY_PXENV.m16())
    a.mov(AX, ENTRY_PXENV.m16(2))
    a.mov(FS, AX)
    a.cmp(mem32(BX, ref=PXENV, segment=FS), int.from_bytes(pxe.PXENV_SIGNATURE, "little"))
    a.j(NZ, none)
    a.cmp(mem16(BX, 4, ref=PXENV, segment=FS), int.from_bytes(pxe.PXENV_SIGNATURE_END, "little"))
    a.j(NZ, none)
    a.cmp(mem16(BX, pxe.PXENV_VERSION, ref=PXENV, segment=FS), pxe.PXENV_VERSION_WITH_PXE)
    a.j(B, old)
    a.mov(SI, mem16(BX, pxe.PXENV_PXE, ref=PXENV, segment=FS))
    a.mov(AX, mem16(BX, pxe.PXENV_PXE + 2, ref=PXENV, segment=FS))
    a.mov(GS, AX)
    a.cmp(mem32(SI, ref=BANG_PXE, segment=GS), int.from_bytes(pxe.BANG_PXE_SIGNATURE, "little"))
    a.j(NZ, old)
    a.mov(EAX, mem32(SI, pxe.BANG_PXE_ENTRY, ref=BANG_PXE, segment=GS))
    a.mov(PXE_API.m32(), EAX)
    a.ret()
    a.place(old)
    a.mov(EAX, mem32(BX, pxe.PXENV_ENTRY, ref=PXENV, segment=FS))
    a.mov(PXE_API.m32(), EAX)
    a.place(none)
    a.ret()


@routine(
    clobbers=EVERYTHING,
    reads=[LOW_BOOT, CachedInfo.size, CachedInfo.offset, CachedInfo.segment],
    writes=[LOW_BOOT, CachedInfo.packet],
    calls=[pxe_clear, pxe_call],
    bits=16,
    section=".boot",
    source="PXE 2.1, 3.3.6",
)
def pxe_cached_ack(a: Asm) -> None:
    """Copy the DHCPACK that the ROM kept, so that the node need not ask again."""
    none = a.label("none")
    a.call(pxe_clear)
    # No buffer of ours: the ROM answers with the place of its own.
    a.mov(INFO.packet, pxe.PACKET_DHCP_ACK)
    a.mov(BX, pxe.GET_CACHED_INFO)
    a.call(pxe_call)
    a.test(AX, AX)
    a.j(NZ, none)
    a.mov(CX, INFO.size)
    a.cmp(CX, ACK_MAX)
    with a.if_(A):
        a.mov(CX, ACK_MAX)
    a.cmp(CX, BootPacket.SIZE)
    a.j(B, none)
    a.mov(low16(BootInfo.ack_length), CX)
    a.mov(SI, INFO.offset)
    a.mov(AX, INFO.segment)
    a.mov(DS, AX)
    a.mov(DI, BOOT_INFO_ADDRESS + BootInfo.ack.offset)
    a.rep_movsb()
    a.mov(DS, CX)
    a.mov(EAX, low32(BootInfo.ack, BootPacket.hardware.offset))
    a.mov(low32(BootInfo.mac), EAX)
    a.mov(AX, low16(BootInfo.ack, BootPacket.hardware.offset + 4))
    a.mov(low16(BootInfo.mac, 4), AX)
    a.place(none)
    a.ret()


@routine(
    clobbers=EVERYTHING,
    reads=[BLOCK],
    writes=[LOW_BOOT],
    calls=[pxe_clear, pxe_call],
    bits=16,
    section=".boot",
    source="PXE 2.1, 3.6.15",
)
def pxe_nic(a: Asm) -> None:
    """Ask which PCI function the ROM booted from."""
    none = a.label("none")
    a.call(pxe_clear)
    a.mov(BX, pxe.UNDI_GET_NIC_TYPE)
    a.call(pxe_call)
    a.test(AX, AX)
    a.j(NZ, none)
    # Some ROMs never write the type, so only "plug and play" is refused; the identity is checked
    # against the bus before it is believed.
    a.cmp(BLOCK.m8(pxe.NIC_TYPE), pxe.NIC_TYPE_PNP)
    a.j(Z, none)
    a.mov(EAX, BLOCK.m32(pxe.NIC_IDENTITY))
    a.mov(low32(BootInfo.nic_identity), EAX)
    a.mov(AX, BLOCK.m16(pxe.NIC_FUNCTION))
    a.mov(low16(BootInfo.nic_function), AX)
    a.mov(low8(BootInfo.nic_known), 1)
    a.place(none)
    a.ret()


@routine(
    clobbers=EVERYTHING,
    reads=[LOW_BOOT],
    calls=[pxe_clear, pxe_call],
    bits=16,
    section=".boot",
    source="PXE 2.1, 3.3.4",
)
def pxe_shutdown(a: Asm) -> None:
    """Shut the ROM's network stack down, then stop the NIC from writing to memory."""
    # Three calls, unrolled. A ROM that refuses one must not keep the node from starting.
    for function in (pxe.UNDI_SHUTDOWN, pxe.UNLOAD_STACK, pxe.STOP_UNDI):
        a.call(pxe_clear)
        a.mov(BX, function)
        a.call(pxe_call)
    a.cmp(low8(BootInfo.nic_known), 0)
    with a.if_(NZ):
        a.mov(EAX, low32(BootInfo.nic_function))
        a.shl(EAX, 8)
        a.or_(EAX, 0x8000_0000 | PciRegister.COMMAND)
        a.mov(DX, ADDRESS_PORT)
        a.out(DX, EAX)
        a.mov(DX, DATA_PORT)
        a.in_(EAX, DX)
        a.and_(EAX, 0xFFFF & ~PciCommand.BUS_MASTER)
        a.out(DX, EAX)
    a.ret()


@routine(
    reads=[ENTRY_TSC, PXE_API, BOOT_GDTR],
    writes=[LOW_BOOT, BOOT_GDTR],
    calls=[
        pxe_find, pxe_cached_ack, pxe_nic, bios_memory_map, pxe_shutdown, a20_open, enter_long,
    ],
    bits=16,
    section=".boot",
    noreturn=True,
    source="firmware/docs/boot.md#bios",
)  # fmt: skip
def nbp_main(a: Asm) -> None:
    """Collect the BootInfo and leave real mode."""
    a.xor(CX, CX)
    a.mov(ES, CX)
    a.mov(DI, BOOT_INFO_ADDRESS)
    a.mov(CX, BootInfo.SIZE // 4)
    a.xor(EAX, EAX)
    a.rep_stosd()
    a.mov(EAX, ENTRY_TSC.m32())
    a.mov(low32(BootInfo.entry_tsc), EAX)
    a.mov(EAX, ENTRY_TSC.m32(4))
    a.mov(low32(BootInfo.entry_tsc, 4), EAX)
    a.mov(low8(BootInfo.path), BootPath.BIOS_PXE)
    a.call(pxe_find)
    a.cmp(PXE_API.m32(), 0)
    with a.if_(NZ):
        a.call(pxe_cached_ack)
        a.call(pxe_nic)
    # The map while the ROM is resident: what it hides stays untouched for ever.
    a.call(bios_memory_map)
    a.cmp(PXE_API.m32(), 0)
    with a.if_(NZ):
        a.call(pxe_shutdown)
    a.call(a20_open)
    a.cli()
    a.mov(BOOT_GDTR.m16(), BOOT_GDT.size - 1)
    a.mov(EAX, Offset(BOOT_GDT))
    a.mov(BOOT_GDTR.m32(2), EAX)
    a.lgdt(BOOT_GDTR.address)
    a.mov(EAX, CR0)
    a.or_(EAX, 1)
    a.mov(CR0, EAX)
    a.far_jmp(SELECTOR_CODE32, enter_long)


@routine(
    inputs=[In(BX, int, "offset of PXENV+; its segment is in ES")],
    writes=[ENTRY_TSC, ENTRY_PXENV],
    calls=[nbp_main],
    bits=16,
    section=".boot",
    noreturn=True,
    source="PXE 2.1, 4.4.5",
)
def nbp_entry(a: Asm, pxenv: Reg16) -> None:
    """Note the time and what the ROM gave, before anything else."""
    a.rdtsc()
    a.xor(CX, CX)
    a.mov(DS, CX)
    a.mov(ENTRY_TSC.m32(), EAX)
    a.mov(ENTRY_TSC.m32(4), EDX)
    a.mov(ENTRY_PXENV.m16(), pxenv)
    a.mov(AX, ES)
    a.mov(ENTRY_PXENV.m16(2), AX)
    a.cld()
    # Some ROMs enter at 07C0:0000.
    a.far_jmp(0, nbp_main)
