"""The one error of the assembler: which routine, where in the source, what is wrong, what to do."""

from __future__ import annotations


class AsmError(Exception):
    """A routine broke a rule of the assembler or of its own contract.

    Args:
        what: What is wrong, with the offending value.
        instead: What to write instead.
        routine: Name of the routine, empty outside one.
        where: `file:line` of the instruction or declaration.
    """

    def __init__(self, what: str, instead: str, *, routine: str = "", where: str = "") -> None:
        self.what, self.instead, self.routine, self.where = what, instead, routine, where
        place = ": ".join(part for part in (where, routine) if part)
        super().__init__(f"{place + ': ' if place else ''}{what}; {instead}")
