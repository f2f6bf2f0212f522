"""Which handshake message may come now."""

from emulator.effects import World, model
from firmware.layouts.tls import MOVES, Action, HandshakeType, TlsState


@model
def tls_find_move(w: World, state: int, kind: int) -> tuple[int, int]:
    """A row of the table, or a refusal."""
    if state in TlsState._value2member_map_ and kind in HandshakeType._value2member_map_:
        move = MOVES.get((TlsState(state), HandshakeType(kind)))
        if move is not None:
            return move.action, move.next
    return Action.REFUSE, TlsState.IDLE
