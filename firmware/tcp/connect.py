"""Opening and closing from our side."""

from firmware.abi import CALLER_SAVED
from firmware.crypto.chacha20 import chacha20_block
from firmware.crypto.drbg import drbg_bytes, drbg_u64
from firmware.layouts.clock import NEVER
from firmware.layouts.crypto import CHACHA_CONSTANTS, DRBG, Drbg
from firmware.layouts.net import FIRST_PORT
from firmware.layouts.node import CLOCK, NETWORK, Clock, CoreState, Network, core
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import (
    PORTS,
    RTO_INITIAL_MS,
    TCP_ISN,
    TCP_PORTS,
    TcpContext,
    TcpControl,
    TcpFlag,
    TcpIsn,
    TcpPorts,
    TcpState,
)
from firmware.tcp.send import tcp_send, tcp_syn
from firmware.tcp.timing import tcp_arm
from toolchain.asm import (
    AX,
    CF,
    CL,
    EAX,
    ECX,
    EDX,
    ESI,
    NE,
    R8,
    R8B,
    R8D,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    B,
    E,
    In,
    Out,
    Z,
    routine,
)

KNOWN_TO_PEER = sum(
    1 << s
    for s in (TcpState.ESTABLISHED, TcpState.FIN_WAIT_1, TcpState.FIN_WAIT_2, TcpState.CLOSE_WAIT,
              TcpState.CLOSING, TcpState.LAST_ACK)
)  # fmt: skip
"""States in which the other side holds a connection, as a bit set."""
CLOCK_STEPS_LOG = 8
"""The clock of RFC 6528 ticks every 2 to 4 microseconds: a millisecond has 256 to 511 ticks."""


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    clobbers=CALLER_SAVED,
    reads=[ShardContext.slot, TcpPorts.owner, TcpPorts.contexts, TcpContext.local_port],
    writes=[TcpPorts.owner, TcpPorts.contexts, TcpContext.local_port],
    calls=[drbg_u64],
    source="RFC 6056 3.3.1",
)
def tcp_port(a: Asm, shard: ShardContext) -> None:
    """Take a random local port that no other shard of the node uses."""
    at, slot, owner, other = EAX, R8D, EDX, RSI
    a.call(drbg_u64)
    a.movzx(slot, shard.slot)
    a.lea(RDI, TCP_PORTS.address)
    ports = TcpPorts.at(RDI)
    # Others use at most SHARDS_MAX - 1 ports, so the search in a row ends.
    with a.loop() as search:
        a.and_(at, PORTS - 1)
        a.movzx(owner, ports.owner.m8(index=RAX))
        a.cmp(owner, slot)
        a.leave(E, search)
        # A port that nobody took says slot 0; a shard that went on to another left its mark behind.
        a.mov(other, ports.contexts.m64(index=RDX, scale=8))
        a.test(other, other)
        a.leave(Z, search)
        a.movzx(ECX, ShardContext.at(other).tcp.local_port)
        a.sub(ECX, FIRST_PORT)
        a.cmp(ECX, at)
        a.leave(NE, search)
        a.inc(at)
        a.jmp(search.top)
    a.mov(ports.owner.m8(index=RAX), R8B)
    a.mov(ports.contexts.m64(index=R8, scale=8), RBX)
    a.add(at, FIRST_PORT)
    a.mov(shard.tcp.local_port, AX)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    outputs=[Out(EAX, "initial sequence number")],
    clobbers=CALLER_SAVED,
    reads=[
        Clock.tsc_cycles_per_ms,
        CoreState.now,
        Network.ip,
        TcpContext.remote_ip,
        TcpContext.remote_port,
        TcpContext.local_port,
        TcpIsn.keyed,
        TcpIsn.block,
    ],
    writes=[
        TcpIsn.constants,
        TcpIsn.keyed,
        TcpIsn.local_ip,
        TcpIsn.remote_ip,
        TcpIsn.remote_port,
        TcpIsn.local_port,
    ],
    calls=[drbg_bytes, chacha20_block],
    source="RFC 6528 3",
)
def tcp_isn(a: Asm, shard: ShardContext) -> None:
    """Return a clock plus a keyed function of the addresses and ports."""
    tcp, state = shard.tcp, TCP_ISN.it
    a.cmp(state.keyed, 0)
    with a.if_(E):
        for n in range(2):  # unrolled: two quadwords of constants
            a.mov(RAX, int.from_bytes(CHACHA_CONSTANTS[8 * n : 8 * n + 8], "little"))
            a.mov(state.constants.m64(8 * n), RAX)
        a.lea(RDI, state.key.address)
        a.mov(ECX, TcpIsn.key.size)
        a.call(drbg_bytes)
        a.mov(state.keyed, 1)
    a.mov(EAX, NETWORK.it.ip)
    a.mov(state.local_ip, EAX)
    a.mov(EAX, tcp.remote_ip)
    a.mov(state.remote_ip, EAX)
    a.mov(AX, tcp.remote_port)
    a.mov(state.remote_port, AX)
    a.mov(AX, tcp.local_port)
    a.mov(state.local_port, AX)
    a.lea(RSI, TCP_ISN.address)
    a.lea(RDI, state.block.address)
    a.call(chacha20_block)
    a.bsr(RCX, CLOCK.it.tsc_cycles_per_ms)
    a.sub(ECX, CLOCK_STEPS_LOG)
    a.mov(RAX, core.now)
    a.shr(RAX, CL)
    a.add(EAX, state.block.m32(0))
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard; remote_ip and remote_port are set")],
    outputs=[Out(CF, "1 = the clock is not calibrated or nothing random can be had")],
    clobbers=CALLER_SAVED,
    reads=[Clock.tsc_cycles_per_ms, Drbg.seeded],
    writes=[TcpContext],
    calls=[tcp_port, tcp_isn, tcp_arm, tcp_syn],
    source="RFC 9293 3.10.1",
)
def tcp_connect(a: Asm, shard: ShardContext) -> None:
    """Open a connection from a fresh port; what the context held before is forgotten."""
    tcp = shard.tcp
    refused = a.label("refused")
    a.cmp(CLOCK.it.tsc_cycles_per_ms, 0)
    a.je(refused)
    a.cmp(DRBG.it.seeded, 0)
    a.je(refused)
    a.lea(RDI, tcp.flags)
    a.mov(ECX, (TcpContext.SIZE - TcpContext.flags.offset) // 8)
    a.xor(EAX, EAX)
    a.rep_stosq()
    a.mov(tcp.error, EAX)
    for deadline in (tcp.rtx_at, tcp.give_up_at, tcp.ack_at, tcp.keep_at, tcp.wait_at):  # unrolled
        a.mov(deadline, NEVER)
    a.call(tcp_port)
    a.call(tcp_isn)
    a.mov(tcp.iss, EAX)
    a.mov(tcp.snd_una, EAX)
    a.mov(tcp.snd_nxt, EAX)
    a.inc(EAX)
    a.mov(tcp.snd_max, EAX)
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, RTO_INITIAL_MS)
    a.mov(tcp.rto, RAX)
    a.mov(tcp.flags, TcpFlag.SYN_DUE)
    a.mov(tcp.state, TcpState.SYN_SENT)
    # Patience counts from here, whether or not a next hop is known yet; no answer can come before
    # the SYN, so its own start of the timer replaces this one.
    a.call(tcp_arm)
    a.mov(tcp.rtx_at, NEVER)
    a.call(tcp_syn)
    a.clc()
    a.ret()
    a.place(refused)
    a.stc()
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    clobbers=[RAX],
    reads=[TcpContext.state],
    writes=[TcpContext.state, TcpContext.flags],
    source="RFC 9293 3.10.4",
)
def tcp_close(a: Asm, shard: ShardContext) -> None:
    """Send FIN after what is queued; the next tick does it."""
    tcp = shard.tcp
    fin = a.label("fin")
    a.mov(EAX, TcpState.FIN_WAIT_1)
    a.cmp(tcp.state, TcpState.ESTABLISHED)
    a.je(fin)
    a.mov(EAX, TcpState.LAST_ACK)
    a.cmp(tcp.state, TcpState.CLOSE_WAIT)
    a.je(fin)
    a.cmp(tcp.state, TcpState.SYN_SENT)
    with a.if_(E):
        a.mov(tcp.state, TcpState.CLOSED)
    a.ret()
    a.place(fin)
    a.mov(tcp.state, EAX)
    a.or_(tcp.flags, TcpFlag.FIN_QUEUED)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    clobbers=CALLER_SAVED,
    reads=[TcpContext.state, TcpContext.snd_max],
    writes=[TcpContext.state],
    calls=[tcp_send],
    source="RFC 9293 3.10.5",
)
def tcp_abort(a: Asm, shard: ShardContext) -> None:
    """Forget the connection; tell a peer that still has it by a reset."""
    tcp = shard.tcp
    a.mov(ECX, tcp.state)
    a.mov(EAX, KNOWN_TO_PEER)
    a.bt(EAX, ECX)
    with a.if_(B):
        a.mov(EDX, tcp.snd_max)
        a.xor(ESI, ESI)
        a.xor(ECX, ECX)
        a.mov(R8D, TcpControl.RST | TcpControl.ACK)
        a.call(tcp_send)
    a.mov(tcp.state, TcpState.CLOSED)
    a.ret()
