"""What HTTP answers on the gateway's port, and the faults that a test puts in line."""

import asyncio
import json

import pytest

from pxe.gateway import Gateway, GatewayOptions, ManualClock
from pxe.gateway.protocol import FLUXER
from pxe.gateway.rest import FORMS, Reply, json_reply, rate_limit, redirect, reply_to
from pxe.gateway.server import GatewayServer


def gateway(**options):
    return Gateway(GatewayOptions(**options), clock=ManualClock(1_000))


def get(core, path, authorization=None):
    return reply_to(core, path, authorization=authorization, host="gw.test:81")


@pytest.mark.parametrize("prefix", ["", "/api", "/api/v10"])
def test_gateway_bot_tells_url_and_limits(prefix):
    core = gateway(shards=4, max_concurrency=2, session_start_total=7)
    core.gate.take_start(500)
    reply = get(core, prefix + "/gateway/bot", "Bot t")
    assert reply.status == 200
    assert json.loads(reply.body) == {
        "url": "ws://gw.test:81",
        "shards": 4,
        "session_start_limit": {
            "total": 7, "remaining": 6, "reset_after": 86_399_500, "max_concurrency": 2,
        },
    }  # fmt: skip


def test_gateway_bot_may_recommend_more_shards_than_it_serves():
    reply = get(gateway(shards=4, recommended=9), "/gateway/bot", "Bot t")
    assert json.loads(reply.body)["shards"] == 9


@pytest.mark.parametrize("authorization", [None, "t", "Bearer t", "Bot ", "Bot u"])
def test_gateway_bot_needs_the_token(authorization):
    core = gateway(token="t")  # noqa: S106 - of the local gateway
    assert get(core, "/gateway/bot", authorization).status == 401


def test_the_profiles_have_resources_of_their_own():
    fluxer = gateway(profile=FLUXER, public_url="ws://other.test/x")
    reply = get(fluxer, "/.well-known/fluxer")
    assert json.loads(reply.body)["endpoints"] == {"gateway": "ws://other.test/x"}
    assert get(fluxer, "/gateway/bot", "Bot t").status == 404
    assert get(gateway(), "/.well-known/fluxer").status == 404


def test_replies_in_line_come_first_and_once():
    core = gateway()
    core.answer_http(rate_limit(30), redirect("/elsewhere"), Reply(503))
    assert [get(core, "/gateway").status for _ in range(4)] == [429, 302, 503, 200]


@pytest.mark.parametrize("form", FORMS)
def test_a_body_ends_as_its_form_says(form):
    body = b"x" * 2500
    head, _, rest = Reply(200, body, form=form).wire().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert (b"\r\nContent-Length: 2500" in head) == (form == "length")
    chunked = b"3e8\r\n" + b"x" * 1000 + b"\r\n3e8\r\n" + b"x" * 1000 + b"\r\n1f4\r\n"
    chunked += b"x" * 500 + b"\r\n0\r\n\r\n"
    assert rest == (chunked if form == "chunked" else body)


def test_an_unknown_form_is_refused():
    with pytest.raises(ValueError, match="form is 'x': give one of length, chunked, close"):
        Reply(form="x")


def test_raw_bytes_and_unknown_statuses():
    assert Reply(raw=b"garbage").wire() == b"garbage"
    assert Reply(599).wire().startswith(b"HTTP/1.1 599 \r\n")


@pytest.mark.parametrize(
    ("reply", "header", "document"),
    [
        (rate_limit(30), "30", None),
        (rate_limit(1.5, body=2.25), "1.5", 2.25),
        (rate_limit(30, header=False, body=3), None, 3),
    ],
)
def test_a_rate_limit_tells_in_header_and_document(reply, header, document):
    assert dict(reply.headers).get("Retry-After") == header
    assert json.loads(reply.body).get("retry_after") == document


async def exchange(server, request=b"GET /gateway HTTP/1.1\r\nHost: gw\r\n\r\n"):
    reader, writer = await asyncio.open_connection(server.host, server.port)
    writer.write(request)
    try:
        async with asyncio.timeout(10):
            return await reader.read()
    finally:
        writer.close()


def serve(work, **options):
    async def run():
        async with GatewayServer(GatewayOptions(**options)) as server:
            return await work(server)

    return asyncio.run(run())


@pytest.mark.parametrize("form", FORMS)
def test_the_server_sends_every_form(form):
    answer = serve(exchange, http_form=form)
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b'{"url":"ws://gw"}' in answer


def test_the_server_sends_garbage_as_it_is():
    async def work(server):
        await server.call(lambda core: core.answer_http(Reply(raw=b"what?\r\n")))
        return await exchange(server)

    assert serve(work) == b"what?\r\n"


def test_the_server_can_stay_silent():
    async def work(server):
        await server.call(lambda core: core.answer_http(Reply(silent=True)))
        reader, writer = await asyncio.open_connection(server.host, server.port)
        writer.write(b"GET /gateway HTTP/1.1\r\nHost: gw\r\n\r\n")
        silent = asyncio.ensure_future(reader.read(1))
        # The next request is answered all the same, so the first had its turn.
        assert b"200 OK" in await exchange(server)
        assert not silent.done()
        writer.close()
        silent.cancel()
        return True

    assert serve(work)


def test_a_json_reply_is_compact():
    assert json_reply(200, {"a": 1}).body == b'{"a":1}'
