"""PCI configuration space by ports CF8 and CFC: registers, base addresses, capabilities.

A function is named by `bus << 8 | device << 3 | function`, as UNDI tells it.
"""

from firmware.layouts.pci import (
    ADDRESS_PORT,
    BAR_64,
    BAR_IO,
    BARS,
    DATA_PORT,
    HEADER_BRIDGE,
    HEADER_TYPE,
    MULTI_FUNCTION,
    NO_FUNCTION,
    PciRegister,
)
from toolchain.asm import (
    AE,
    AL,
    AX,
    CF,
    DX,
    EAX,
    ECX,
    EDI,
    EDX,
    NE,
    NZ,
    R8,
    R8D,
    R9,
    R9D,
    R10,
    R10D,
    R11,
    R11D,
    RAX,
    RCX,
    RDX,
    Asm,
    B,
    E,
    In,
    Out,
    Reg8,
    Reg16,
    Reg32,
    routine,
)

FUNCTION = In(EDI, int, "bus << 8 | device << 3 | function")


def _select(a: Asm, offset: Reg32, scratch: Reg32) -> None:
    """Write the address of a register to CF8. Clobbers EAX, EDX and the scratch register."""
    a.mov(scratch, EDI)
    a.shl(scratch, 8)
    a.or_(scratch, offset)
    a.and_(scratch, 0x00FF_FFFC)
    a.or_(scratch, 0x8000_0000)
    a.mov(EAX, scratch)
    a.mov(EDX, ADDRESS_PORT)
    a.out(DX, EAX)


@routine(
    inputs=[FUNCTION, In(ECX, int, "offset; its two low bits are ignored")],
    outputs=[Out(EAX, "the register; all ones when there is no such function")],
    clobbers=[RDX],
    source="PCI Local Bus 3.0, 3.2.2.3.2",
)
def pci_read(a: Asm, function: Reg32, offset: Reg32) -> None:
    """Read 32 bits of configuration space."""
    _select(a, offset, EAX)
    a.mov(EDX, DATA_PORT)
    a.in_(EAX, DX)
    a.ret()


@routine(
    inputs=[
        FUNCTION,
        In(ECX, int, "offset; its two low bits are ignored"),
        In(EAX, int, "value"),
    ],
    clobbers=[RAX, RDX, R8],
    source="PCI Local Bus 3.0, 3.2.2.3.2",
)
def pci_write(a: Asm, function: Reg32, offset: Reg32, value: Reg32) -> None:
    """Write 32 bits of configuration space."""
    a.mov(R8D, value)
    _select(a, offset, EAX)
    a.mov(EDX, DATA_PORT)
    a.mov(EAX, R8D)
    a.out(DX, EAX)
    a.ret()


def _select_part(a: Asm, offset: Reg32) -> None:
    """Select a register and put the port of the byte or word at `offset` into EDX."""
    _select(a, offset, EAX)
    a.mov(EDX, offset)
    a.and_(EDX, 3)
    a.add(EDX, DATA_PORT)


@routine(
    inputs=[FUNCTION, In(ECX, int, "offset; a multiple of 2")],
    outputs=[Out(EAX, "the word, zero-extended")],
    clobbers=[RDX],
    source="PCI Local Bus 3.0, 3.2.2.3.2",
)
def pci_read16(a: Asm, function: Reg32, offset: Reg32) -> None:
    """Read 16 bits: some registers answer only to their own width."""
    _select_part(a, offset)
    a.in_(AX, DX)
    a.movzx(EAX, AX)
    a.ret()


@routine(
    inputs=[FUNCTION, In(ECX, int, "offset")],
    outputs=[Out(EAX, "the byte, zero-extended")],
    clobbers=[RDX],
    source="PCI Local Bus 3.0, 3.2.2.3.2",
)
def pci_read8(a: Asm, function: Reg32, offset: Reg32) -> None:
    """Read 8 bits."""
    _select_part(a, offset)
    a.in_(AL, DX)
    a.movzx(EAX, AL)
    a.ret()


@routine(
    inputs=[FUNCTION, In(ECX, int, "offset; a multiple of 2"), In(AX, int, "value")],
    clobbers=[RAX, RDX, R8],
    source="PCI Local Bus 3.0, 3.2.2.3.2",
)
def pci_write16(a: Asm, function: Reg32, offset: Reg32, value: Reg16) -> None:
    """Write 16 bits, and nothing beside them."""
    a.movzx(R8D, value)
    _select_part(a, offset)
    a.mov(EAX, R8D)
    a.out(DX, AX)
    a.ret()


@routine(
    inputs=[FUNCTION, In(ECX, int, "offset"), In(AL, int, "value")],
    clobbers=[RAX, RDX, R8],
    source="PCI Local Bus 3.0, 3.2.2.3.2",
)
def pci_write8(a: Asm, function: Reg32, offset: Reg32, value: Reg8) -> None:
    """Write 8 bits, and nothing beside them."""
    a.movzx(R8D, value)
    _select_part(a, offset)
    a.mov(EAX, R8D)
    a.out(DX, AL)
    a.ret()


