"""The sections of `node.toml` that say how a shard starts, recovers and gives up (seed B)."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from toolchain.config.endpoint import refuse
from toolchain.config.section import Section

MAX_MS = 2_147_483_647
MAX_SCHEDULE = 16
DelayMs = Annotated[int, Field(ge=0, le=MAX_MS)]


class PlanConfig(Section):
    """`[plan]`: how the shards present themselves."""

    identify_shards: bool = Field(True, description="true, or false to send no shard pair")
    auto: bool = Field(
        False, description="true to move to a larger total when the service asks for one, or false"
    )

    # [shards] says which shards these are.


class StartupConfig(Section):
    """`[startup]`: what a shard may use up before its first READY."""

    timeout_ms: int = Field(
        30_000, ge=1, le=MAX_MS, description="milliseconds for all shards of the node together"
    )
    max_attempts: int = Field(
        3, ge=1, le=1_000_000, description="how often a shard tries before its first READY"
    )
    min_delay_ms: int = Field(
        1_000, ge=100, le=MAX_MS, description="the longest delay after the first attempt"
    )
    max_delay_ms: int = Field(
        30_000, ge=100, le=MAX_MS, description="the longest delay at all, at least min_delay_ms"
    )
    on_limit: Literal["retry", "fatal"] = Field(
        "retry",
        description='"retry" to report it and go on with [backoff], or "fatal" to stop the shard',
    )

    @model_validator(mode="after")
    def _is_ordered(self) -> Self:
        _check_order(self)
        return self


class BackoffConfig(Section):
    """`[backoff]`: how long a failed shard waits, and when it stops trying."""

    policy: Literal["fixed", "jittered", "schedule"] = Field(
        "jittered", description='"jittered", "fixed" (always 5000 ms) or "schedule"'
    )
    min_delay_ms: int = Field(
        1_000, ge=100, le=MAX_MS, description="the longest delay of the first recovery"
    )
    max_delay_ms: int = Field(
        30_000, ge=100, le=MAX_MS, description="the longest delay at all, at least min_delay_ms"
    )
    schedule_ms: list[DelayMs] = Field(
        [], description="the delays of the schedule in milliseconds, such as [0, 1000, 5000]"
    )
    attempt_timeout_ms: int = Field(
        30_000, ge=1_000, le=MAX_MS, description="milliseconds for one attempt to recover"
    )
    healthy_reset_ms: int = Field(
        60_000, ge=1_000, le=MAX_MS, description="READY this long starts the delays again"
    )
    protocol_failures: int = Field(
        3, ge=1, le=255, description="after how many anomalies in a row a shard stops"
    )

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if len(self.schedule_ms) > MAX_SCHEDULE:
            raise refuse(
                f"{len(self.schedule_ms)} delays. The node holds {MAX_SCHEDULE}; write fewer",
                "schedule_ms",
            )
        if self.policy == "schedule" and not self.schedule_ms:
            raise refuse(
                "a schedule without delays. Write schedule_ms = [0, 1000, 5000] or the like",
                "policy",
            )
        if self.policy != "schedule" and self.schedule_ms:
            raise refuse(
                'the policy is not "schedule". Write policy = "schedule", or leave this key out',
                "schedule_ms",
            )
        _check_order(self)
        return self


class SessionsConfig(Section):
    """`[sessions]`: who keeps sessions while the node is off."""

    provider: Literal["none", "host"] = Field("none", description='"none" or "host"')
    load_timeout_ms: int = Field(
        5_000,
        ge=0,
        le=MAX_MS,
        description="milliseconds that a shard waits for a saved session, 0 when none comes",
    )


class DispatchConfig(Section):
    """`[dispatch]`: what happens to events."""

    on_malformed: Literal["skip", "terminate"] = Field(
        "skip",
        description='"skip" to count and warn, or "terminate" to stop the shard',
    )


def _check_order(section: StartupConfig | BackoffConfig) -> None:
    """Refuse a largest delay below the smallest."""
    if section.max_delay_ms < section.min_delay_ms:
        raise refuse(
            f"{section.max_delay_ms} is less than min_delay_ms, {section.min_delay_ms}. Write at "
            "least that",
            "max_delay_ms",
        )
