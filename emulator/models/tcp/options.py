"""Options of a SYN."""

from emulator.effects import World, model
from firmware.layouts.tcp import SCALE_MAX, SCALE_PRESENT, TcpOption


@model
def tcp_options(w: World, at: int, left: int) -> tuple[int, int, int]:
    """MSS, shift and SACK permission; the last of a kind counts, a broken option ends the list."""
    data = w.read(at, left) if left else b""
    mss = scale = sack = 0
    while data and data[0] != TcpOption.END:
        if data[0] == TcpOption.NOP:
            data = data[1:]
            continue
        if len(data) < 2 or not 2 <= data[1] <= len(data):
            break
        kind, body, data = data[0], data[2 : data[1]], data[data[1] :]
        match kind, len(body):
            case TcpOption.MSS, 2:
                mss = int.from_bytes(body, "big")
            case TcpOption.SCALE, 1:
                scale = min(body[0], SCALE_MAX) | SCALE_PRESENT
            case TcpOption.SACK_PERMITTED, 0:
                sack = 1
    return mss, scale, sack
