"""The retry policy with seed B's constants, and the startup of the node."""

from __future__ import annotations

import enum

from toolchain.layout import Global, Struct, u32, u64


class Policy(enum.IntEnum):
    """How a shard's delay before the next attempt is chosen."""

    FIXED = 0
    JITTERED = 1
    SCHEDULE = 2


class OnLimit(enum.IntEnum):
    """What a shard does that used up its startup attempts or the startup deadline."""

    RETRY = 0
    FATAL = 1


class OnMalformed(enum.IntEnum):
    """What a dispatch does that the node has to read and cannot."""

    SKIP = 0
    TERMINATE = 1


class SessionProvider(enum.IntEnum):
    """`ConfigBlob.session_provider`: who keeps sessions while the node is off."""

    NONE = 0
    HOST = 1
    BUS = 2
    """The store of the fleet."""


STEP_MAX = 31
"""A ceiling doubles at most this often."""
SCHEDULE_MAX = 16
RATE_LIMIT_WAIT_MS, RATE_LIMIT_REPEAT_MS, RATE_LIMIT_AGAIN_MS = 5_000, 60_000, 30_000
"""Close code 4008: the wait; within how long a second one counts as a repeat; the wait then."""
FORBIDDEN_WAIT_MS = 60_000
"""After 401 or 403 at the upgrade: services ban addresses that go on."""
RESUMABLE_INVALID_MAX = 3
"""Op 9 `true` this often in a row without READY or RESUMED counts as `false`."""


DEFAULTS = {
    "policy": Policy.JITTERED,
    "on_limit": OnLimit.RETRY,
    "protocol_failures_max": 3,
    "identify_shards": 1,
    "on_malformed": OnMalformed.SKIP,
    "min_delay_ms": 1_000,
    "max_delay_ms": 30_000,
    "attempt_timeout_ms": 30_000,
    "healthy_reset_ms": 60_000,
    "startup_timeout_ms": 30_000,
    "startup_attempts": 3,
    "startup_min_ms": 1_000,
    "startup_max_ms": 30_000,
    "session_provider": SessionProvider.NONE,
    "load_timeout_ms": 5_000,
    "plan_auto": 0,
}
"""Fields of ConfigBlob as seed B has them."""


class Startup(Struct):
    """The group start of the node's shards."""

    SIZE = 0x10
    deadline = u64(0x00, "TSC by which every shard should be READY; 0 = not begun")
    budget_ms = u32(0x08, "startup_timeout_ms and the spacing of Identifies; milliseconds")
    satisfied = u32(0x0C, "1 = every shard was READY at once since the group start")


STARTUP = Global("startup", Startup, "the group start of the node's shards")
