"""What a routine that judges a message says of it: an error in R9D, 0 when nothing is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolchain.asm import EAX, R9D, Asm

if TYPE_CHECKING:
    from firmware.errors import Site
    from toolchain.asm import Label


class Refusals:
    """Labels of the refusals that a routine can reach; `emit` puts their code at its end.

    Args:
        a: The routine.
        detailed: Sites that come with their detail in EAX, below 65536.
        detail: Detail of every other site that has one, by site.
    """

    def __init__(
        self, a: Asm, detailed: tuple[Site, ...] = (), detail: dict[Site, int] | None = None
    ) -> None:
        self._asm, self._detailed, self._detail = a, detailed, detail or {}
        self._labels: dict[Site, Label] = {}

    def __getitem__(self, where: Site) -> Label:
        """Return the label to branch to."""
        if where not in self._labels:
            self._labels[where] = self._asm.label(where.name)
        return self._labels[where]

    def emit(self, done: Label) -> None:
        """Emit each: R9D := the error, then on to `done`."""
        a = self._asm
        for where, label in self._labels.items():
            a.place(label)
            if where in self._detailed:
                a.mov(R9D, EAX)
                a.or_(R9D, where.code)
            else:
                a.mov(R9D, where.code | self._detail.get(where, 0))
            a.jmp(done)
