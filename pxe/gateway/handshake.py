"""What Identify and Resume have to say to be taken."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pxe.gateway.protocol import ALL_INTENTS, PRIVILEGED_INTENTS

if TYPE_CHECKING:
    from pxe.gateway.connection import Connection
    from pxe.gateway.core import Gateway


@dataclass(frozen=True, slots=True)
class Refusal:
    """A close code and its reason; None stands for the profile's own."""

    code: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Identify:
    """A valid Identify."""

    shard: int
    intents: int
    names_shard: bool


@dataclass(frozen=True, slots=True)
class Resume:
    """A valid Resume; whether the session exists is another question."""

    session_id: str
    sequence: int


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def check_identify(
    gateway: "Gateway", connection: "Connection", body: dict[str, object]
) -> Identify | Refusal:
    """Judge an Identify in the order in which a real server does.

    The order is a guess where several faults meet: first what cannot be decoded,
    then the token, the shard, the intents.
    """
    if connection.session is not None:
        return Refusal(4005)
    fault = _properties_fault(body.get("properties"))
    if fault:
        return Refusal(4002, fault)
    if not gateway.is_token(body.get("token")):
        return Refusal(4004)
    shard = _check_shard(body.get("shard", [0, 1]), gateway.options.shards)
    if isinstance(shard, Refusal):
        return shard
    names_shard = "shard" in body
    if not gateway.options.profile.has_intents:
        return Identify(shard, 0, names_shard)
    intents = body.get("intents")
    if not isinstance(intents, int) or isinstance(intents, bool):
        return Refusal(4013, "intents is missing or not an integer")
    if intents < 0 or intents & ~ALL_INTENTS:
        return Refusal(4013)
    if intents & PRIVILEGED_INTENTS & ~gateway.options.allowed_privileged:
        return Refusal(4014)
    return Identify(shard, intents, names_shard)


def _properties_fault(properties: object) -> str | None:
    if not isinstance(properties, dict):
        return "properties is missing or not an object"
    wrong = [k for k in ("os", "browser", "device") if not isinstance(properties.get(k), str)]
    return f"properties.{wrong[0]} is missing or not a string" if wrong else None


def _check_shard(pair: object, shards: int) -> int | Refusal:
    if not isinstance(pair, list) or len(pair) != 2 or not all(map(_is_int, pair)):
        return Refusal(4010, "shard is not [shard_id, num_shards]")
    shard, total = pair
    if not 0 <= shard < total:
        return Refusal(4010)
    if total < shards:
        return Refusal(4011, f"Sharding required: use {shards} shards")
    if total > shards:
        return Refusal(4010, f"This gateway serves {shards} shards")
    return int(shard)


def check_resume(
    gateway: "Gateway", connection: "Connection", body: dict[str, object]
) -> Resume | Refusal:
    """Judge the form of a Resume and its token."""
    if connection.session is not None:
        return Refusal(4005)
    session_id, sequence = body.get("session_id"), body.get("seq")
    if not isinstance(session_id, str):
        return Refusal(4002, "session_id is missing or not a string")
    if not isinstance(sequence, int) or isinstance(sequence, bool):
        return Refusal(4002, "seq is missing or not an integer")
    if not gateway.is_token(body.get("token")):
        return Refusal(4004)
    return Resume(session_id, sequence)
