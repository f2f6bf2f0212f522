"""Identify and Resume: what they have to say to be taken, and what comes of them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pxe.gateway import bodies
from pxe.gateway.envelope import dumps
from pxe.gateway.protocol import ALL_INTENTS, PRIVILEGED_INTENTS, Opcode

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


def identify(gateway: "Gateway", connection: "Connection", body: dict[str, object]) -> None:
    """Start a session, or say why not."""
    asked = check_identify(gateway, connection, body)
    if isinstance(asked, Refusal):
        connection.close(asked.code, asked.reason)
        return
    connection.shard = asked.shard
    gateway.ownership.begin(connection)
    now = gateway.clock.now_ms()
    gateway.tell("identify", connection, intents=asked.intents)
    if _is_dropped(gateway, connection, now):
        return
    if gateway.address_gate is None and not gateway.gate.take_start(now):
        _revoke(gateway)
    elif gateway.triggered("identify", connection):
        return
    elif gateway.address_gate is None and not gateway.gate.passes(asked.shard, now):
        gateway.send_invalid(connection, resumable=False, why="identify_gate")
    else:
        _start_session(gateway, connection, asked)


def _is_dropped(gateway: "Gateway", connection: "Connection", now_ms: int) -> bool:
    """Count a handshake of an address; over the limit it gets no answer at all."""
    if gateway.address_gate is None or gateway.address_gate.passes(connection.address, now_ms):
        return False
    gateway.tell("dropped", connection, address=connection.address)
    return True


def _start_session(gateway: "Gateway", connection: "Connection", asked: Identify) -> None:
    options, shard = gateway.options, asked.shard
    if not gateway.roster.all():
        gateway.skip_load()
    session = gateway.roster.create(shard, asked.intents)
    gateway.roster.attach(session, connection)
    guilds = [bodies.guild_id(shard, options.shards, i) for i in range(options.guilds_per_shard)]
    version, pair = int(options.profile.version), (shard, options.shards)
    if options.profile.has_intents:
        ready = bodies.ready(
            version=version,
            session_id=session.id,
            resume_url=gateway.doors.resume_url(shard, connection.host),
            shard=pair,
            guilds=guilds,
        )
    else:
        ready = bodies.fluxer_ready(
            version=version, session_id=session.id, shard=pair if asked.names_shard else None
        )
    gateway.tell("ready", connection, session=session.id)
    gateway.publish(session, "READY", dumps(gateway.edited_ready(ready)))
    if options.guild_create:
        for guild in guilds:
            gateway.publish(session, "GUILD_CREATE", dumps(bodies.guild(guild)))
    gateway.triggered("ready", connection)


def resume(gateway: "Gateway", connection: "Connection", body: dict[str, object]) -> None:
    """Go on with a session and replay what the client missed, or say why not."""
    asked = check_resume(gateway, connection, body)
    if isinstance(asked, Refusal):
        connection.close(asked.code, asked.reason)
        return
    session = gateway.roster.find(asked.session_id)
    connection.shard = session.shard if session else None
    gateway.ownership.begin(connection)
    gateway.tell("resume", connection, session=asked.session_id, seq=asked.sequence)
    if _is_dropped(gateway, connection, gateway.clock.now_ms()):
        return
    if gateway.triggered("resume", connection):
        return
    profile = gateway.options.profile
    if asked.sequence < 0 and profile.beats_trim:
        connection.close(4000, "Invalid resume")
    elif session is None:
        gateway.send_invalid(connection, resumable=False, why="unknown_session")
    elif not session.acknowledged <= asked.sequence <= session.sequence:
        if session.connection is None and not profile.close_rule(4007).keeps_session:
            gateway.roster.drop(session)
        connection.close(4007)
    elif not session.can_replay_from(asked.sequence):
        gateway.roster.drop(session)
        gateway.send_invalid(connection, resumable=False, why="replay_floor")
    else:
        if session.connection is not None:
            # Only one connection carries a session; the newer one wins.
            if profile.closes_after_reconnect:
                session.connection.send_control(Opcode.RECONNECT)
            session.connection.close(4000, "Session resumed on another connection")
        replayed = gateway.roster.replay(session, connection, asked.sequence)
        gateway.tell("resumed", connection, seq=asked.sequence, replayed=replayed)
        gateway.triggered("resumed", connection)


def _revoke(gateway: "Gateway") -> None:
    # The service ends every session of a bot over its daily limit and resets the token.
    gateway.token_revoked = True
    for connection in list(gateway.connections.values()):
        connection.close(4004, "Identify limit of 24 hours exceeded: the token is revoked")
    for session in gateway.roster.all():
        gateway.roster.drop(session)
