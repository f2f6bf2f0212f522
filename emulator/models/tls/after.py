"""Messages behind the handshake."""

from emulator.effects import World, model
from emulator.models.tls.fail import refuse
from emulator.models.tls.moves import tls_find_move
from emulator.models.tls.protect import tls_next_secret
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import Action, TlsFlag, TlsState
from firmware.layouts.tls_sites import KEY_CHANGE, KEY_UPDATE, MESSAGE, MESSAGE_FORM, RECORD_FLOOD

# NewSessionTicket (RFC 8446 4.6.1): 8 fixed bytes, then three vectors with lengths of 1, 2, 2 bytes.
_OPAQUE = {0, 2, 5, 8}
_LENGTH_ENDS = {1: 2, 4: 5, 7: 8}
_END, _BROKEN = 9, 10


@model
def tls_ticket_byte(w: World, shard: int, byte: int) -> None:
    """One byte more of a field; what is broken stays broken."""
    tls = w.view(ShardContext, shard).tls
    field, left, rest = tls.field, tls.field_left, tls.message_left
    if field >= _END:
        return
    if field in _OPAQUE:
        left -= 1
        field += left == 0
    else:
        left = left << 8 | byte
        if field not in _LENGTH_ENDS:
            field += 1
        elif (field == 4 and not left) or (field == 7 and left != rest):
            field = _BROKEN
        else:
            field = _LENGTH_ENDS[field] + (left == 0)
    tls.field, tls.field_left = field, left


@model
def tls_take_after(w: World, shard: int, content: int, length: int) -> None:
    """Headers, tickets and key updates, whatever records they come in."""
    context = w.view(ShardContext, shard)
    tls, data = context.tls, w.read(content, length)
    for at, byte in enumerate(data):
        if tls.message_have < 4:
            tls.message_have += 1
            if tls.message_have == 1:
                tls.message_type, tls.message_left = byte, 0
                continue
            tls.message_left = tls.message_left << 8 | byte
            if tls.message_have < 4:
                continue
            kind, left = tls.message_type, tls.message_left
            action, _ = tls_find_move(w, TlsState.CONNECTED, kind)
            if action not in (Action.TICKET, Action.KEY_UPDATE):
                refuse(w, shard, MESSAGE, TlsState.CONNECTED << 8 | kind)
                return
            if action == Action.TICKET:
                tls.field, tls.field_left = 0, 8
            if left == 0 or (action == Action.KEY_UPDATE and left != 1):
                refuse(w, shard, MESSAGE_FORM, kind)
                return
            continue
        tls.message_left -= 1
        if tls.message_type == 24:
            _update(w, shard, byte, last=at == length - 1)
            return
        tls_ticket_byte(w, shard, byte)
        if not tls.message_left:
            if tls.field != _END:
                refuse(w, shard, MESSAGE_FORM, 4)
                return
            tls.message_have = 0


def _update(w: World, shard: int, asked: int, *, last: bool) -> None:
    """RFC 8446 4.6.3: the keys change with the record; an answer is owed when it is asked for."""
    context = w.view(ShardContext, shard)
    tls = context.tls
    if asked > 1:
        refuse(w, shard, KEY_UPDATE)
    elif not last:
        refuse(w, shard, KEY_CHANGE, 24)
    elif tls.key_updates >= 32:
        refuse(w, shard, RECORD_FLOOD, 22)
    else:
        tls.key_updates += 1
        tls.message_have = 0
        if asked:
            tls.flags |= TlsFlag.KEY_UPDATE_OWED
        tls_next_secret(w, shard, context.tls_keys.receive.address_)
