"""Command a node: authenticated datagrams, repeated until one answer comes, carried out once.

    with Commander(find_place(name, host, port)) as node:
        reply = node.send(ControlVerb.LEASE_ARM, argument=60_000)

firmware/docs/control.md describes the datagrams.
"""

from __future__ import annotations

import hmac
import os
import socket
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, TypeVar

import click

from firmware.layouts.control import (
    CONTROL_FRAME,
    CONTROL_LEAST,
    CONTROL_MOST,
    CONTROL_REPLY_FRAME,
    CONTROL_REPLY_MAGIC,
    CONTROL_REQUEST_MAGIC,
    CONTROL_TAG_BYTES,
    CONTROL_VERSION,
    ControlReply,
    ControlRequest,
    ControlResult,
    ControlVerb,
)
from toolchain.cli.runtime import DEFAULT_NAME
from toolchain.cli.runtime import ask as ask_runner
from toolchain.config.control_key import KEY_ENV, parse_control_key
from toolchain.layout.pack import pack, unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

F = TypeVar("F", bound="Callable[..., Any]")
DEFAULT_PORT = 4747
REPEAT_S = 0.25
"""Wait for an answer before the same datagram is sent again; seconds."""
DEFAULT_TIMEOUT_S = 5.0
ATTEMPTS = 4
"""New datagrams for one command: to learn the boot's nonce, and to get past other operators."""


class CommandError(RuntimeError):
    """A command was not carried out, or nobody knows; the text says what to do."""


class NoReplyError(CommandError):
    """Nothing authentic came back."""


class UncertainError(CommandError):
    """The node may have carried the command out, and no answer can tell any more."""


class RefusedError(CommandError):
    """The node refused the command.

    Attributes:
        result: Why, by its number.
        value: What the verb says beside it.
    """

    def __init__(self, result: int, text: str, value: int = 0) -> None:
        super().__init__(text)
        self.result, self.value = result, value


@dataclass(frozen=True)
class Place:
    """Where a node takes commands, and with which key.

    Attributes:
        host: Its address.
        port: Its diagnostics port.
        key: The key of its configuration.
    """

    host: str
    port: int
    key: bytes = field(repr=False)


@dataclass(frozen=True)
class Reply:
    """What a node answered to a command that it carried out.

    Attributes:
        value: What the verb says.
        payload: What it says beyond that.
    """

    value: int
    payload: bytes


# What to do about a refusal. A command with reasons of its own adds to these.
REMEDIES: Mapping[int, str] = {
    ControlResult.BOOT: "it restarts again and again. See its log",
    ControlResult.REPLAYED: "other operators are faster. Try again",
    ControlResult.VERSION: "it speaks another version of the protocol. Use the shardfw that built its "
    "image",
    ControlResult.VERB: "it does not know the command. Use the shardfw that built its image",
    ControlResult.ARGUMENT: "a value is out of bounds. See --help of the command",
    ControlResult.NO_CLOCK: "its clock is not calibrated yet, so no time can be granted. Try again "
    "in a minute",
    ControlResult.LISTENERS_FULL: "four listen already. End one of them, or wait until its lease is over",
    ControlResult.SESSION_UNWANTED: "the shard waits for no saved session. `shardfw run` and `shardfw "
    'plan` offer one before it starts, to an image with [sessions] provider = "host"; a node of a fleet '
    "keeps its sessions in the fleet's store",
    ControlResult.SESSION_LIVE: "the shard may still use its session, or the node is of a fleet, which "
    "keeps it in its store. A node that is alone gives it up once it has let the shard go: shardfw stop, "
    "or shardfw plan --start S --count C",
    ControlResult.LEASE_OVER: "the lease has expired. Take a new grant: shardfw lease arm MS",
    ControlResult.FLEET: "leases decide what a node of a fleet holds. Use shardfw fleet plan, drain or move",
}


