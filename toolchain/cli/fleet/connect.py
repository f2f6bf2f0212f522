"""One connection to NATS for a command, and the words for all that can be wrong with it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import ssl
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import nats
import nats.errors
import nats.js.errors
from nats.js.api import Header

from firmware.layouts.bus import CLUSTER_VERSION_LEAST
from toolchain.cli.fleet.records import NAME
from toolchain.cli.fleet.words import (
    CA_ENV,
    DOCS,
    NKEY_ENV,
    PASSWORD_ENV,
    URL_ENV,
    gone,
    is_of_login,
    not_let_in,
    refusal,
)
from toolchain.config.nkey import parse_nkey

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from nats.aio.client import Client
    from nats.js.api import PubAck

BOT_ENV, USER_ENV = "SHARDFW_FLEET_BOT", "SHARDFW_NATS_USER"
DEFAULT_URL = "nats://127.0.0.1:4222"
CONNECT_S = 5
ANSWER_S, POLL_S = 5.0, 0.1
RETRY_S, RETRIES = 0.5, 60
PING_S, PINGS = 2, 2
"""A server that stands still, or whose answers are lost, is left after about six seconds."""
STREAM = "KV_shardfw"
EVENTS = "SHARDFW_EV"
WRONG_LAST = (10071, 10164)
"""What a compare-and-swap is refused with: the record is another one, or another swap is on its way."""
DENIED = "permissions violation"
INBOX = "_inbox."

F = TypeVar("F", bound="Callable[..., object]")


def _is_news(record: logging.LogRecord) -> bool:
    """Return False for what asyncio says of each TLS connection that a peer closes."""
    return not str(record.msg).startswith("returning true from eof_received()")


logging.getLogger("asyncio").addFilter(_is_news)


class FleetError(RuntimeError):
    """The fleet cannot be reached, or does not allow what was asked; the text says what to do."""


class DeniedError(FleetError):
    """NATS says no, and will say no again: a stream is not there, or this user may not."""


class ConflictError(FleetError):
    """Somebody else wrote the record in between."""


class UnansweredError(FleetError):
    """Nothing tells whether a record was written."""


@dataclass(frozen=True)
class Login:
    """Where NATS is and how to log in.

    Attributes:
        servers: URLs.
        user: Empty without one.
        password: Of the user.
        nkey: Seed, SU...; empty without one.
        ca: PEM of who vouches for the servers; None = what the system trusts.
        handshake_first: Whether TLS begins before INFO.
    """

    servers: tuple[str, ...] = (DEFAULT_URL,)
    user: str = ""
    password: str = field(default="", repr=False)
    nkey: str = field(default="", repr=False)
    ca: Path | None = None
    handshake_first: bool = False

    @property
    def name(self) -> str:
        """Return how messages call who logs in."""
        return "the nkey" if self.nkey else f"user {self.user!r}" if self.user else "nobody"

    def context(self) -> ssl.SSLContext | None:
        """Return the trust for TLS; None when no server asks for it by its URL.

        Raises:
            FleetError: The file is no certificate.
        """
        if self.ca is None and not any(url.startswith("tls://") for url in self.servers):
            return None
        try:
            return ssl.create_default_context(cafile=self.ca)
        except (OSError, ssl.SSLError) as error:
            raise FleetError(
                f"{self.ca} holds no certificate of a CA: {error}. Write the path of a PEM file"
            ) from error


@dataclass
class Fleet:
    """A connected client and the bot that it is about.

    Attributes:
        client: nats-py's.
        bot: The fleet's name.
        servers: URLs of the list.
        heard: What the server denied so far, and what went wrong since it was connected last.
        who: How messages call who is logged in.
    """

    client: Client
    bot: str
    servers: tuple[str, ...] = ()
    heard: list[str] = field(default_factory=list)
    who: str = "nobody"

    @property
    def complaints(self) -> list[str]:
        """Return what the server does not let this user do."""
        return [text for text in self.heard if DENIED in text.lower()]

    def gone(self) -> str:
        """Return what is said when the connection is lost."""
        others = [text for text in self.heard if DENIED not in text.lower()]
        # A server that throws out who is logged in tells it in the library's last error alone, and one
        # that refuses the login may cut the connection before its word of it is read.
        if any(is_of_login(text) for text in [*others, str(self.client.last_error)]):
            return not_let_in(self.servers, self.who, more=" any more")
        return gone(self.servers, others[-1] if others else "")

    def denial(self, complaint: str) -> str:
        """Return what is said of something that the server does not let this user do."""
        return f"NATS at {', '.join(self.servers)} does not let {self.who} do that: {complaint}"

    @property
    def info(self) -> dict[str, Any]:
        """Return what the server says of itself."""
        # The library shows version and max_payload, not whether there is a cluster.
        return dict(self.client._server_info)

    async def api(self, subject: str, request: bytes = b"") -> dict[str, Any]:
        """Ask JetStream's API.

        Raises:
            FleetError: No answer, no JetStream, or not allowed.
            nats.js.errors.APIError: It says no.
        """
        try:
            found: dict[str, Any] = await self.client.jetstream()._api_request(
                f"$JS.API.{subject}", request, timeout=ANSWER_S
            )
        except (nats.errors.TimeoutError, TimeoutError):
            raise self._silence(f"$JS.API.{subject}") from None
        except (nats.errors.NoRespondersError, nats.js.errors.ServiceUnavailableError):
            raise FleetError(
                f"this server has no JetStream, or its leader is not elected. {DOCS} shows its "
                "configuration"
            ) from None
        return found

    def _silence(self, subject: str) -> FleetError:
        """Return why nothing answers on a subject."""
        if not self.client.is_connected:
            return FleetError(self.gone())
        # Nobody hears an answer who may not listen, and what else was denied explains nothing.
        denied = [
            text
            for text in self.complaints
            if subject.lower() in text.lower() or INBOX in text.lower()
        ]
        if denied:
            return DeniedError(f"{self.denial(denied[-1])}. Log in as an operator")
        where = ", ".join(self.servers)
        return FleetError(f"nothing answers on {subject} at {where}. Look at the servers' logs")

    async def swap(self, key: str, value: object, expected: int) -> int:
        """Write a record if its revision is still the expected one; return the new one.

        Args:
            key: Behind `$KV.shardfw.<bot>.`.
            value: Its text.
            expected: Revision; 0 = there is none.

        Raises:
            ConflictError: There is another one.
            UnansweredError: No answer came, or the stream has no leader.
            DeniedError: There is no such stream, or this user may not write it.
        """
        header = {Header.EXPECTED_LAST_SUBJECT_SEQUENCE.value: str(expected)}
        subject = f"$KV.shardfw.{self.bot}.{key}"
        try:
            found = await self._publish(subject, str(value).encode(), header)
        except nats.js.errors.APIError as error:
            if error.err_code in WRONG_LAST:
                raise ConflictError(
                    f"{key} was written by somebody else in between. Look with: shardfw fleet status"
                ) from None
            raise UnansweredError(f"{key} may be written or not: {error.description}") from error
        except (nats.errors.TimeoutError, TimeoutError):
            failure = self._silence(subject)
            if isinstance(failure, DeniedError):
                raise failure from None
            raise UnansweredError(str(failure)) from None
        return found.seq

    async def _publish(self, subject: str, text: bytes, header: dict[str, str]) -> PubAck:
        """Publish to the store; wait while it elects a leader, or this server has not heard of it."""
        deadline = time.monotonic() + ANSWER_S
        while True:
            try:
                return await self.client.jetstream().publish(
                    subject, text, timeout=ANSWER_S, headers=header
                )
            except nats.js.errors.NoStreamResponseError:
                # Nobody got it, so it may be sent again.
                if not await self._has_stream():
                    raise DeniedError(no_fleet(self)) from None
                if time.monotonic() > deadline:
                    raise UnansweredError(
                        f"{STREAM} at {', '.join(self.servers)} has no leader, so nothing was written. "
                        "Look at the servers' logs"
                    ) from None
                await asyncio.sleep(POLL_S)

    async def _has_stream(self) -> bool:
        try:
            await self.api(f"STREAM.INFO.{STREAM}")
        except nats.js.errors.NotFoundError:
            return False
        return True


def no_fleet(fleet: Fleet, stream: str = STREAM) -> str:
    """Return what is said when the streams are missing."""
    return (
        f"there is no stream {stream} at {', '.join(fleet.servers)}, so no fleet. Make it with: shardfw "
        f"fleet init --bot {fleet.bot}"
    )


def is_old_cluster(info: dict[str, Any]) -> bool:
    """Return whether several of these servers' clients may win one compare-and-swap."""
    numbers = [int("".join(filter(str.isdigit, part)) or 0) for part in info["version"].split(".")]
    major, minor, patch = [*numbers, 0, 0, 0][:3]
    least = CLUSTER_VERSION_LEAST
    return bool(info.get("cluster")) and (major << 16 | minor << 8 | patch) < least


