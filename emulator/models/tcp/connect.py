"""Opening and closing from our side."""

from emulator.effects import World, model
from emulator.models.crypto.chacha20 import chacha20_block
from emulator.models.crypto.drbg import drbg_bytes, drbg_u64
from emulator.models.tcp.arithmetic import SPACE, cycles, now, tcp_of
from emulator.models.tcp.send import tcp_send, tcp_syn
from emulator.models.tcp.timing import tcp_arm
from firmware.layouts.clock import NEVER
from firmware.layouts.crypto import CHACHA_CONSTANTS, DRBG
from firmware.layouts.net import FIRST_PORT
from firmware.layouts.node import CLOCK, NETWORK
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
    TcpState,
)


@model
def tcp_port(w: World, shard: int) -> None:
    """The first port from a random one on that no other shard uses now."""
    ports, context = w.g(TCP_PORTS), w.view(ShardContext, shard)
    at = drbg_u64(w) % PORTS
    while _taken_by_another(w, at, context.slot):
        at = (at + 1) % PORTS
    ports.owner[at] = context.slot
    ports.contexts[8 * context.slot : 8 * context.slot + 8] = shard.to_bytes(8, "little")
    context.tcp.local_port = FIRST_PORT + at


def _taken_by_another(w: World, at: int, slot: int) -> bool:
    ports = w.g(TCP_PORTS)
    owner = ports.owner[at]
    other = int.from_bytes(ports.contexts[8 * owner : 8 * owner + 8], "little")
    if owner == slot or not other:
        return False
    return bool(tcp_of(w, other).local_port == FIRST_PORT + at)


@model
def tcp_isn(w: World, shard: int) -> int:
    """RFC 6528: ISN = M + F(localip, localport, remoteip, remoteport, secret)."""
    tcp, state = tcp_of(w, shard), w.g(TCP_ISN)
    if not state.keyed:
        state.constants[0:16] = CHACHA_CONSTANTS
        drbg_bytes(w, state.key.address, TcpIsn.key.size)
        state.keyed = 1
    state.local_ip, state.remote_ip = w.g(NETWORK).ip, tcp.remote_ip
    state.remote_port, state.local_port = tcp.remote_port, tcp.local_port
    chacha20_block(w, state.address_, state.block.address)
    function = int.from_bytes(state.block[0:4], "little")
    # M: the largest power of two of cycles that is at most 1/256 ms.
    step = (w.g(CLOCK).tsc_cycles_per_ms.bit_length() - 1 - 8) % 64
    return int(function + (now(w) >> step)) % SPACE


@model
def tcp_connect(w: World, shard: int) -> int:
    """A fresh control block, port and number; then the SYN."""
    tcp = tcp_of(w, shard)
    if not w.g(CLOCK).tsc_cycles_per_ms or not w.g(DRBG).seeded:
        return 1
    kept = TcpContext.flags.offset
    w.write(tcp.address_ + kept, bytes(TcpContext.SIZE - kept))
    tcp.error = 0
    tcp.rtx_at = tcp.give_up_at = tcp.ack_at = tcp.keep_at = tcp.wait_at = NEVER
    tcp_port(w, shard)
    tcp.iss = tcp.snd_una = tcp.snd_nxt = tcp_isn(w, shard)
    tcp.snd_max = tcp.iss + 1
    tcp.rto = cycles(w, RTO_INITIAL_MS)
    tcp.flags, tcp.state = TcpFlag.SYN_DUE, TcpState.SYN_SENT
    tcp_arm(w, shard)
    tcp.rtx_at = NEVER
    tcp_syn(w, shard)
    return 0


@model
def tcp_close(w: World, shard: int) -> None:
    """RFC 9293 3.10.4."""
    tcp = tcp_of(w, shard)
    match tcp.state:
        case TcpState.SYN_SENT:
            tcp.state = TcpState.CLOSED
        case TcpState.ESTABLISHED | TcpState.CLOSE_WAIT as state:
            open_ = state == TcpState.ESTABLISHED
            tcp.state = TcpState.FIN_WAIT_1 if open_ else TcpState.LAST_ACK
            tcp.flags |= TcpFlag.FIN_QUEUED


@model
def tcp_abort(w: World, shard: int) -> None:
    """RFC 9293 3.10.5: a reset for a peer that has the connection."""
    tcp = tcp_of(w, shard)
    silent = TcpState.CLOSED, TcpState.SYN_SENT, TcpState.TIME_WAIT, TcpState.FAILED
    if tcp.state not in silent:
        tcp_send(w, shard, tcp.snd_max, 0, 0, TcpControl.RST | TcpControl.ACK)
    tcp.state = TcpState.CLOSED
