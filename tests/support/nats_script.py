"""The same words to a real nats-server and to the simulated one, and what each says to them.

A script is a list of steps. Each step lets clients say something and collects what comes; that is
cut into messages, freed of what differs between any two runs, and sorted by subscription, because
NATS promises no order between two of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from emulator.simulation.clock import NS_PER_S, EventQueue
from emulator.simulation.nats.cluster import INSTANT, NatsCluster
from emulator.simulation.nats.server import ServerOptions
from emulator.simulation.nats.stream import StreamConfig
from pxe.nats import NatsOptions, NatsServer, NatsUser

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.simulation.nats.auth import User
    from emulator.simulation.nats.session import Session

    Says = bytes | Callable[[dict[str, Any]], bytes]
    Transcript = list[dict[str, dict[str, list[str]]]]

QUIET_S = 0.1
PATIENCE_S = 20.0
MAX_PAYLOAD = 65_536
GOODBYE = "<closed>"
ADMIN = PASSWORD = "pw"  # noqa: S105 - of users of a test
KV = {
    "name": "KV_shardfw", "subjects": ["$KV.shardfw.>"], "storage": "file", "discard": "new",
    "max_msgs_per_subject": 1, "deny_delete": True, "allow_rollup_hdrs": False,
    "allow_direct": True, "num_replicas": 1,
}  # fmt: skip
EVENTS = {
    "name": "SHARDFW_EV", "subjects": ["shardfw.*.ev.>"], "storage": "memory", "discard": "old",
    "max_age": 300 * NS_PER_S, "duplicate_window": 120 * NS_PER_S, "num_replicas": 1,
}  # fmt: skip
SIMULATED_STREAMS = (
    StreamConfig("KV_shardfw", ("$KV.shardfw.>",), per_subject=1, allow_direct=True),
    StreamConfig("SHARDFW_EV", ("shardfw.*.ev.>",), memory=True, max_age_ns=300 * NS_PER_S),
)
CONNECT = (
    b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true,"protocol":1,'
    b'"name":"n7"}\r\n'
)
HELLO = CONNECT + b"SUB _I.n7.* 1\r\nPING\r\n"


@dataclass
class Step:
    """What clients say, by name.

    Attributes:
        says: by client, bytes or what makes them of the client's INFO.
        wait_s: seconds in which something happens by itself; 0 = nothing does.
    """

    says: dict[str, Says]
    wait_s: float = 0


@dataclass
class Script:
    """A conversation.

    Attributes:
        steps: in order.
        users: who may connect.
        auth_timeout_s: for CONNECT.
    """

    steps: list[Step]
    users: tuple[User, ...] = ()
    auth_timeout_s: int = 2


@dataclass
class Heard:
    """What one client heard in one step."""

    data: bytearray = field(default_factory=bytearray)
    closed: bool = False


# -- the real one -----------------------------------------------------------------------------------
def on_real(script: Script, expected: Transcript) -> Transcript:
    """Run a script against nats-server.

    Args:
        script: what clients say.
        expected: what they should hear: a step ends once they have, and nothing follows.
    """
    return asyncio.run(_on_real(script, expected))


async def _on_real(script: Script, expected: Transcript) -> Transcript:
    users = tuple(
        NatsUser(u.user, u.password, u.nkey, _permissions(u) if u.publish is not None else None)
        for u in script.users
    )
    admin = NatsUser(ADMIN, ADMIN)
    options = NatsOptions(
        users=(*users, admin) if users else (),
        sync_always=False,
        max_payload=MAX_PAYLOAD,
    )
    server = NatsServer(options)
    timeout = script.auth_timeout_s
    rendered = server.render

    def render() -> dict[str, object]:
        config = rendered()
        login = config["authorization"]
        assert isinstance(login, dict)
        login["timeout"] = timeout
        return config

    server.render = render  # type: ignore[method-assign]
    async with server:
        await _make_streams(server)
        readers: dict[str, asyncio.StreamReader] = {}
        writers: dict[str, asyncio.StreamWriter] = {}
        infos: dict[str, dict[str, Any]] = {}
        out: Transcript = []
        for step, wanted in zip(script.steps, expected, strict=True):
            heard: dict[str, Heard] = defaultdict(Heard)
            for name, says in step.says.items():
                if name not in readers:
                    readers[name], writers[name] = await asyncio.open_connection(
                        "127.0.0.1", server.port
                    )
                    line = await readers[name].readline()
                    infos[name] = json.loads(line[5:])
                    heard[name].data += line
                writers[name].write(says if isinstance(says, bytes) else says(infos[name]))
            await asyncio.gather(
                *(_collect(readers[n], heard[n], wanted.get(n, {}), step.wait_s) for n in readers)
            )
            out.append({name: normal(each) for name, each in heard.items()})
        for writer in writers.values():
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
    return out


async def _collect(
    reader: asyncio.StreamReader, heard: Heard, wanted: dict[str, list[str]], wait_s: float
) -> None:
    """Read until a client has heard what it should, and then whether more comes."""
    patience = PATIENCE_S if wanted else wait_s
    while True:
        enough = normal(heard) == wanted and (wanted or not patience)
        try:
            data = await asyncio.wait_for(reader.read(65_536), QUIET_S if enough else patience)
        except TimeoutError:
            return
        except ConnectionError:
            data = b""
        heard.data += data
        if not data:
            heard.closed = True
            return


async def _make_streams(server: NatsServer) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b'CONNECT {"user":"pw","pass":"pw","verbose":false}\r\nSUB _A.* 1\r\n')
    for asked in (KV, EVENTS):
        text = json.dumps(asked).encode()
        subject = f"$JS.API.STREAM.CREATE.{asked['name']}"
        writer.write(f"PUB {subject} _A.x {len(text)}\r\n".encode() + text + b"\r\n")
    got = b""
    while got.count(b"did_create") < 2:
        got += await asyncio.wait_for(reader.read(65_536), 10)
    writer.close()
    await writer.wait_closed()


def _permissions(user: User) -> dict[str, object]:
    return {
        "publish": list(user.publish or ()),
        "subscribe": list(user.subscribe or ()),
        **({"allow_responses": True} if user.responses else {}),
    }


# -- the simulated one ------------------------------------------------------------------------------
def on_simulated(script: Script) -> Transcript:
    """Run a script against the simulated server, in virtual time."""
    events = EventQueue()
    options = ServerOptions(
        users=script.users,
        max_payload=MAX_PAYLOAD,
        auth_timeout_ns=script.auth_timeout_s * NS_PER_S,
    )
    cluster = NatsCluster(events, random.Random(1), servers=1, options=options, pace=INSTANT)
    for config in SIMULATED_STREAMS:
        cluster.add_stream(config)
    sessions: dict[str, Session] = {}
    heard: dict[str, Heard] = defaultdict(Heard)
    out: Transcript = []

    def join(name: str) -> Session:
        def write(data: bytes) -> None:
            heard[name].data += data

        def close() -> None:
            heard[name].closed = True

        session = cluster.servers[0].accept(write, close, close)
        session.greet()
        return session

    for step in script.steps:
        heard.clear()
        for name, says in step.says.items():
            if name not in sessions:
                sessions[name] = join(name)
            info = {"nonce": sessions[name].nonce}
            sessions[name].receive(says if isinstance(says, bytes) else says(info))
        limit_ns = events.now_ns + round((step.wait_s or QUIET_S) * NS_PER_S)
        while (due := events.next_time()) is not None and due <= limit_ns:
            events.run_next()
        events.now_ns = limit_ns
        out.append({name: normal(heard[name]) for name in sessions})
    return out


# -- what both have in common -----------------------------------------------------------------------
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
_ACK = re.compile(r"(\$JS\.ACK\.\w+\.)[\w-]+(\.\d+\.\d+\.\d+\.)\d{19}(\.\d+)")
_NAME = re.compile(r'"name":"\w{8}"')
INFO_KEYS = (
    "version", "proto", "headers", "auth_required", "tls_required", "max_payload", "jetstream",
    "nonce", "cluster", "connect_info", "remote_account", "ldm", "api_lvl", "client_ip", "port",
)  # fmt: skip
INFO_VALUES = ("version", "proto", "headers", "max_payload", "jetstream", "connect_info", "api_lvl")


def normal(heard: Heard) -> dict[str, list[str]]:
    """Return what a client heard by subscription; lines that belong to none are under ``."""
    out: dict[str, list[str]] = defaultdict(list)
    data = bytes(heard.data)
    while data:
        line, _, data = data.partition(b"\r\n")
        words = line.decode("latin-1").split(" ")
        if words[0] in ("MSG", "HMSG"):
            size = int(words[-1])
            body, data = data[:size], data[size + 2 :]
            sizes = words[-2:] if words[0] == "HMSG" else words[-1:]
            rest = words[3 : -len(sizes)]
            text = body.decode("latin-1")
            if _STAMP.search(text) or _NAME.search(text):
                sizes = ["?"]  # fractions of a second have as many digits as they need
            shown = _NAME.sub('"name":"NAME"', _STAMP.sub("DATE", text))
            reply = _ACK.sub(r"\g<1>NAME\g<2>STAMP\g<3>", " ".join(rest))
            out[words[2]].append(f"{words[0]} {words[1]} [{reply}] {' '.join(sizes)} {shown}")
        elif words[0] == "INFO":
            told = json.loads(line[5:])
            facts = {k: told[k] if k in INFO_VALUES else "" for k in INFO_KEYS if k in told}
            out[""].append(f"INFO {facts} {line[-1:]!r}")
        elif words[0] != "PING":
            out[""].append(line.decode("latin-1"))
    if heard.closed:
        out[""].append(GOODBYE)
    return dict(out)


# -- words ------------------------------------------------------------------------------------------
def pub(subject: str, body: bytes = b"", reply: str = "") -> bytes:
    """Write a PUB."""
    words = " ".join(filter(None, (subject, reply)))
    return f"PUB {words} {len(body)}\r\n".encode() + body + b"\r\n"


def hpub(subject: str, body: bytes, reply: str = "", **fields: object) -> bytes:
    """Write an HPUB; `_` in names of fields stands for `-`."""
    head = "NATS/1.0\r\n" + "".join(f"{k.replace('_', '-')}: {v}\r\n" for k, v in fields.items())
    block = head.encode() + b"\r\n"
    words = " ".join(filter(None, (subject, reply)))
    sizes = f"{len(block)} {len(block) + len(body)}"
    return f"HPUB {words} {sizes}\r\n".encode() + block + body + b"\r\n"


def cas(subject: str, expected: object, body: bytes, reply: str) -> bytes:
    """Write a compare-and-swap."""
    return hpub(subject, body, reply, Nats_Expected_Last_Subject_Sequence=expected)


def watch(deliver: str, reply: str, **changes: object) -> bytes:
    """Write the request for a consumer, as a node's watch makes it."""
    config: dict[str, object] = {
        "deliver_subject": deliver,
        "deliver_policy": "last_per_subject",
        "ack_policy": "none",
        "max_deliver": 1,
        "filter_subject": "$KV.shardfw.b1.ctl.>",
        "idle_heartbeat": 30 * NS_PER_S,
        "mem_storage": True,
        "num_replicas": 1,
        "inactive_threshold": 10 * NS_PER_S,
    }
    wanted = {key: value for key, value in (config | changes).items() if value is not None}
    body = json.dumps({"stream_name": "KV_shardfw", "config": wanted}, separators=(",", ":"))
    named = f".{wanted['name']}.$KV.shardfw.b1.ctl.>" if "name" in wanted else ""
    return pub(f"$JS.API.CONSUMER.CREATE.KV_shardfw{named}", body.encode(), reply)