@contextlib.asynccontextmanager
async def connected(login: Login, bot: str) -> AsyncIterator[Fleet]:
    """Connect, and close at the end.

    Raises:
        FleetError: Not a name, no server, not let in, or a cluster that is too old.
    """
    if not NAME.fullmatch(bot):
        raise FleetError(
            f"{bot!r} is not a bot's name: letters, digits, _ and -. Name the one of the nodes' "
            f"[fleet] with --bot or {BOT_ENV}"
        )
    heard: list[str] = []

    async def on_error(error: Exception) -> None:
        heard.append(str(error).removeprefix("nats: ").strip("'") or type(error).__name__)

    async def on_reconnect() -> None:
        heard[:] = [text for text in heard if DENIED in text.lower()]

    options: dict[str, Any] = {}
    if login.nkey:
        options["nkeys_seed_str"] = login.nkey
    elif login.user:
        options |= {"user": login.user, "password": login.password}
    if (context := login.context()) is not None:
        options |= {"tls": context, "tls_handshake_first": login.handshake_first}
    try:
        client = await nats.connect(
            list(login.servers),
            name="shardfw fleet",
            error_cb=on_error,
            reconnected_cb=on_reconnect,
            connect_timeout=CONNECT_S,
            reconnect_time_wait=RETRY_S,
            ping_interval=PING_S,
            max_outstanding_pings=PINGS,
            max_reconnect_attempts=1,
            allow_reconnect=False,
            **options,
        )
    except (OSError, nats.errors.Error, ssl.SSLError) as error:
        raise FleetError(refusal(login, heard, error)) from None
    # The first connection fails at once, a lost one is looked for again.
    client.options |= {"allow_reconnect": True, "max_reconnect_attempts": RETRIES}
    heard.clear()
    fleet = Fleet(client, bot, login.servers, heard, login.name)
    try:
        if is_old_cluster(fleet.info):
            raise FleetError(
                f"{client.connected_url.netloc if client.connected_url else 'it'} is a cluster of "
                f"nats-server {fleet.info['version']}: several nodes may win one compare-and-swap "
                "(nats-server issue 4320). Use 2.9.21 or newer"
            )
        yield fleet
    finally:
        await client.close()


