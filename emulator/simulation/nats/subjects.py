"""Subjects of NATS: tokens between dots, `*` for one of them, `>` for all that follow."""

from __future__ import annotations

from functools import lru_cache


def valid(pattern: str) -> bool:
    """Say whether a server takes a SUB for it."""
    tokens = pattern.split(".")
    return all(tokens) and not any(c.isspace() for c in pattern) and ">" not in tokens[:-1]


def literal(subject: str) -> bool:
    """Say whether a subject has no wildcard; a token that only contains one is none."""
    return not {"*", ">"} & set(subject.split("."))


@lru_cache(maxsize=1 << 14)
def matches(pattern: str, subject: str) -> bool:
    """Say whether a literal subject falls under a pattern."""
    if pattern == subject:
        return True
    wanted, given = pattern.split("."), subject.split(".")
    if wanted[-1] == ">":
        wanted = wanted[:-1]
        if len(given) <= len(wanted):
            return False
        given = given[: len(wanted)]
    return len(wanted) == len(given) and all(
        w in ("*", g) for w, g in zip(wanted, given, strict=True)
    )


def collide(one: str, other: str) -> bool:
    """Say whether some subject falls under both patterns."""
    a, b = one.split("."), other.split(".")
    for x, y in zip(a, b, strict=False):
        if ">" in (x, y):
            return True
        if x != y and "*" not in (x, y):
            return False
    return len(a) == len(b)
