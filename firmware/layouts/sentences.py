"""What the log tells people: one table of sentences for what happened and what comes next.

Values are members of the enums or numbers of the evidence; `firmware/layouts/log.py` puts the parts
together. No part ever holds a token, a session id or a payload.
"""

from __future__ import annotations

from collections.abc import Mapping

from firmware.layouts.closes import MEANINGS
from firmware.layouts.refusal import PlanRefusal
from firmware.layouts.shard import Classification, End, Gap, NextStep, Phase, Stop, Then
from firmware.layouts.tls_sites import REFUSALS, SITES_MAX

Texts = Mapping[int, str]

REASONS: Texts = {
    End.NONE: "none",
    End.CLOSED: "closed",
    End.HEARTBEAT_TIMEOUT: "heartbeatTimeout",
    End.RECONNECT_REQUESTED: "reconnectRequested",
    End.INVALID_SESSION: "invalidSession",
    End.PROTOCOL: "protocol",
    End.NETWORK: "network",
    End.TIMEOUT: "timeout",
    End.SEND_FAILED: "sendFailed",
    End.TCP_FAILED: "network",
    End.TLS_FAILED: "network",
    End.LEASE_EXPIRED: "leaseExpired",
    End.DEFECT: "defect",
    End.CONFIG: "config",
    End.CHALLENGED: "challenged",
}
"""`reason=` of a record: seed B's name of an end; `challenged` is ours."""

CLASSIFICATIONS: Texts = {
    Classification.NONE: "none",
    Classification.NETWORK: "network",
    Classification.PROTOCOL: "protocol",
    Classification.CLOSED: "closed",
    Classification.AUTHENTICATION: "AuthenticationError",
    Classification.RATE_LIMIT: "RateLimitError",
    Classification.TIMEOUT: "ConnectionTimeoutError",
    Classification.LEASE: "leaseExpired",
    Classification.DEFECT: "defect",
}
"""`classification=` of a record: the connection error's kind, or the error's name."""

NEXT: Texts = {NextStep.NONE: "none", NextStep.RESUME: "resume", NextStep.IDENTIFY: "identify"}
MODES: Texts = {0: "identify", 1: "resume"}
PHASES: Texts = {0: "startup", 1: "recovery"}
LOST: Texts = {0: "could not connect", 1: "lost its connection"}

HAPPENED: Texts = {
    End.CLOSED: "The gateway closed the connection",
    End.HEARTBEAT_TIMEOUT: "The gateway did not acknowledge a heartbeat in time",
    End.RECONNECT_REQUESTED: "The gateway asked for a reconnect",
    End.INVALID_SESSION: "The gateway invalidated the session",
    End.PROTOCOL: "The gateway sent data that the node cannot accept",
    End.NETWORK: "The gateway connection failed",
    End.TIMEOUT: "The connection attempt did not finish in time",
    End.SEND_FAILED: "A message could not be sent",
    End.TCP_FAILED: "The gateway connection failed in TCP",
    End.TLS_FAILED: "The gateway connection failed in TLS",
    End.LEASE_EXPIRED: "The lease ran out",
    End.DEFECT: "The node's own code failed",
    End.CONFIG: "The gateway refused the configuration",
    End.CHALLENGED: "Cloudflare answered with a challenge for browsers",
}
STAGES: Texts = {
    Phase.NONE: "",
    Phase.RESOLVE: " while its address was sought",
    Phase.TCP: " while it was opened",
    Phase.TLS: " while TLS was set up",
    Phase.WS: " at the WebSocket upgrade",
    Phase.HELLO: " before Hello",
    Phase.PERMIT: " while it waited to identify",
    Phase.IDENT: " after Identify",
    Phase.REPLAY: " after Resume",
}
STATUSES: Texts = {
    0: "",
    401: " (HTTP 401: not authorised)",
    403: " (HTTP 403: forbidden)",
    404: " (HTTP 404: not found)",
    429: " (HTTP 429: too many requests)",
    500: " (HTTP 500: server error)",
    502: " (HTTP 502: bad gateway)",
    503: " (HTTP 503: unavailable)",
}
OTHER_STATUS = " with HTTP status "
TLS_BECAUSE: Texts = dict.fromkeys(range(SITES_MAX), "") | {
    site.number: f": {site.meaning.partition('; detail')[0].partition(' detail')[0]}"
    for site in REFUSALS
}
"""Behind the stage: what was wrong in TLS."""
CLOSES: Texts = {0: ""} | {
    code: f" with code {code} ({meaning})" for code, meaning in MEANINGS.items()
}
OTHER_CLOSE = " with code "

COMES_NEXT: Texts = {
    Then.NOTHING: "It waits for a clock, now ",
    Then.RESUME: "It resumes its session in ",
    Then.IDENTIFY: "It starts a new session in ",
    Then.WAIT_RESUME: "It resumes its session after the wait that the gateway requires, ",
    Then.WAIT_IDENTIFY: "It starts a new session after the wait that the gateway requires, ",
}
ENDS: Texts = {
    Stop.NONE: "It tries again",
    Stop.REFUSED: "The node does not retry this failure",
    Stop.AUTH: "The node does not retry: check the token and build again",
    Stop.CONFIG: "The node does not retry: check [gateway], [shards] and intents and build again",
    Stop.RESHARD: "The node does not retry: the bot needs a plan with more shards",
    Stop.PROTOCOL_LIMIT: (
        "The node stops retrying: too many connections in a row ended with invalid gateway data"
    ),
    Stop.STARTUP_ATTEMPTS: (
        "The node stops retrying: the attempts of [startup] max_attempts are used within its budget"
    ),
    Stop.STARTUP_DEADLINE: "The startup deadline",
    Stop.SCHEDULE_ENDED: "The node stops retrying: the recovery schedule ended",
    Stop.DEFECT: "The node does not retry what failed by its own fault",
}
REFUSED_BECAUSE: Texts = {
    PlanRefusal.NONE: "",
    PlanRefusal.OUT_OF_BOUNDS: "; one node cannot hold so many",
    PlanRefusal.TOO_MANY_MOVES: "; it moved thrice in an hour",
    PlanRefusal.STILL_MOVING: "; the last move still goes on",
    PlanRefusal.STOPPING: "; it stops",
    PlanRefusal.NO_CLOCK: "; it has no clock",
    PlanRefusal.NOT_THE_WHOLE_PLAN: "; other nodes hold shards, too",
    PlanRefusal.NOT_AUTOMATIC: "; [plan] auto is off",
    PlanRefusal.FLEET: "; the fleet's plan decides",
}
"""Behind the end of a shard that the service refuses: why the node does not move by itself."""
BUDGET: Texts = {0: ""}
OTHER_BUDGET = " of "
"""Between an end and its rest: the startup's budget, when its limit was met."""
ENDS_REST: Texts = {int(stop): "" for stop in Stop} | {
    Stop.STARTUP_ATTEMPTS: " ms",
    Stop.STARTUP_DEADLINE: " ms leaves no time for another attempt",
}
GAPS: Texts = {
    Gap.NONE: "none",
    Gap.REPLAYED: "replayed",
    Gap.POSSIBLE: "possible",
    Gap.PARTIAL: "possible",
}
READY_TEXT: Texts = {
    Gap.NONE: "is ready",
    Gap.REPLAYED: "resumed its session; what it missed was replayed",
    Gap.POSSIBLE: "is ready with a new session; events since the last one may be missing",
    Gap.PARTIAL: "resumed its session; the service repeats most of what it missed, not every event",
}
