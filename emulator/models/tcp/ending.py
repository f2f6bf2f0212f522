"""How a connection ends."""

from emulator.effects import World, model
from emulator.models.tcp.arithmetic import after, now, tcp_of
from emulator.models.tcp.emit import tcp_emit
from emulator.models.tcp.send import tcp_ack
from firmware.layouts.tcp import (
    CHALLENGE_MS,
    REFUSE_MS,
    TCP_IN,
    TCP_OUT,
    TCP_PORTS,
    TcpControl,
    TcpState,
)


@model
def tcp_fail(w: World, shard: int, error: int) -> None:
    """FAILED, with the reason."""
    tcp = tcp_of(w, shard)
    tcp.error, tcp.state = error, TcpState.FAILED


@model
def tcp_challenge(w: World, shard: int) -> None:
    """An ACK, at most one in CHALLENGE_MS."""
    tcp = tcp_of(w, shard)
    if now(w) < tcp.challenge_at:
        return
    tcp.challenge_at = after(w, CHALLENGE_MS)
    tcp_ack(w, shard)


@model
def tcp_refuse(w: World) -> None:
    """RFC 9293 3.10.7.1: <SEQ=SEG.ACK><RST>, or <SEQ=0><ACK=SEG.SEQ+SEG.LEN><RST,ACK>."""
    got, header, ports = w.g(TCP_IN), w.g(TCP_OUT), w.g(TCP_PORTS)
    if got.control & TcpControl.RST or now(w) < ports.refuse_at:
        return
    ports.refuse_at = after(w, REFUSE_MS)
    ports.refused += 1
    if got.control & TcpControl.ACK:
        header.sequence, header.acknowledgement = got.acknowledgement, 0
        header.control = TcpControl.RST
    else:
        length = got.length + sum(bool(got.control & c) for c in (TcpControl.SYN, TcpControl.FIN))
        header.sequence, header.acknowledgement = 0, got.sequence + length
        header.control = TcpControl.RST | TcpControl.ACK
    header.window, header.offset = 0, 5 << 4
    header.source, header.destination = got.destination_port, got.source_port
    tcp_emit(w, 0, got.source_ip, 0, 0)