def login_options(function: F) -> F:
    """Add the options that say which fleet is meant and how to log in."""
    options = (
        click.option(
            "--bot",
            envvar=BOT_ENV,
            required=True,
            help=f"[fleet] bot of its nodes.  [env: {BOT_ENV}]",
        ),
        click.option(
            "--server",
            "servers",
            envvar=URL_ENV,
            multiple=True,
            metavar="URL",
            help=f"A server of NATS; several are tried in turn.  [env: {URL_ENV}; default: "
            f"{DEFAULT_URL}]",
        ),
        click.option(
            "--user",
            envvar=USER_ENV,
            default="",
            help=f"Your user; its password is read from {PASSWORD_ENV}.  [env: {USER_ENV}]",
        ),
        click.option(
            "--nkey-file",
            type=click.Path(dir_okay=False, path_type=Path),
            help=f"Or a file with your seed, SU...; else {NKEY_ENV} is used.",
        ),
        click.option(
            "--ca",
            envvar=CA_ENV,
            type=click.Path(dir_okay=False, path_type=Path),
            help=f"PEM file of who vouches for the servers.  [env: {CA_ENV}]",
        ),
        click.option(
            "--handshake-first", is_flag=True, help="The servers have handshake_first: true."
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def login_of(
    servers: tuple[str, ...],
    user: str,
    nkey_file: Path | None,
    ca: Path | None,
    *,
    handshake_first: bool,
) -> Login:
    """Return how to log in, from options and environment.

    Raises:
        FleetError: A seed is none, or cannot be read.
    """
    password, seed = os.environ.get(PASSWORD_ENV, ""), os.environ.get(NKEY_ENV, "")
    where = NKEY_ENV
    if nkey_file is not None:
        where = str(nkey_file)
        try:
            seed = nkey_file.read_text()
        except OSError as error:
            raise FleetError(f"cannot read {nkey_file}: {error.strerror}") from error
    if seed and not user:
        try:
            parse_nkey(seed)
        except ValueError as error:
            raise FleetError(f"{where}: {error}") from None
    urls = tuple(url for each in servers for url in each.split(",")) or (DEFAULT_URL,)
    return Login(urls, user, password, "" if user else seed.strip(), ca, handshake_first)