def refusal(verb: ControlVerb, result: int, value: int = 0) -> RefusedError:
    """Return the error for a result that is not DONE."""
    known = REMEDIES.get(
        result, f"it gives the reason {result}. Use the shardfw that built its image"
    )
    return RefusedError(result, f"the node refused {words(verb)}: {known}", value)


def words(verb: ControlVerb) -> str:
    """Return a verb as people write it."""
    return verb.name.lower().replace("_", " ")


class Commander:
    """Sends commands to one node, one after another.

    Args:
        place: The node.
        timeout: Seconds for one command, all its datagrams included.
        clock: Gives Unix time in nanoseconds.
        on_other: Gets the datagrams of the node that answer no command.
    """

    def __init__(
        self,
        place: Place,
        timeout: float = DEFAULT_TIMEOUT_S,
        clock: Callable[[], int] = time.time_ns,
        on_other: Callable[[bytes], None] | None = None,
    ) -> None:
        self.place, self.timeout = place, timeout
        self._on_other = on_other
        self._clock = clock
        self._boot = self._last = 0
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the socket."""
        self._socket.close()

    def send(
        self,
        verb: ControlVerb,
        *,
        argument: int = 0,
        slot: int = 0,
        payload: bytes = b"",
        room: int = 0,
    ) -> Reply:
        """Send one command and return the answer to it.

        Args:
            verb: What the node shall do.
            argument: Value of the verb.
            slot: Slot of the shard it is about.
            payload: More than a value.
            room: Bytes of payload that the answer may have.

        Raises:
            NoReplyError: Nobody answered in time.
            RefusedError: The node refused it.
            UncertainError: An answer was lost, and cannot be had any more.
        """
        size = max(CONTROL_LEAST, CONTROL_FRAME + len(payload), CONTROL_REPLY_FRAME + room)
        if size > CONTROL_MOST:
            raise ValueError(f"a command of {size} bytes; {CONTROL_MOST} fit. Send less at a time")
        deadline = time.monotonic() + self.timeout
        fields = {"verb": verb, "argument": argument, "slot": slot, "length": len(payload)}
        result = value = 0
        for _ in range(ATTEMPTS):
            self._last = max(self._clock() // 1000, self._last + 1)
            head = {
                "magic": CONTROL_REQUEST_MAGIC,
                "version": CONTROL_VERSION,
                "counter": self._last,
                "boot": self._boot,
            }
            text = pack(ControlRequest, head | fields) + payload
            reply, repeated = self._exchange(text.ljust(size - CONTROL_TAG_BYTES, b"\0"), deadline)
            result, value = int(reply["result"]), int(reply["value"])
            if result == ControlResult.DONE:
                return Reply(reply["value"], reply["payload"])
            if result == ControlResult.BOOT:
                self._boot = reply["boot"]
            elif result == ControlResult.REPLAYED:
                # One that was sent twice may have been carried out before another's came.
                if repeated:
                    raise UncertainError(
                        f"another command came between {words(verb)} and its answer: the node may "
                        "have carried it out. See `shardfw status`, then give it again if need be"
                    )
                self._last = max(self._last, reply["last"])
            else:
                break
        raise refusal(verb, result, value)

    def _exchange(self, text: bytes, deadline: float) -> tuple[dict[str, Any], bool]:
        """Send a datagram until its answer comes; return that, and whether it was sent repeatedly."""
        counter = int(unpack(ControlRequest, text)["counter"])
        datagram = text + hmac.digest(self.place.key, text, "sha256")
        sent = 0
        node = self._socket
        try:
            node.connect((self.place.host, self.place.port))
        except OSError as error:
            raise NoReplyError(
                f"{self.place.host} port {self.place.port} cannot be reached: {error.strerror}"
            ) from None
        while (now := time.monotonic()) < deadline:
            until = min(deadline, now + REPEAT_S)
            try:
                node.send(datagram)
                sent += 1
                reply = self._collect(counter, until)
            except ConnectionRefusedError:
                # The host says that nobody listens there yet; a node that boots may do so soon.
                time.sleep(max(0.0, until - time.monotonic()))
                continue
            if reply is not None:
                return reply, sent > 1
        raise NoReplyError(
            f"the node at {self.place.host} UDP port {self.place.port} did not answer within "
            f"{self.timeout:g} s. Check that it has booted, and that port and key are those of its "
            "configuration: a node does not answer what another key has signed"
        )

    def _collect(self, counter: int, until: float) -> dict[str, Any] | None:
        """Return the answer to a counter; None when the time is over."""
        while (left := until - time.monotonic()) > 0:
            self._socket.settimeout(left)
            try:
                datagram = self._socket.recv(65536)
            except TimeoutError:
                return None
            reply = read_reply(self.place.key, datagram)
            if reply is not None and reply["counter"] == counter:
                return reply
            if reply is None and self._on_other is not None:
                self._on_other(datagram)
        return None

    def listen(self, seconds: float) -> bytes | None:
        """Return the next datagram of the node that answers no command; None when none comes.

        Args:
            seconds: How long to wait.
        """
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._socket.settimeout(left)
            try:
                datagram = self._socket.recv(65536)
            except TimeoutError:
                return None
            except ConnectionRefusedError:
                # The node restarts; what it sends later still comes.
                continue
            if read_reply(self.place.key, datagram) is None:
                return datagram
        return None


def read_reply(key: bytes, datagram: bytes) -> dict[str, Any] | None:
    """Return an answer's fields with its payload; None for what nobody with the key has sent."""
    if len(datagram) < CONTROL_REPLY_FRAME:
        return None
    fields = unpack(ControlReply, datagram)
    end = ControlReply.SIZE + fields["length"]
    tag = hmac.digest(key, datagram[:end], "sha256")
    genuine = hmac.compare_digest(datagram[end:], tag)
    if fields["magic"] != CONTROL_REPLY_MAGIC or not genuine:
        return None
    return fields | {"payload": datagram[ControlReply.SIZE : end]}


