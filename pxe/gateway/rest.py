"""The few HTTP resources that client libraries ask for before they connect."""

import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from pxe.gateway import bodies
from pxe.gateway.bodies import JsonObject

if TYPE_CHECKING:
    from pxe.gateway.core import Gateway

_PREFIX: Final = re.compile(r"^/api(/v\d+)?(?=/)")
_UNAUTHORIZED: Final[JsonObject] = {"message": "401: Unauthorized", "code": 0}
_NOT_FOUND: Final[JsonObject] = {"message": "404: Not Found", "code": 0}


def _gateway_bot(gateway: "Gateway", url: str) -> JsonObject:
    now = gateway.clock.now_ms()
    limit = {
        "total": gateway.options.session_start_total,
        "remaining": gateway.gate.starts_left(now),
        "reset_after": gateway.gate.reset_after_ms(now),
        "max_concurrency": gateway.options.max_concurrency,
    }
    return {"url": url, "shards": gateway.options.shards, "session_start_limit": limit}


# Path to (needs the bot's token, body).
_RESOURCES: Final[Mapping[str, tuple[bool, Callable[["Gateway", str], JsonObject]]]] = {
    "/gateway": (False, lambda _, url: {"url": url}),
    "/gateway/bot": (True, _gateway_bot),
    "/users/@me": (True, lambda _, __: bodies.BOT_USER),
    "/applications/@me": (True, lambda _, __: bodies.application()),
    "/oauth2/applications/@me": (True, lambda _, __: bodies.application()),
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
    resource = _RESOURCES.get(_PREFIX.sub("", path.partition("?")[0]))
    if resource is None:
        return HTTPStatus.NOT_FOUND, _NOT_FOUND
    needs_token, body = resource
    scheme, _, token = (authorization or "").partition(" ")
    if needs_token and (scheme != "Bot" or not gateway.is_token(token)):
        return HTTPStatus.UNAUTHORIZED, _UNAUTHORIZED
    url = gateway.options.public_url or f"{gateway.url_scheme}://{host}"
    return HTTPStatus.OK, body(gateway, url)
