"""The few HTTP resources that clients ask for before they connect, and their faults on command.

What is answered is a :class:`Reply`; :meth:`Reply.wire` makes bytes of it, so any transport that
can write bytes serves them.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from pxe.gateway import bodies
from pxe.gateway.bodies import JsonObject
from pxe.gateway.envelope import dumps

if TYPE_CHECKING:
    from pxe.gateway.core import Gateway

_PREFIX: Final = re.compile(r"^/api(/v\d+)?(?=/)")
_UNAUTHORIZED: Final[JsonObject] = {"message": "401: Unauthorized", "code": 0}
_NOT_FOUND: Final[JsonObject] = {"message": "404: Not Found", "code": 0}
FORMS: Final = ("length", "chunked", "close")
"""How the end of a body is told."""
_CHUNK_BYTES: Final = 1000


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer to a GET request.

    Attributes:
        status: HTTP status.
        body: Content.
        headers: Further header fields; type, framing and ``Connection: close`` are added.
        form: One of FORMS.
        raw: Sent as it is instead of everything else; None sends the answer.
        silent: Nothing is ever sent.
    """

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    form: str = "length"
    raw: bytes | None = None
    silent: bool = False

    def __post_init__(self) -> None:
        """Refuse a form that is none.

        Raises:
            ValueError: Names the allowed ones.
        """
        if self.form not in FORMS:
            msg = f"form is {self.form!r}: give one of {', '.join(FORMS)}"
            raise ValueError(msg)

    @property
    def framed(self) -> tuple[tuple[tuple[str, str], ...], bytes]:
        """The header fields and the body as it is sent."""
        # Without a charset: a client library compares the whole value.
        fields = (*self.headers, ("Connection", "close"), ("Content-Type", "application/json"))
        if self.form == "length":
            return (*fields, ("Content-Length", str(len(self.body)))), self.body
        if self.form == "close":
            return fields, self.body
        parts = [self.body[i : i + _CHUNK_BYTES] for i in range(0, len(self.body), _CHUNK_BYTES)]
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
        return (*fields, ("Transfer-Encoding", "chunked")), chunks + b"0\r\n\r\n"

    def wire(self) -> bytes:
        """Return the bytes of the answer; the connection ends after them."""
        if self.raw is not None:
            return self.raw
        fields, body = self.framed
        try:
            phrase = HTTPStatus(self.status).phrase
        except ValueError:
            phrase = ""
        lines = [f"HTTP/1.1 {self.status} {phrase}", *(f"{name}: {text}" for name, text in fields)]
        return "\r\n".join([*lines, "", ""]).encode() + body


def json_reply(
    status: int, body: JsonObject, headers: tuple[tuple[str, str], ...] = (), form: str = "length"
) -> Reply:
    """Return an answer with a JSON document."""
    return Reply(status, dumps(body).encode(), headers, form)


def rate_limit(retry_after: float, *, header: bool = True, body: float | None = None) -> Reply:
    """Return a 429.

    Args:
        retry_after: Seconds that the Retry-After header tells.
        header: Whether there is such a header.
        body: Seconds that the document tells; None leaves them out.
    """
    document: JsonObject = {"message": "You are being rate limited.", "global": False}
    if body is not None:
        document["retry_after"] = body
    fields = (("Retry-After", f"{retry_after:g}"),) if header else ()
    return json_reply(429, document, fields)


def redirect(location: str, status: int = 302) -> Reply:
    """Return a redirect."""
    return Reply(status, headers=(("Location", location),))


def _gateway_bot(gateway: "Gateway", url: str) -> JsonObject:
    now = gateway.clock.now_ms()
    limit = {
        "total": gateway.options.session_start_total,
        "remaining": gateway.gate.starts_left(now),
        "reset_after": gateway.gate.reset_after_ms(now),
        "max_concurrency": gateway.options.max_concurrency,
    }
    shards = gateway.options.recommended or gateway.options.shards
    return {"url": url, "shards": shards, "session_start_limit": limit}


# Path to (needs the bot's token, body).
_RESOURCES: Final[Mapping[str, tuple[bool, Callable[["Gateway", str], JsonObject]]]] = {
    "/gateway": (False, lambda _, url: {"url": url}),
    "/gateway/bot": (True, _gateway_bot),
    "/users/@me": (True, lambda _, __: bodies.BOT_USER),
    "/applications/@me": (True, lambda _, __: bodies.application()),
    "/oauth2/applications/@me": (True, lambda _, __: bodies.application()),
}
_FLUXER_RESOURCES: Final[Mapping[str, tuple[bool, Callable[["Gateway", str], JsonObject]]]] = {
    "/.well-known/fluxer": (
        False,
        lambda _, url: {"api_code_version": 1, "endpoints": {"gateway": url}},
    ),
}


def respond(
    gateway: "Gateway", path: str, *, authorization: str | None, host: str
) -> tuple[HTTPStatus, JsonObject]:
    """Answer a GET request.

    Args:
        gateway: Whose shards and limits to tell.
        path: Path of the request, with or without ``/api/v10`` before it and a query behind.
        authorization: The Authorization header; ``Bot TOKEN`` where a token is needed.
        host: The Host header, of which the gateway URL is made.
    """
    resources = _RESOURCES if gateway.options.profile.has_intents else _FLUXER_RESOURCES
    resource = resources.get(_PREFIX.sub("", path.partition("?")[0]))
    if resource is None:
        return HTTPStatus.NOT_FOUND, _NOT_FOUND
    needs_token, body = resource
    scheme, _, token = (authorization or "").partition(" ")
    if needs_token and (scheme != "Bot" or not gateway.is_token(token)):
        return HTTPStatus.UNAUTHORIZED, _UNAUTHORIZED
    url = gateway.options.public_url or f"{gateway.url_scheme}://{host}"
    return HTTPStatus.OK, body(gateway, url)


def reply_to(gateway: "Gateway", path: str, *, authorization: str | None, host: str) -> Reply:
    """Answer a GET request: what was put in line for it, or the resource. See :func:`respond`."""
    gateway.tell("http", None, path=path, authorized=authorization is not None)
    if gateway.replies:
        return gateway.replies.popleft()
    status, body = respond(gateway, path, authorization=authorization, host=host)
    return json_reply(status, body, form=gateway.options.http_form)
