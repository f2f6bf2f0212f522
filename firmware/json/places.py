"""What the parts of the envelope parser share: the parser's state, and where an action goes on."""

from firmware.layouts.json import JsonKind, JsonParser
from toolchain.asm import EDX, NZ, R12, RDX, Asm, Label

P = JsonParser.at(R12)


class Places:
    """Where an action goes on."""

    def __init__(self, a: Asm, loop: Label) -> None:
        self.loop = loop
        self.syntax, self.deep = a.label("syntax"), a.label("deep")
        self.twice, self.pop = a.label("twice"), a.label("pop")


def begin_value(a: Asm, kind: JsonKind, places: Places) -> None:
    """Note the kind of a kept value; EDX := its field, 0 = not kept."""
    a.mov(EDX, P.field)
    a.test(EDX, EDX)
    with a.if_(NZ):
        a.cmp(P.kinds.m8(index=RDX), 0)
        a.jne(places.twice)
        a.mov(P.kinds.m8(index=RDX), kind)
