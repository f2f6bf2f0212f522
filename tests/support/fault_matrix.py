"""The faults that a gateway can show a shard, each with what the node does about it.

One table: `tests/system/test_fault_matrix.py` runs it against a QEMU node, and the page
`firmware/docs/faults.md` holds the same rows.
"""

from __future__ import annotations

import json
from typing import Any

from emulator.simulation.peers.websocket import CONTINUATION, PING, TEXT, frame
from pxe.gateway.script import Step
from tests.support.fault import HEARTBEAT_MS, Ended, Fault

READ = 7
"""Sequence of the dispatch that only a shard that understood the fault has read."""
FOR_EVER = 1_000_000
_BEGIN_MS = 1000


def _later(do: str, **more: Any) -> Step:
    return Step(on="ready", do=do, **{"after_ms": _BEGIN_MS, **more})


def _dispatch(sequence: int | None) -> str:
    return json.dumps({"t": "SHARDFW_FAULT", "s": sequence, "op": 0, "d": {"text": "x" * 40}})


def _hello(interval: int) -> str:
    return json.dumps({"op": 10, "d": {"heartbeat_interval": interval}, "s": None, "t": None})


def _bytes(*frames: bytes, **more: Any) -> Step:
    return _later("send_bytes", hex=b"".join(frames).hex(), **more)


_TEXT = _dispatch(READ).encode()
_RESET = Ended("network", "network", "resume", "reset")
_TO_ITS_DOOR = _later("abort")
_EVENTS = tuple(_later("dispatch", after_ms=250 * n) for n in range(1, 37))
_THREE = tuple(_later("dispatch", after_ms=100 + n) for n in range(3))


def _closed(code: int, following: str, *, kind: str = "closed") -> dict[str, Any]:
    return {
        "steps": (_later("kick", code=code),),
        "ends": (Ended("closed", kind, following, "peer_closed"),),
        "code": code,
        "identifies": 1 + (following == "identify"),
        "resumes": int(following == "resume"),
    }


def _refused(site: str) -> dict[str, Any]:
    """A failure of the Gateway protocol ends the session once."""
    return {"ends": (Ended("protocol", "protocol", "identify", site),), "identifies": 2}


def _bad_frame(site: str) -> dict[str, Any]:
    """A failure of the WebSocket layer says nothing about the session."""
    return {"ends": (Ended("protocol", "protocol", "resume", site),), "resumes": 1}


def _at_the_door(*ends: Ended, **more: Any) -> dict[str, Any]:
    return {"ends": (_RESET, *ends), "resumes": 1, **more}


