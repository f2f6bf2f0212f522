"""What the server did against the protocol."""

from emulator.effects import World, model
from emulator.models.failure import shard_fail
from firmware.layouts.shard import End, FailureFlag


@model
def gateway_violate(w: World, shard: int, error: int) -> None:
    """Drop the session, close with 4000."""
    shard_fail(w, shard, End.PROTOCOL, FailureFlag.RESET_SESSION, 4000, error)
