"""Requests on `$JS.API` that nodes make: a watch, and the newest message of a subject.

Other requests find nobody: they are answered by silence, as unknown ones are.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from emulator.simulation.clock import NS_PER_MS, NS_PER_S
from emulator.simulation.nats.consumer import Consumer, ConsumerConfig
from emulator.simulation.nats.protocol import CRLF, header_block, to_json
from emulator.simulation.nats.subjects import collide, literal

if TYPE_CHECKING:
    from emulator.simulation.nats.cluster import NatsCluster
    from emulator.simulation.nats.server import NatsServer
    from emulator.simulation.nats.stream import Message, Stream

PREFIX = "$JS.API."
CREATE, DIRECT = PREFIX + "CONSUMER.CREATE.", PREFIX + "DIRECT.GET."
RESPONSE = "io.nats.jetstream.api.v1.consumer_create_response"
INACTIVE_NS = 5 * NS_PER_S
HEARTBEAT_LEAST_NS = 100 * NS_PER_MS
ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
KNOWN = frozenset((
    "deliver_subject", "deliver_policy", "ack_policy", "max_deliver", "filter_subject",
    "idle_heartbeat", "mem_storage", "num_replicas", "inactive_threshold", "replay_policy",
    "opt_start_seq", "durable_name", "name", "description", "headers_only", "flow_control",
))  # fmt: skip
POLICIES = ("all", "last", "new", "by_start_sequence", "by_start_time", "last_per_subject")


class ApiError(Exception):
    """A request that is refused with a code of JetStream."""

    def __init__(self, err_code: int, text: str, code: int = 400) -> None:
        super().__init__(text)
        self.told = {"code": code, "err_code": err_code, "description": text}


class Api:
    """What a cluster answers."""

    def __init__(self, cluster: NatsCluster) -> None:
        self.cluster = cluster

    def request(self, server: NatsServer, subject: str, reply: str, body: bytes) -> bool:
        """Take what was published here, when it is a request; return whether anybody serves it."""
        if not subject.startswith(PREFIX):
            return False
        if subject.startswith(DIRECT):
            return self._direct(server, subject.removeprefix(DIRECT), reply, body)
        if subject.startswith(CREATE):
            self._create(server, subject.removeprefix(CREATE), reply, body)
        return True

    # -- DIRECT.GET -------------------------------------------------------------------------------
    def _direct(self, server: NatsServer, rest: str, reply: str, body: bytes) -> bool:
        name, _, subject = rest.partition(".")
        stream = self.cluster.streams.get(name)
        if stream is None or not stream.config.allow_direct:
            return False

        def answer() -> None:
            if self.cluster.alive(server):
                header, found = self._look_up(server, stream, subject, body)
                self.cluster.spread(server, reply, "", header, found)

        self.cluster.later(self.cluster.pace.work, answer)
        return True

    def _look_up(
        self, server: NatsServer, stream: Stream, subject: str, body: bytes
    ) -> tuple[bytes, bytes]:
        """Answer from what this server has, however old that is."""
        upto = server.applied[stream.config.name]
        if subject:
            seq = stream.last_of(subject, upto)
        else:
            try:
                asked: dict[str, Any] = json.loads(body or b"{}")
            except ValueError:
                return header_block("408 Malformed Request"), b""
            if not asked:
                return header_block("408 Empty Request"), b""
            newest = stream.newest(str(asked.get("last_by_subj", "")), upto)
            seq = int(asked["seq"]) if "seq" in asked else max(newest, default=0)
        message = stream.kept(seq, upto, self.cluster.events.now_ns)
        if message is None:
            return header_block("404 Message Not Found"), b""
        return self._with_place(stream, message), message.body

    def _with_place(self, stream: Stream, message: Message) -> bytes:
        place = header_block(
            Nats_Stream=stream.config.name,
            Nats_Subject=message.subject,
            Nats_Sequence=message.seq,
            Nats_Time_Stamp=_date(self.cluster.unix_ns(message.at_ns)),
        )
        if message.header is None:
            return place
        return message.header[: -len(CRLF)] + place.partition(CRLF)[2]

    # -- CONSUMER.CREATE --------------------------------------------------------------------------
    def _create(self, server: NatsServer, rest: str, reply: str, body: bytes) -> None:
        cluster = self.cluster
        able = cluster.majority()
        if server not in able:
            self._unable(server, reply)
            return

        def make() -> None:
            now_able = cluster.majority()
            if server not in now_able:
                self._unable(server, reply)
                return
            try:
                consumer, told = self._consumer(cluster.random.choice(now_able), rest, body)
            except ApiError as error:
                cluster.spread(server, reply, "", None, _response(error=error.told))
                return

            def answer() -> None:
                cluster.spread(consumer.home, reply, "", None, told)

            # Deliveries do not wait for the answer.
            cluster.later(cluster.pace.work, answer)
            consumer.interest_changed()

        cluster.later(cluster.pace.commit, make)

    def _unable(self, server: NatsServer, reply: str) -> None:
        """Refuse, when this server has understood that it was cut off; until then it says nothing."""
        cut = self.cluster.cuts.get(server.index)
        if cut is None or self.cluster.events.now_ns < cut.noticed_ns:
            return
        error = ApiError(10008, "JetStream system temporarily unavailable", 503)
        self.cluster.spread(server, reply, "", None, _response(error=error.told))

    def _consumer(self, home: NatsServer, rest: str, body: bytes) -> tuple[Consumer, bytes]:
        name, _, named = rest.partition(".")
        wanted, _, filtered = named.partition(".")
        asked = _asked(name, body)
        if filtered and asked.get("filter_subject") != filtered:
            raise ApiError(
                10131, "Consumer create request did not match filtered subject from create subject"
            )
        stream = self.cluster.streams.get(name)
        if stream is None:
            raise ApiError(10059, "stream not found", 404)
        config = _config(asked, stream, home.applied[name])
        random = self.cluster.random
        ident = wanted or "".join(random.choice(ALPHABET) for _ in range(8))
        consumer = Consumer(self.cluster, home, stream, ident, config)
        home.consumers.append(consumer)
        before = consumer.first - 1 if consumer.first else 0
        now = _date(self.cluster.unix_ns(self.cluster.events.now_ns))
        told = _response(
            stream_name=name,
            name=ident,
            created=now,
            config=({"name": wanted} if wanted else {}) | _told_config(asked, config),
            delivered={"consumer_seq": 0, "stream_seq": before},
            ack_floor={"consumer_seq": 0, "stream_seq": before},
            num_ack_pending=0,
            num_redelivered=0,
            num_waiting=0,
            num_pending=consumer.pending(),
            **({"push_bound": True} if consumer.bound else {}),
            ts=now,
        )
        return consumer, told


def _asked(name: str, body: bytes) -> dict[str, Any]:
    """Read a request.

    Raises:
        ApiError: it is none.
    """
    try:
        request = json.loads(body)
    except ValueError as error:
        raise ApiError(10025, f"invalid JSON: {error}") from None
    if request.get("stream_name") != name:
        raise ApiError(10056, "stream name in subject does not match request")
    asked: dict[str, Any] = request.get("config", {})
    unknown = [key for key in asked if key not in KNOWN]
    if unknown:
        raise ApiError(10025, f'invalid JSON: json: unknown field "{unknown[0]}"')
    if asked.get("deliver_policy", "all") not in POLICIES:
        raise ApiError(10025, f"invalid JSON: {asked['deliver_policy']!r} is no deliver policy")
    return asked


def _config(asked: dict[str, Any], stream: Stream, upto: int) -> ConsumerConfig:
    deliver, chosen = str(asked.get("deliver_subject", "")), asked.get("filter_subject", "")
    last_per_subject = asked.get("deliver_policy") == "last_per_subject"
    if asked.get("durable_name"):
        raise ApiError(
            10020, "consumer expected to be ephemeral but a durable name was set in request"
        )
    if not literal(deliver):
        raise ApiError(10079, "consumer deliver subject has wildcards")
    if any(collide(deliver, pattern) for pattern in stream.config.subjects):
        raise ApiError(10081, "consumer deliver subject forms a cycle")
    heartbeat_ns = int(asked.get("idle_heartbeat", 0))
    if 0 < heartbeat_ns < HEARTBEAT_LEAST_NS:
        raise ApiError(10083, "consumer idle heartbeat needs to be >= 100ms")
    if last_per_subject and not chosen:
        raise ApiError(
            10094,
            "consumer delivery policy is deliver last per subject, "
            "but optional filter subject is not set",
        )
    inactive_ns = int(asked.get("inactive_threshold", 0))
    return ConsumerConfig(
        deliver_subject=deliver,
        filter_subject=chosen or ">",
        last_per_subject=last_per_subject,
        start=upto + 1 if asked.get("deliver_policy") == "new" else 1,
        heartbeat_ns=heartbeat_ns,
        inactive_ns=inactive_ns if inactive_ns > 0 else INACTIVE_NS,
    )


def _told_config(asked: dict[str, Any], config: ConsumerConfig) -> dict[str, object]:
    return {
        "deliver_policy": asked.get("deliver_policy", "all"),
        "ack_policy": asked.get("ack_policy", "none"),
        "max_deliver": asked.get("max_deliver", -1),
        **({"filter_subject": asked["filter_subject"]} if asked.get("filter_subject") else {}),
        "replay_policy": "instant",
        "deliver_subject": config.deliver_subject,
        **({"idle_heartbeat": config.heartbeat_ns} if config.heartbeat_ns else {}),
        "inactive_threshold": config.inactive_ns,
        "num_replicas": asked.get("num_replicas", 0),
        **({"mem_storage": True} if asked.get("mem_storage") else {}),
        "metadata": {"_nats.level": "5", "_nats.req.level": "0", "_nats.ver": "2.15.1"},
    }


def _response(**fields: object) -> bytes:
    return to_json({"type": RESPONSE, **fields})


def _date(unix_ns: int) -> str:
    """Write a time as RFC 3339 with nanoseconds; zeros at the end are left out."""
    seconds, rest = divmod(unix_ns, NS_PER_S)
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    fraction = f".{rest:09d}".rstrip("0").rstrip(".")
    return f"{text}{fraction}Z"