FAULTS: tuple[Fault, ...] = (
    Fault(
        "no Hello",
        "gives up after 10 s and resumes",
        "2 of 4 hang, 2 wait 60 s",
        (_TO_ITS_DOOR, Step(on="connect", do="nothing", instead=True)),
        **_at_the_door(Ended("timeout", "ConnectionTimeoutError", "resume", "hello_timeout")),
    ),
    Fault(
        "op 7 before Hello, twice",
        "closes with 4000 and resumes, each time after its delay",
        "1 of 4 identifies three times on one connection",
        (_TO_ITS_DOOR, Step(on="connect", do="reconnect", instead=True, times=2)),
        **_at_the_door(*[Ended("reconnectRequested", "closed", "resume", "reconnect")] * 2),
    ),
    Fault(
        "op 9 true before Hello, twice",
        "keeps the session and resumes",
        "1 of 4 dies, 1 identifies early",
        (
            _TO_ITS_DOOR,
            Step(on="connect", do="invalidate", resumable=True, instead=True, times=2),
        ),
        **_at_the_door(*[Ended("invalidSession", "closed", "resume", "session_invalid")] * 2),
    ),
    Fault(
        "close 1000 before Hello, for ever",
        "dials again and again with growing random delays and keeps the session",
        "3 to 18,408 dials in 14 s",
        (_TO_ITS_DOOR, Step(on="connect", do="kick", code=1000, instead=True, times=FOR_EVER)),
        ends=(_RESET, Ended("closed", "closed", "resume", "peer_closed")),
        code=1000,
        repeats=True,
        state="",
    ),
    Fault(
        "Hello twice",
        "a protocol failure: closes with 4000 and starts a new session",
        "2 of 4 beat twice from then on",
        (_TO_ITS_DOOR, Step(on="connect", do="send_raw", text=_hello(HEARTBEAT_MS))),
        ends=(_RESET, Ended("protocol", "protocol", "identify", "second_hello")),
        identifies=2,
        resumes=1,
    ),
    Fault(
        "op 9 false to every Identify",
        "identifies again, never sooner than the required wait and its permit allow",
        "5 to 8 Identifies in 30 s",
        (Step(on="identify", do="invalidate", instead=True, times=FOR_EVER),),
        ends=(Ended("invalidSession", "closed", "identify", "session_invalid"),),
        identifies=0,
        repeats=True,
        state="",
    ),
    Fault(
        "op 9 true",
        "closes with 4000 and resumes on a new connection",
        "1 of 4 resumes on the same connection at once",
        (_later("invalidate", resumable=True),),
        ends=(Ended("invalidSession", "closed", "resume", "session_invalid"),),
        resumes=1,
    ),
    Fault(
        "op 7",
        "closes with 4000 and resumes",
        "all resume",
        (_later("reconnect"),),
        ends=(Ended("reconnectRequested", "closed", "resume", "reconnect"),),
        resumes=1,
    ),
    Fault("close 1000", "resumes", "1 of 4 drops the session", **_closed(1000, "resume")),
    Fault("close without a code", "resumes", "not measured", **_closed(1005, "resume")),
    Fault(
        "close 4007",
        "starts a new session",
        "2 of 4 resume with the same sequence for ever",
        **_closed(4007, "identify"),
    ),
    Fault(
        "close 4008",
        "waits at least 5 s, then resumes",
        "2 of 4 resume at once",
        **_closed(4008, "resume", kind="RateLimitError"),
    ),
    Fault(
        "close 4009",
        "starts a new session",
        "3 of 4 resume, 1 identifies without pace",
        **_closed(4009, "identify"),
    ),
    Fault(
        "close 4003",
        "starts a new session",
        "1 of 4 stops, 1 identifies without pace",
        **_closed(4003, "identify"),
    ),
    Fault(
        "close 4004",
        "stops this shard alone: AuthenticationError, no further attempt",
        "1 of 4 stays idle, 1 dies",
        **_closed(4004, "", kind="AuthenticationError") | {"state": "FATAL"},
    ),
    Fault(
        "no ACK, silence",
        "closes with 4000 one interval after the beat and resumes",
        "1 of 4 does not notice in 30 s",
        (Step(on="heartbeat", do="stall"),),
        ends=(Ended("heartbeatTimeout", "network", "resume", "zombie"),),
        resumes=1,
    ),
    Fault(
        "no ACK while events flow",
        "closes with 4000 one interval after the beat and resumes: events are no ACK",
        "2 of 4 keep the connection",
        (*_EVENTS, Step(on="heartbeat", do="nothing", instead=True)),
        ends=(Ended("heartbeatTimeout", "network", "resume", "zombie"),),
        resumes=1,
    ),
    Fault(
        "RST instead of an ACK",
        "resumes",
        "all resume",
        (Step(on="heartbeat", do="abort", instead=True),),
        ends=(_RESET,),
        resumes=1,
    ),
    Fault(
        "resume host refuses",
        "dials the base host next, with the same session",
        "2 of 4 never do, 2 drop the session",
        (_TO_ITS_DOOR,),
        url="ws://10.0.2.2:1",
        **_at_the_door(Ended("network", "network", "resume", "refused")),
    ),
    Fault(
        "resume host answers 503",
        "dials the base host next, with the same session",
        "2 of 4 never do, 2 drop the session",
        (_TO_ITS_DOOR,),
        upgrade=503,
        **_at_the_door(Ended("network", "network", "resume", "upgrade_refused")),
    ),
    Fault(
        "Resume unanswered while ACKs come",
        "gives up after 20 s; after the third starts a new session",
        "all 4 hang",
        (_TO_ITS_DOOR, Step(on="resume", do="nothing", instead=True, times=3)),
        ends=(
            _RESET,
            *[Ended("timeout", "ConnectionTimeoutError", "resume", "resume_timeout")] * 2,
            Ended("timeout", "ConnectionTimeoutError", "identify", "resume_timeout"),
        ),
        identifies=2,
    ),
    Fault(
        "replay below the resumed sequence",
        "ignores it with a warning and is READY with the highest sequence",
        "all end right",
        (*_THREE, _TO_ITS_DOOR, Step(on="resume", do="send_raw", text=_dispatch(2))),
        **_at_the_door(),
        sequence=4,
    ),
    Fault(
        "FIN without a close frame",
        "resumes",
        "all resume, 1 at once",
        (_later("hang_up"),),
        ends=(Ended("network", "network", "resume", "end_of_stream"),),
        resumes=1,
    ),
    Fault("RST", "resumes", "all resume, 1 at once", (_TO_ITS_DOOR,), ends=(_RESET,), resumes=1),
    Fault(
        "fragments with a ping between",
        "reads the message",
        "all read it",
        (
            _bytes(
                frame(TEXT, _TEXT[:20], fin=False),
                frame(PING, b"between"),
                frame(CONTINUATION, _TEXT[20:]),
            ),
        ),
        sequence=READ,
    ),
    Fault(
        "ping without FIN",
        "a protocol failure: closes with 1002 and resumes",
        "1 of 4 drops the session",
        (_bytes(frame(PING, b"half", fin=False)),),
        **_bad_frame("control_fragmented"),
    ),
    Fault(
        "RSV1",
        "a protocol failure: closes with 1002 and resumes",
        "1 of 4 drops the session",
        (_bytes(frame(TEXT, _TEXT, rsv=4)),),
        **_bad_frame("reserved_bits"),
    ),
    Fault(
        "broken JSON",
        "a protocol failure: closes with 4000 and starts a new session",
        "3 of 4 end their process",
        (_later("send_raw", text='{"op":0,'),),
        **_refused("incomplete"),
    ),
    Fault(
        "dispatch with s null",
        "a protocol failure: closes with 4000 and starts a new session",
        "1 of 4 loses its sequence",
        (_later("send_raw", text=_dispatch(None)),),
        **_refused("sequence_form"),
    ),
    Fault(
        "sequence goes back",
        "a protocol failure: closes with 4000 and starts a new session",
        "3 of 4 take the lower one",
        (*_THREE, _later("send_raw", text=_dispatch(2))),
        **_refused("sequence_back"),
    ),
    Fault(
        "READY without a resume URL",
        "says so and resumes at the base host",
        "2 of 4 end their process",
        (_TO_ITS_DOOR,),
        url="",
        ends=(_RESET,),
        resumes=1,
    ),
    Fault(
        "op 1 five times",
        "answers each; its own schedule stays",
        "all answer five times",
        tuple(_later("request_heartbeat") for _ in range(5)),
    ),
    Fault(
        "bytes one by one",
        "reads the message",
        "all read it",
        (_bytes(frame(TEXT, _TEXT), one_by_one=True),),
        sequence=READ,
    ),
    *(
        Fault(
            f"heartbeat interval {interval} ms",
            "a protocol failure: closes with 4000 and starts a new session",
            seen,
            (_TO_ITS_DOOR, Step(on="connect", do="send_raw", text=_hello(interval), instead=True)),
            ends=(_RESET, Ended("protocol", "protocol", "identify", "hello_interval")),
            identifies=2,
        )
        for interval, seen in (
            (0, "9,652 beats in 3 s, an endless loop, a false alarm"),
            (-1, "10,829 beats in 3 s, 100 reconnects"),
            (1, "1,974 beats in 3 s, an endless loop"),
        )
    ),
    Fault(
        "op 12",
        "counts an opcode that it does not know and stays",
        "not measured",
        (_later("send_raw", text='{"op":12,"d":{"code":"X","message":"y"}}'),),
    ),
)
QUIET = len(FAULTS)
"""The shard that no fault befalls."""
SHARDS = QUIET + 1


def table() -> list[str]:
    """Return the rows of the page, header included."""
    rows = [f"| {fault.name} | {fault.does} | {fault.peers} |" for fault in FAULTS]
    return ["| fault | this node | four client libraries |", "|---|---|---|", *rows]
