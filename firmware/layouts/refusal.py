"""Why a move to another plan is refused."""

from __future__ import annotations

import enum


class PlanRefusal(enum.IntEnum):
    """Why a move is refused."""

    NONE = 0
    OUT_OF_BOUNDS = 1
    TOO_MANY_MOVES = 2
    STILL_MOVING = 3
    STOPPING = 4
    NO_CLOCK = 5
    NOT_THE_WHOLE_PLAN = 6
    """It was the node's own wish, but other nodes hold shards of the same total."""
    NOT_AUTOMATIC = 7
    """It was the node's own wish, but [plan] auto leaves moves to the operator."""
    FLEET = 8
    """What a node of a fleet holds is decided by leases, never by an order to it alone."""
