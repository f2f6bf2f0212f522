"""What the envelope parser does at the bytes that mean more than a change of state.

The registers are those of `firmware.json.feed`; EAX is the byte.
"""

from collections.abc import Callable

from firmware.json.grammar import Action
from firmware.json.numbers import digit, fraction, not_integer, number, number_end
from firmware.json.places import P, Places, begin_value
from firmware.json.skip import begin_skip, close_skipped, open_skipped
from firmware.json.strings import (
    begin_hex,
    begin_key,
    begin_string,
    end_hex,
    end_string,
    escaped,
    more_hex,
)
from firmware.layouts.json import JsonBody, JsonField, JsonKind, JsonState
from firmware.limits import JSON_DEPTH_MAX
from toolchain.asm import EAX, EBP, EDX, NC, NE, R14, R15D, A, Asm, C, E, Z


def _comma(a: Asm, places: Places) -> None:
    a.mov(EBP, JsonState.KEY)
    a.bt(R14, 0)
    a.j(C, places.loop)
    # The elements of `shard` are fields of their own: id, total, and what must not be.
    a.mov(EBP, JsonState.VALUE)
    a.mov(EAX, P.field)
    a.test(EAX, EAX)
    a.jz(places.loop)
    a.inc(EAX)
    a.cmp(EAX, JsonField.SHARD_MORE)
    with a.if_(A):
        a.xor(EAX, EAX)
    a.mov(P.field, EAX)
    a.jmp(places.loop)


def _push(a: Asm, places: Places) -> None:
    a.cmp(R15D, JSON_DEPTH_MAX)
    a.jae(places.deep)
    a.add(R14, R14)


def _object(a: Asm, places: Places) -> None:
    begin_value(a, JsonKind.OBJECT, places)
    _push(a, places)
    a.inc(R14)
    a.inc(R15D)
    a.cmp(R15D, 2)
    with a.if_(E):
        a.mov(EAX, JsonBody.OTHER)
        a.cmp(EDX, JsonField.D)
        with a.if_(E):
            begin_skip(a, places)
            a.mov(EAX, JsonBody.READ)
        a.mov(P.body, EAX)
    with a.else_():
        a.cmp(EDX, JsonField.USER)
        with a.if_(E):
            a.mov(P.body, JsonBody.USER)
    a.mov(P.field, JsonField.NONE)
    a.mov(EBP, JsonState.OBJECT_FIRST)
    a.jmp(places.loop)


def _array(a: Asm, places: Places) -> None:
    begin_value(a, JsonKind.ARRAY, places)
    _push(a, places)
    a.inc(R15D)
    a.xor(EAX, EAX)
    a.cmp(EDX, JsonField.SHARD)
    with a.if_(E):
        a.mov(EAX, JsonField.SHARD_ID)
    a.mov(P.field, EAX)
    a.mov(EBP, JsonState.ARRAY_FIRST)
    a.jmp(places.loop)


def _end_object(a: Asm, places: Places) -> None:
    a.shr(R14, 1)
    a.j(NC, places.syntax)
    with a.block() as other:
        a.cmp(P.body, JsonBody.USER)
        a.leave(NE, other)
        a.cmp(R15D, 3)
        a.leave(NE, other)
        a.mov(P.body, JsonBody.READ)
    a.place(places.pop)
    a.mov(EBP, JsonState.AFTER)
    a.dec(R15D)
    with a.if_(Z):
        a.mov(EBP, JsonState.END)
    a.jmp(places.loop)


def _end_array(a: Asm, places: Places) -> None:
    a.shr(R14, 1)
    a.j(C, places.syntax)
    a.jmp(places.pop)


def _literal(kind: JsonKind, state: JsonState) -> Callable[[Asm, Places], None]:
    def emit(a: Asm, places: Places) -> None:
        begin_value(a, kind, places)
        a.mov(EBP, state)
        a.jmp(places.loop)

    return emit


HANDLERS: tuple[tuple[Action, Callable[[Asm, Places], None]], ...] = (
    (Action.QUOTE, end_string),
    (Action.KEY, begin_key),
    (Action.STRING, begin_string),
    (Action.COMMA, _comma),
    (Action.DIGIT, digit),
    (Action.NUMBER, number),
    (Action.NUMBER_END, number_end),
    (Action.END_OBJECT, _end_object),
    (Action.OBJECT, _object),
    (Action.ESCAPED, escaped),
    (Action.TRUE, _literal(JsonKind.TRUE, JsonState.TRUE_R)),
    (Action.FALSE, _literal(JsonKind.FALSE, JsonState.FALSE_A)),
    (Action.NULL, _literal(JsonKind.NULL, JsonState.NULL_U)),
    (Action.ARRAY, _array),
    (Action.END_ARRAY, _end_array),
    (Action.HEX, more_hex),
    (Action.UNICODE, begin_hex),
    (Action.HEX_LAST, end_hex),
    (Action.NOT_INTEGER, not_integer),
    (Action.FRACTION, fraction),
    (Action.OPEN, open_skipped),
    (Action.CLOSE, close_skipped),
)