def find_place(name: str, host: str | None, port: int | None) -> Place:
    """Return where to command: as given, with the key of the environment; else the node run here.

    Raises:
        RunnerError: No such node runs here.
        CommandError: A host is given, and no key.
    """
    if host is None and port is None:
        where = ask_runner(name, {"ask": "where"})
        key = bytes.fromhex(where["control_key"])
        return Place(str(where["diagnostics_host"]), int(where["diagnostics_port"]), key)
    text = os.environ.get(KEY_ENV)
    if text is None:
        raise CommandError(
            f"commands need the node's key: put what its [control] key_env or key_file holds into "
            f"{KEY_ENV}"
        )
    try:
        return Place(host or "127.0.0.1", port or DEFAULT_PORT, parse_control_key(text))
    except ValueError as error:
        raise CommandError(f"{KEY_ENV}: {error}") from None


def place_options(function: F) -> F:
    """Add the options that say which node is meant: --name, --host, --port."""
    options = (
        click.option(
            "--name", default=DEFAULT_NAME, show_default=True, help="Which node run here."
        ),
        click.option(
            "--host", metavar="ADDRESS", help=f"A node elsewhere; its key is read from {KEY_ENV}."
        ),
        click.option(
            "--port",
            type=click.IntRange(1, 65535),
            help=f"Its diagnostics port.  [default: {DEFAULT_PORT}]",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def command_node(
    verb: ControlVerb,
    place: Callable[[], Place],
    *,
    argument: int = 0,
    timeout: float = DEFAULT_TIMEOUT_S,
) -> Reply:
    """Send one command for a command line.

    Args:
        verb: What the node shall do.
        place: Finds the node.
        argument: Value of the verb.
        timeout: Seconds.

    Raises:
        click.ClickException: No node, no answer, or refused.
    """
    try:
        with Commander(place(), timeout) as node:
            return node.send(verb, argument=argument)
    except RuntimeError as error:
        raise click.ClickException(str(error)) from error
