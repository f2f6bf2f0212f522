"""`shardfw send`: one payload through one shard."""

from __future__ import annotations

import json
import secrets
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import click

from firmware.layouts.control import CONTROL_FRAME, CONTROL_MOST, ControlResult, ControlVerb
from firmware.layouts.profile import PROFILES
from firmware.layouts.send import part_argument
from firmware.limits import OUTBOUND_PAYLOAD_MAX
from toolchain.cli.control import Commander, Place, RefusedError, find_place, place_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PART_BYTES = CONTROL_MOST - CONTROL_FRAME
"""Bytes of a body that one command carries."""
OP_MOST = 0xFFFF


@dataclass(frozen=True)
class Send:
    """What to send.

    Attributes:
        shard: Global shard number.
        op: Opcode.
        body: JSON text for `d`.
    """

    shard: int
    op: int
    body: bytes

    @property
    def payload_bytes(self) -> int:
        """Bytes of the payload, with its envelope."""
        return len(b'{"op":%d,"d":%b}' % (self.op, self.body))

    def parts(self, number: int) -> Iterator[tuple[int, bytes]]:
        """Cut the body into commands: argument and payload of each."""
        size = len(self.body)
        for at in range(0, max(size, 1), PART_BYTES):
            argument = part_argument(self.op, size, number, at)
            yield argument, self.body[at : at + PART_BYTES]


class SendError(RuntimeError):
    """The payload was not sent; the text begins with the name of the reason and says what to do.

    Attributes:
        name: Reason, a key of `shardfw send --json`.
        wait_ms: How long to wait before it is tried again; None where waiting is no remedy.
    """

    def __init__(self, name: str, text: str, wait_ms: int | None = None) -> None:
        super().__init__(f"{name}: {text}")
        self.name, self.wait_ms = name, wait_ms


def _opcodes() -> str:
    return "; ".join(
        f"{p.id.name.lower()} takes {', '.join(map(str, p.send_ops))}" for p in PROFILES
    )


def _not_ready(send: Send, _wait: int) -> SendError:
    return SendError(
        "not_ready",
        f"shard {send.shard} is not READY, and a payload goes out on a whole connection only. See "
        "`shardfw status`, and send it again when the shard is READY",
    )


def _rate_limited(send: Send, wait: int) -> SendError:
    return SendError(
        "rate_limited",
        f"shard {send.shard} may send opcode {send.op} again in {wait} ms. Nothing was sent; send "
        "it again then",
        wait,
    )


def _too_large(send: Send, _wait: int) -> SendError:
    over = send.payload_bytes - OUTBOUND_PAYLOAD_MAX
    return SendError(
        "too_large",
        f"the payload has {send.payload_bytes} bytes with its envelope, and the gateway takes "
        f"{OUTBOUND_PAYLOAD_MAX}. Make the body {f'{over} bytes ' if over > 0 else ''}shorter",
    )


def _bad_op(send: Send, _wait: int) -> SendError:
    return SendError(
        "bad_op",
        f"opcode {send.op} is not for applications; the service would close the connection. Use "
        f"one that the node's profile takes: {_opcodes()}",
    )


def _bad_body(_send: Send, _wait: int) -> SendError:
    return SendError(
        "bad_body",
        'the body is not one JSON object in UTF-8. Write it like {"status":"online"}, in quotes '
        "for the shell, or give - and put it on standard input",
    )


def _no_shard(send: Send, _wait: int) -> SendError:
    return SendError(
        "no_shard",
        f"the node does not hold shard {send.shard}. See `shardfw status` for those it holds",
    )


def _order(_send: Send, _wait: int) -> SendError:
    return SendError(
        "interrupted",
        "another send began while this one's body was on its way. Nothing was sent; send it again",
        0,
    )


REFUSALS: dict[int, Callable[[Send, int], SendError]] = {
    ControlResult.SEND_NOT_READY: _not_ready,
    ControlResult.SEND_RATE_LIMITED: _rate_limited,
    ControlResult.SEND_TOO_LARGE: _too_large,
    ControlResult.SEND_BAD_OP: _bad_op,
    ControlResult.SEND_BAD_BODY: _bad_body,
    ControlResult.SEND_ORDER: _order,
    ControlResult.ARGUMENT: _no_shard,
}


def submit(place: Place, send: Send) -> None:
    """Send a payload through a node.

    Raises:
        SendError: It was refused.
        CommandError: The node does not answer, or refuses the command as such.
    """
    if send.payload_bytes > OUTBOUND_PAYLOAD_MAX:
        raise _too_large(send, 0)
    number = secrets.randbits(16)
    with Commander(place) as node:
        for argument, payload in send.parts(number):
            try:
                node.send(ControlVerb.SEND, argument=argument, slot=send.shard, payload=payload)
            except RefusedError as error:
                if error.result not in REFUSALS:
                    raise
                raise REFUSALS[error.result](send, error.value) from None


def _fail(error: RuntimeError, *, as_json: bool) -> NoReturn:
    """Tell why nothing was sent, and end."""
    if as_json and isinstance(error, SendError):
        told = {"sent": False, "error": error.name, "retry_after_ms": error.wait_ms}
        click.echo(json.dumps(told | {"message": str(error)}))
        sys.exit(1)
    raise click.ClickException(str(error)) from error


@click.command(
    epilog="""\b
Examples:
  shardfw send 3 3 '{"since":null,"activities":[],"status":"online","afk":false}'
  shardfw send 0 8 - < request.json     the body from standard input
  shardfw send 0 8 - --json < request.json

\b
Opcodes: discord 3, 4, 8, 31, 43; fluxer 3, 4, 8, 14, 15, 16. The payload may have 4096 bytes with
its envelope. A refusal is named, and nothing has left then:
  not_ready      the shard is not READY
  rate_limited   the minute is full, or the server asked to wait; says how long
  too_large      more than 4096 bytes
  bad_op         no opcode of the service for applications
  bad_body       not one JSON object
  no_shard       the node does not hold the shard
  interrupted    another send began meanwhile
--json prints {"sent": true, "shard": ..., "op": ..., "bytes": ...}, or {"sent": false, "error": ...,
"retry_after_ms": ..., "message": ...} when the node refuses it.
Exit codes: 0 sent, 1 no node or refused, 2 wrong usage."""
)
@click.argument("shard", type=click.IntRange(0, 0xFFFF_FFFF))
@click.argument("op", type=click.IntRange(0, OP_MOST))
@click.argument("body", metavar="JSON")
@place_options
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
def command(
    shard: int,
    op: int,
    body: str,
    *,
    name: str,
    host: str | None,
    port: int | None,
    as_json: bool,
) -> None:
    """Send one payload: opcode OP with the object JSON as `d`, through shard SHARD.

    JSON leaves byte for byte as it is given; - reads it from standard input.
    """
    # What is no UTF-8 comes as surrogates, and goes on as the bytes that it was.
    text = sys.stdin.buffer.read() if body == "-" else body.encode(errors="surrogateescape")
    send = Send(shard, op, text)
    try:
        submit(find_place(name, host, port), send)
    except RuntimeError as error:
        _fail(error, as_json=as_json)
    if as_json:
        told = {"sent": True, "shard": shard, "op": op, "bytes": send.payload_bytes}
        click.echo(json.dumps(told))
    else:
        click.echo(f"sent {send.payload_bytes} bytes through shard {shard}")
