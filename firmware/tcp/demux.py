"""From the bytes of a frame to the connection that they are for."""

from firmware.layouts.net import FIRST_PORT
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import (
    ADDRESS,
    HEADER_BYTES,
    PROTOCOL_TCP,
    TCP_IN,
    TCP_PORTS,
    TcpContext,
    TcpHeader,
    TcpPorts,
    TcpSegment,
    TcpState,
)
from firmware.net.checksum import checksum
from toolchain.asm import (
    AE,
    AX,
    CF,
    CX,
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
    R10,
    R10D,
    R11,
    R11D,
    RAX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    B,
    In,
    Out,
    Reg32,
    Reg64,
    Z,
    mem8,
    routine,
)


@routine(
    inputs=[
        In(RSI, int, "the segment, in the received frame"),
        In(ECX, int, "its bytes, at most 65515"),
        In(EDX, int, "source address"),
        In(R8D, int, "destination address"),
    ],
    outputs=[Out(CF, "1 = malformed or damaged")],
    clobbers=[R8, R9, R10, R11, RAX, RCX, RDI, RDX, RSI],
    reads=[TcpHeader],
    writes=[TcpSegment],
    calls=[checksum],
    source="RFC 9293 3.1",
)
def tcp_parse(a: Asm, segment: Reg64, length: Reg32, source: Reg32, destination: Reg32) -> None:
    """Check length and checksum, and put the header into TCP_IN in host byte order."""
    got, header, bytes_ = TCP_IN.it, TcpHeader.at(R9), EDI
    with a.block() as bad:
        a.cmp(length, HEADER_BYTES)
        a.leave(B, bad)
        a.mov(R9, segment)
        a.mov(R10D, length)
        a.mov(R11D, source)
        a.movzx(bytes_, header.offset)
        a.shr(bytes_, 2)
        a.and_(bytes_, 0x3C)
        a.cmp(bytes_, HEADER_BYTES)
        a.leave(B, bad)
        a.cmp(bytes_, length)
        a.leave(A, bad)
        # The pseudo-header in wire order: addresses, protocol, length.
        a.mov(EAX, source)
        a.mov(R8D, destination)
        a.add(RAX, R8)
        a.mov(EDX, length)
        a.rol(DX, 8)
        a.lea(RAX, mem8(RAX, PROTOCOL_TCP << 8, index=RDX, ref=ADDRESS))
        a.call(checksum)
        a.test(AX, AX)
        a.leave(NZ, bad)

        a.lea(RAX, mem8(R9, HEADER_BYTES, ref=ADDRESS))
        a.mov(got.options, RAX)
        a.lea(RAX, mem8(R9, index=RDI, ref=ADDRESS))
        a.mov(got.payload, RAX)
        a.sub(R10D, bytes_)
        a.mov(got.length, R10D)
        a.sub(bytes_, HEADER_BYTES)
        a.mov(got.options_length, bytes_)
        a.mov(EAX, header.sequence)
        a.bswap(EAX)
        a.mov(got.sequence, EAX)
        a.mov(EAX, header.acknowledgement)
        a.bswap(EAX)
        a.mov(got.acknowledgement, EAX)
        a.movzx(EAX, header.window)
        a.rol(AX, 8)
        a.mov(got.window, EAX)
        a.movzx(EAX, header.control)
        a.mov(got.control, EAX)
        a.mov(got.source_ip, R11D)
        a.mov(AX, header.source)
        a.rol(AX, 8)
        a.mov(got.source_port, AX)
        a.mov(AX, header.destination)
        a.rol(AX, 8)
        a.mov(got.destination_port, AX)
        a.clc()
        a.ret()
    a.stc()
    a.ret()


@routine(
    outputs=[Out(RAX, "the ShardContext that TCP_IN belongs to; 0 = none")],
    clobbers=[RCX, RDX],
    reads=[
        TcpSegment.destination_port,
        TcpSegment.source_port,
        TcpSegment.source_ip,
        TcpPorts.owner,
        TcpPorts.contexts,
        TcpContext.local_port,
        TcpContext.remote_port,
        TcpContext.remote_ip,
        TcpContext.state,
    ],
    source="RFC 9293 3.3",
)
def tcp_find(a: Asm) -> None:
    """Find the connection by its local port, then make sure that all four numbers fit."""
    got, tcp = TCP_IN.it, ShardContext.at(RAX).tcp
    with a.block() as none:
        a.movzx(ECX, got.destination_port)
        a.sub(ECX, FIRST_PORT)
        a.leave(B, none)
        a.lea(RDX, TCP_PORTS.address)
        ports = TcpPorts.at(RDX)
        a.movzx(EAX, ports.owner.m8(index=RCX))
        a.mov(RAX, ports.contexts.m64(index=RAX, scale=8))
        a.test(RAX, RAX)
        a.leave(Z, none)  # nobody took the port: it says slot 0, which never connected
        a.mov(CX, got.destination_port)
        a.cmp(CX, tcp.local_port)
        a.leave(NE, none)
        a.mov(CX, got.source_port)
        a.cmp(CX, tcp.remote_port)
        a.leave(NE, none)
        a.mov(ECX, got.source_ip)
        a.cmp(ECX, tcp.remote_ip)
        a.leave(NE, none)
        a.mov(ECX, tcp.state)
        a.dec(ECX)
        a.cmp(ECX, TcpState.FAILED - 1)
        a.leave(AE, none)  # CLOSED or FAILED
        a.ret()
    a.xor(EAX, EAX)
    a.ret()
