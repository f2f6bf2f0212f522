"""DHCP messages in: what they must look like, and the options that we read from them."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.net import (
    DHCP_COOKIE,
    DHCP_OPTIONS,
    DHCP_OPTIONS_AT,
    WIRE,
    DhcpMessage,
    DhcpOptions,
    OptionRow,
)
from firmware.layouts.node import NETWORK, Network
from toolchain.asm import (
    AL,
    AX,
    CF,
    CL,
    DIL,
    EAX,
    ECX,
    EDI,
    NE,
    NZ,
    R8,
    R8D,
    R9D,
    R9W,
    R10,
    R11D,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    B,
    E,
    In,
    Out,
    Reg32,
    Reg64,
    mem8,
    mem32,
    routine,
)
from toolchain.layout.data import constant

PAD, END = 0, 255
REPLY = 2
OVERLOAD_FILE, OVERLOAD_SNAME = 1, 2
# code, least length, where the value starts, its width, target; the order of DhcpOption.
_ROWS = (
    (53, 1, 0, 1, DhcpOptions.type),
    (52, 1, 0, 1, DhcpOptions.overload),
    (1, 4, 0, 4, DhcpOptions.netmask),
    (3, 4, 0, 4, DhcpOptions.router),
    (6, 4, 0, 4, DhcpOptions.dns1),
    (6, 8, 4, 4, DhcpOptions.dns2),
    (54, 4, 0, 4, DhcpOptions.server),
    (51, 4, 0, 4, DhcpOptions.lease),
    (58, 4, 0, 4, DhcpOptions.t1),
    (59, 4, 0, 4, DhcpOptions.t2),
)
OPTION_TABLE = constant(
    "dhcp_option_table",
    b"".join(
        bytes((code, need, at, width, f.offset, 0, 0, 0)) for code, need, at, width, f in _ROWS
    ),
    "which options are kept, and where",
    align=8,
)


@routine(
    inputs=[In(RSI, int, "a field of options"), In(ECX, int, "its bytes")],
    clobbers=CALLER_SAVED,
    reads=[WIRE, OptionRow, DhcpOptions.seen],
    writes=[DhcpOptions, WIRE],
    source="RFC 2132 section 2; RFC 3396 (parts after the first are passed over)",
)
def dhcp_options(a: Asm, options: Reg64, length: Reg32) -> None:
    """Keep what the table names; the first of each kind counts, a truncated one ends the field."""
    left, size, row, target, number = R8D, R9D, R10, RDX, R11D
    table = OptionRow.at(row)
    end = a.label("end")
    a.mov(left, length)
    with a.loop() as walk:
        a.test(left, left)
        a.jz(end)
        a.movzx(EAX, mem8(options, ref=WIRE))
        with a.block() as following:
            a.mov(size, 1)
            a.cmp(EAX, PAD)
            a.leave(E, following)
            a.cmp(EAX, END)
            a.je(end)
            # The length byte and all that it claims must lie inside the field.
            a.cmp(left, 2)
            a.jb(end)
            a.movzx(ECX, mem8(options, 1, ref=WIRE))
            a.lea(size, mem8(RCX, 2, ref=WIRE))
            a.cmp(size, left)
            a.j(A, end)

            a.lea(row, OPTION_TABLE.address)
            a.xor(number, number)
            with a.loop() as rows:
                with a.block() as next_row:
                    a.cmp(table.code, AL)
                    a.leave(NE, next_row)
                    a.cmp(table.need, CL)
                    a.leave(A, next_row)
                    a.bt(DHCP_OPTIONS.it.seen, number)
                    a.leave(B, next_row)
                    a.bts(DHCP_OPTIONS.it.seen, number)
                    a.lea(target, DHCP_OPTIONS.address)
                    a.movzx(EDI, table.target)
                    a.add(target, RDI)
                    a.movzx(EDI, table.source)
                    a.cmp(table.width, 1)
                    with a.if_(E):
                        a.mov(DIL, mem8(options, 2, ref=WIRE, index=RDI))
                        a.mov(mem8(target, ref=WIRE), DIL)
                    with a.else_():
                        a.mov(EDI, mem32(options, 2, ref=WIRE, index=RDI))
                        a.mov(mem32(target, ref=WIRE), EDI)
                a.add(row, OptionRow.SIZE)
                a.inc(number)
                a.cmp(number, len(_ROWS))
                a.again(B, rows)
        a.movzx(EAX, R9W)
        a.add(options, RAX)
        a.sub(left, size)
        a.jmp(walk.top)
    a.place(end)
    a.ret()


@routine(
    inputs=[In(RSI, DhcpMessage, "the message"), In(ECX, int, "its bytes")],
    outputs=[Out(CF, "1 = no answer of a server to us")],
    clobbers=CALLER_SAVED,
    reads=[DhcpMessage, WIRE, DhcpOptions.overload, Network.mac],
    writes=[DhcpOptions],
    calls=[dhcp_options],
    saves=[RBX],
    source="RFC 2131 sections 2 and 4.1",
)
def dhcp_parse(a: Asm, message: DhcpMessage, length: Reg32) -> None:
    """Check the fixed part and read the options: first the field for them, then file, then sname."""
    kept = DhcpMessage.at(RBX)
    with a.block() as bad:
        a.cmp(length, DHCP_OPTIONS_AT)
        a.leave(B, bad)
        # BOOTREPLY, Ethernet, six bytes of address.
        a.mov(EAX, mem32(RSI, ref=WIRE))
        a.and_(EAX, 0xFF_FFFF)
        a.cmp(EAX, 6 << 16 | 1 << 8 | REPLY)
        a.leave(NE, bad)
        a.cmp(message.cookie, DHCP_COOKIE)
        a.leave(NE, bad)
        a.mov(EAX, message.chaddr.m32())
        a.cmp(EAX, NETWORK.it.mac.m32())
        a.leave(NE, bad)
        a.mov(AX, message.chaddr.m16(4))
        a.cmp(AX, NETWORK.it.mac.m16(4))
        a.leave(NE, bad)
        a.mov(RBX, RSI)
        a.lea(RDI, DHCP_OPTIONS.address)
        a.xor(EAX, EAX)
        a.mov(R8D, ECX)
        a.mov(ECX, DhcpOptions.SIZE // 8)
        a.rep_stosq()
        a.lea(ECX, mem8(R8, -DHCP_OPTIONS_AT, ref=WIRE))
        a.add(RSI, DHCP_OPTIONS_AT)
        a.call(dhcp_options)
        a.test(DHCP_OPTIONS.it.overload, OVERLOAD_FILE)
        with a.if_(NZ):
            a.lea(RSI, kept.file.address)
            a.mov(ECX, DhcpMessage.file.size)
            a.call(dhcp_options)
        a.test(DHCP_OPTIONS.it.overload, OVERLOAD_SNAME)
        with a.if_(NZ):
            a.lea(RSI, kept.sname.address)
            a.mov(ECX, DhcpMessage.sname.size)
            a.call(dhcp_options)
        a.clc()
        a.ret()
    a.stc()
    a.ret()