@routine(
    inputs=[
        FUNCTION,
        In(EDX, int, "Command bits to set"),
        In(R9D, int, "Command bits to clear; counts before those to set"),
    ],
    clobbers=[RAX, RCX, RDX, R8, R10],
    calls=[pci_read, pci_write],
    source="PCI Local Bus 3.0, 6.2.2",
)
def pci_command(a: Asm, function: Reg32, set_bits: Reg32, clear_bits: Reg32) -> None:
    """Change the command register; the status register beside it is left as it is."""
    a.movzx(R10D, DX)
    a.mov(ECX, PciRegister.COMMAND)
    a.call(pci_read)
    # Status bits are cleared by writing ones: write zeros there.
    a.mov(ECX, R9D)
    a.not_(ECX)
    a.and_(EAX, ECX)
    a.movzx(EAX, AX)
    a.or_(EAX, R10D)
    a.mov(ECX, PciRegister.COMMAND)
    a.call(pci_write)
    a.ret()


@routine(
    inputs=[FUNCTION, In(ECX, int, "number of the base address register, 0..5")],
    outputs=[
        Out(RAX, "base address, of ports or of memory; 0 when there is none"),
        Out(R8D, "its low bits: BAR_IO, BAR_64"),
        Out(CF, "1 = no such register, or nothing assigned"),
    ],
    clobbers=[RCX, RDX, R9],
    calls=[pci_read],
    source="PCI Local Bus 3.0, 6.2.5.1",
)
def pci_bar(a: Asm, function: Reg32, number: Reg32) -> None:
    """Return where a base address register points; both halves when it is 64 bits wide."""
    absent, found = a.label("absent"), a.label("found")
    a.xor(R8D, R8D)
    a.cmp(number, BARS)
    a.j(AE, absent)
    a.shl(number, 2)
    a.add(number, PciRegister.BAR0)
    a.call(pci_read)
    a.mov(R9D, EAX)
    a.mov(R8D, EAX)
    a.and_(R8D, BAR_IO)
    with a.if_(NZ):
        a.and_(R9D, 0xFFFC)
        a.jmp(found)
    a.and_(R9D, 0xFFFF_FFF0)
    a.mov(R8D, EAX)
    a.and_(R8D, BAR_64)
    a.jz(found)
    # The upper half is the next register; there must be one.
    a.cmp(number, PciRegister.BAR0 + 4 * (BARS - 1))
    a.j(AE, absent)
    a.add(number, 4)
    a.call(pci_read)
    a.shl(RAX, 32)
    a.or_(R9, RAX)
    a.place(found)
    a.mov(RAX, R9)
    a.test(RAX, RAX)
    with a.if_(NZ):
        a.ret()  # TEST has cleared CF
    a.place(absent)
    a.xor(EAX, EAX)
    a.stc()
    a.ret()


@routine(
    inputs=[
        In(R8D, int, "device id << 16 | vendor id"),
        In(R9D, int, "another, or the same"),
        In(
            R10D,
            int,
            "how many functions to look at: 256 for each bus; more when a bridge leads on",
        ),
    ],
    outputs=[
        Out(EDI, "bus << 8 | device << 3 | function; NO_FUNCTION when there is none"),
        Out(CF, "1 = none"),
    ],
    clobbers=[RAX, RCX, RDX, R10, R11],
    calls=[pci_read],
    source="PCI Local Bus 3.0, 6.1; PCI-to-PCI Bridge 1.2, 3.2",
)
def pci_find(a: Asm, first: Reg32, second: Reg32, limit: Reg32) -> None:
    """Find the first function with one of two identities, by bus, device and function."""
    found, header = a.label("found"), R11D
    a.xor(EDI, EDI)
    with a.loop() as scan:
        with a.block() as following:
            a.xor(ECX, ECX)  # PciRegister.IDENTITY
            a.call(pci_read)
            a.cmp(EAX, first)
            a.jz(found)
            a.cmp(EAX, second)
            a.jz(found)
            a.cmp(EAX, -1)
            with a.if_(NE):
                a.mov(ECX, PciRegister.HEADER)
                a.call(pci_read)
                a.mov(header, EAX)
                a.and_(EAX, HEADER_TYPE)
                a.cmp(EAX, HEADER_BRIDGE)
                with a.if_(E):
                    a.mov(ECX, PciRegister.BUSES)
                    a.call(pci_read)
                    a.shr(EAX, 16)
                    a.movzx(EAX, AL)
                    a.inc(EAX)
                    a.shl(EAX, 8)
                    a.cmp(limit, EAX)
                    a.cmov(B, limit, EAX)
                a.test(header, MULTI_FUNCTION)
                a.leave(NZ, following)
            # Function 0 tells whether there are others; a device without it has none.
            a.test(EDI, 7)
            a.leave(NZ, following)
            a.or_(EDI, 7)
        a.inc(EDI)
        a.cmp(EDI, limit)
        a.again(B, scan)
    a.mov(EDI, NO_FUNCTION)
    a.stc()
    a.ret()
    a.place(found)
    a.clc()
    a.ret()
