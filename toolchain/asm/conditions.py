"""Condition codes under their Intel names, each with its inverse and the flags it reads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Condition:
    """A condition of jcc, setcc and cmovcc."""

    name: str
    inverse_name: str

    def inverse(self) -> Condition:
        """Return the opposite condition."""
        return BY_NAME[self.inverse_name]

    def __bool__(self) -> bool:
        raise TypeError(
            f"condition {self.name} has no truth value at build time; use `with a.if_({self.name}):`"
        )


_PAIRS = (
    ("o", "no"), ("b", "ae"), ("c", "nc"), ("nb", "b"), ("z", "nz"), ("e", "ne"),
    ("be", "a"), ("s", "ns"), ("p", "np"), ("l", "ge"), ("le", "g"),
)  # fmt: skip
BY_NAME: dict[str, Condition] = {}
for _one, _other in _PAIRS:
    BY_NAME.setdefault(_one, Condition(_one, _other))
    BY_NAME.setdefault(_other, Condition(_other, _one))

O, NO = BY_NAME["o"], BY_NAME["no"]  # noqa: E741 - the Intel names
B, AE, NB = BY_NAME["b"], BY_NAME["ae"], BY_NAME["nb"]
C, NC = BY_NAME["c"], BY_NAME["nc"]
Z, NZ, E, NE = BY_NAME["z"], BY_NAME["nz"], BY_NAME["e"], BY_NAME["ne"]
BE, A = BY_NAME["be"], BY_NAME["a"]
S, NS = BY_NAME["s"], BY_NAME["ns"]
P, NP = BY_NAME["p"], BY_NAME["np"]
L, GE, LE, G = BY_NAME["l"], BY_NAME["ge"], BY_NAME["le"], BY_NAME["g"]
