"""The gateway on a loopback port: what the shell adds to the core."""

import asyncio
import dataclasses
import json
import re
import urllib.error
import urllib.request
import zlib
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, ConnectionClosedError, InvalidStatus

from pxe.gateway import Gateway, GatewayOptions, LoadOptions, Step
from pxe.gateway.accounting import GatewayStats
from pxe.gateway.server import GatewayServer
from pxe.gateway.thread import GatewayThread
from tests.support.gateway_socket import PROPERTIES, QUERY, QUIET, identify, receive, send


class TestEnds:
    def test_kick_reaches_the_client_as_a_close_frame(self):
        async def scenario() -> Any:
            async with GatewayServer(QUIET) as server, connect(server.url + QUERY) as client:
                await identify(client)
                await server.kick(0, 4009, "why not")
                with pytest.raises(ConnectionClosedError) as end:
                    await client.recv()
                return end.value.rcvd

        received = asyncio.run(scenario())
        assert (received.code, received.reason) == (4009, "why not")

    def test_code_1005_is_a_close_frame_without_a_body(self):
        async def scenario() -> Any:
            async with GatewayServer(QUIET) as server, connect(server.url + QUERY) as client:
                await identify(client)
                await server.kick(0, 1005)
                with pytest.raises(ConnectionClosed):
                    await client.recv()
                await server.wait_until(lambda stats: stats.open_connections == 0)
                return client.close_code

        assert asyncio.run(scenario()) == 1005

    def test_abort_is_a_reset_without_a_close_frame(self):
        async def scenario() -> Any:
            async with GatewayServer(QUIET) as server, connect(server.url + QUERY) as client:
                await identify(client)
                await server.abort(0)
                with pytest.raises(ConnectionClosedError) as end:
                    await client.recv()
                assert end.value.rcvd is None
                return end.value.__cause__

        assert isinstance(asyncio.run(scenario()), ConnectionResetError)

    def test_client_close_code_and_loss_are_told_apart(self):
        async def scenario() -> Any:
            async with GatewayServer(QUIET) as server:
                for shard, code in ((0, 4000), (1, None)):
                    client = await connect(server.url + QUERY)
                    await identify(client, shard)
                    if code is None:
                        client.transport.abort()
                    await client.close(code or 1000)
                return await server.wait_until(lambda stats: stats.open_connections == 0)

        stats = asyncio.run(scenario())
        assert stats.shards[0].closes == {"4000": 1}
        assert stats.shards[1].closes == {"lost": 1}

    def test_stall_keeps_the_connection_and_says_nothing(self):
        async def scenario() -> Any:
            async with GatewayServer(QUIET) as server, connect(server.url + QUERY) as client:
                await identify(client)
                await server.stall(0)
                await send(client, 1, 1)
                await client.ping()  # the answer shows that the heartbeat has arrived
                await (await client.ping())
                assert server.stats().shards[0].heartbeats == 0
                await server.release(0)
                return await receive(client)

        assert asyncio.run(scenario())["op"] == 11

    @pytest.mark.parametrize("end", ["abort", "close"])
    def test_client_that_does_not_read_is_still_cut_off(self, monkeypatch, end):
        # The writer waits for the client; only the reset can come through: at once for
        # an abort, after the patience for a close.
        patience_s = 60.0 if end == "abort" else 0.05
        monkeypatch.setattr("pxe.gateway.server._CLOSE_TIMEOUT_S", patience_s)

        async def scenario() -> Any:
            async with GatewayServer(QUIET) as server, connect(server.url + QUERY) as client:
                await identify(client)
                client.transport.pause_reading()
                for _ in range(64):
                    await server.dispatch(0, "A", "x" * 250_000)
                if end == "abort":
                    await server.abort(0)
                else:
                    await server.kick(0, 4000)
                stats = await server.wait_until(lambda stats: stats.open_connections == 0)
                client.transport.resume_reading()
                return stats

        assert asyncio.run(scenario()).shards[0].closes == {
            "abort" if end == "abort" else "4000": 1
        }

    def test_stop_closes_1001_and_a_later_server_knows_the_sessions(self):
        async def scenario() -> Any:
            async with GatewayServer(QUIET) as first:
                client = await connect(first.url + QUERY)
                ready = await identify(client)
            with pytest.raises(ConnectionClosed) as end:
                await client.recv()
            assert end.value.rcvd is not None
            assert end.value.rcvd.code == 1001
            async with (
                GatewayServer(core=first.core) as second,
                connect(second.url + QUERY) as again,
            ):
                await receive(again)
                body = {"token": "t", "session_id": ready["session_id"], "seq": 1}
                await send(again, 6, body)
                return await receive(again)

        assert asyncio.run(scenario())["t"] == "RESUMED"

    def test_heartbeat_timeout_runs_on_real_time(self):
        async def scenario() -> Any:
            options = GatewayOptions(heartbeat_interval_ms=20, heartbeat_grace_ms=0)
            async with GatewayServer(options) as server, connect(server.url + QUERY) as client:
                await client.recv()  # Hello
                with pytest.raises(ConnectionClosedError) as end:
                    await client.recv()
                assert end.value.rcvd is not None
                return end.value.rcvd.code

        assert asyncio.run(scenario()) == 4009


class TestStart:
    def test_upgrade_without_user_agent_is_closed_right_after(self):
        async def scenario() -> Any:
            async with (
                GatewayServer(QUIET) as server,
                connect(server.url + QUERY, user_agent_header=None) as client,
            ):
                with pytest.raises(ConnectionClosedError) as end:
                    await client.recv()
                return end.value.rcvd

        received = asyncio.run(scenario())
        assert (received.code, received.reason) == (4002, "User-Agent header is missing")

    def test_resume_url_is_the_host_that_was_dialled(self):
        async def scenario() -> Any:
            async with (
                GatewayServer(QUIET) as server,
                connect(f"ws://localhost:{server.port}{QUERY}", host="127.0.0.1") as client,
            ):
                ready = await identify(client)
                return ready["resume_gateway_url"], server.port

        url, port = asyncio.run(scenario())
        assert url == f"ws://localhost:{port}"

    def test_each_shard_has_a_door_that_ready_names_and_where_it_is_known(self):
        step = Step(on="connect", shard=1, do="kick", code=4001)
        options = dataclasses.replace(QUIET, doors=True, script=(step,))

        async def scenario() -> Any:
            async with GatewayServer(options) as server:
                await server.call(lambda core: core.refuse_upgrades(503, shard=0))
                async with connect(server.url + QUERY) as client:
                    urls = [str((await identify(client))["resume_gateway_url"])]
                async with connect(server.url + QUERY) as client:
                    urls.append(str((await identify(client, 1))["resume_gateway_url"]))
                with pytest.raises(InvalidStatus):
                    await connect(urls[0] + QUERY)
                async with connect(urls[1] + QUERY) as client:
                    with pytest.raises(ConnectionClosedError):
                        await client.recv()
                ports = dict(server.core.doors.ports)
                return urls, ports, server.port, server.stats()

        urls, ports, port, stats = asyncio.run(scenario())
        assert urls == [f"ws://127.0.0.1:{ports[shard]}" for shard in (0, 1)]
        assert len({port, *ports.values()}) == 3
        assert stats.shards[1].closes["4001"] == 1
        assert stats.refused == {}

    def test_bytes_go_past_the_library_and_a_fin_ends_the_stream(self):
        text = b'{"op":11}'
        frame = bytes((0x81, len(text))) + text

        async def scenario() -> Any:
            async with GatewayServer(QUIET) as server, connect(server.url + QUERY) as client:
                await identify(client)
                await server.call(lambda core: core.send_bytes(0, frame, one_by_one=True))
                await server.call(lambda core: core.send_bytes(0, frame))
                await server.call(lambda core: core.hang_up(0))
                got = [await receive(client), await receive(client)]
                with pytest.raises(ConnectionClosedError) as end:
                    await client.recv()
                return got, end.value.rcvd, server.stats().shards[0].closes

        got, received, closes = asyncio.run(scenario())
        assert got == [{"op": 11}] * 2
        assert received is None
        assert closes == {"hang_up": 1}

    def test_permessage_deflate_is_not_negotiated(self):
        async def scenario() -> Any:
            async with GatewayServer(QUIET) as server, connect(server.url + QUERY) as client:
                assert client.response is not None
                return client.response.headers.get("Sec-WebSocket-Extensions")

        assert asyncio.run(scenario()) is None

    def test_zlib_stream_messages_are_binary(self):
        async def scenario() -> Any:
            async with (
                GatewayServer(QUIET) as server,
                connect(server.url + QUERY + "&compress=zlib-stream") as client,
            ):
                return await client.recv()

        message = asyncio.run(scenario())
        assert isinstance(message, bytes)
        assert json.loads(zlib.decompressobj().decompress(message))["op"] == 10

    def test_port_before_the_start_says_how_to_start(self):
        with pytest.raises(RuntimeError, match="use it as `async with GatewayServer"):
            _ = GatewayServer(QUIET).port

    def test_upgrade_can_be_refused_by_http(self):
        async def scenario() -> Any:
            async with GatewayServer(QUIET) as server:
                await server.call(lambda core: core.refuse_upgrades(429, retry_after_s=7))
                with pytest.raises(InvalidStatus) as refused:
                    await connect(server.url + QUERY)
                async with connect(server.url + QUERY) as client:
                    await identify(client)
                return refused.value.response

        response = asyncio.run(scenario())
        assert (response.status_code, response.headers["Retry-After"]) == (429, "7")

    def test_refusal_by_http_needs_an_error_status(self):
        with pytest.raises(ValueError, match="status is 101: give an HTTP error, 400 to 599"):
            Gateway(QUIET).refuse_upgrades(101)


class TestRest:
    @staticmethod
    def get(path: str, token: str | None = None) -> tuple[int, str | None, dict[str, object]]:
        with GatewayThread(GatewayOptions(token="t", shards=3, max_concurrency=2)) as gateway:  # noqa: S106
            request = urllib.request.Request(f"http://127.0.0.1:{gateway.port}{path}")
            if token is not None:
                request.add_header("Authorization", token)
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            try:
                with opener.open(request, timeout=60) as answer:
                    body = json.loads(answer.read())
                    return answer.status, answer.headers["Content-Type"], body
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, error.headers["Content-Type"], json.loads(error.read())

    @pytest.mark.parametrize("prefix", ["", "/api", "/api/v10"])
    def test_gateway_needs_no_token(self, prefix):
        status, kind, body = self.get(prefix + "/gateway")
        assert (status, kind) == (200, "application/json")
        assert re.fullmatch(r"ws://127\.0\.0\.1:\d+", str(body["url"]))

    def test_gateway_bot_tells_shards_and_limit(self):
        status, _, body = self.get("/api/v10/gateway/bot", "Bot t")
        assert status == 200
        assert body["shards"] == 3
        assert body["session_start_limit"] == {
            "total": 1000,
            "remaining": 1000,
            "reset_after": 0,
            "max_concurrency": 2,
        }

    @pytest.mark.parametrize("token", [None, "t", "Bot u", "Bearer t"])
    def test_gateway_bot_without_the_token_is_unauthorized(self, token):
        assert self.get("/gateway/bot", token) == (
            401,
            "application/json",
            {"message": "401: Unauthorized", "code": 0},
        )

    def test_other_paths_are_not_found(self):
        assert self.get("/nowhere")[0] == 404


def test_sixteen_shards_under_load_lose_nothing_over_resets():
    """Every dispatch of 16 shards comes once and in order, across one reset each."""
    options = GatewayOptions(
        shards=16,
        max_concurrency=16,
        guilds_per_shard=1,
        load=LoadOptions(rate=2_000.0),
        script=tuple(
            Step(on="ready", shard=shard, after_dispatches=20 + shard, do="abort")
            for shard in range(16)
        ),
    )
    received: list[list[int]] = [[] for _ in range(16)]

    async def run_shard(url: str, shard: int) -> None:
        body: dict[str, object] = {"token": "t", "properties": PROPERTIES, "intents": 1}
        op, body = 2, body | {"shard": [shard, 16]}
        while True:
            async with connect(url + QUERY) as client:
                await send(client, op, body)
                try:
                    async for text in client:
                        message = json.loads(text)
                        if message["t"] == "READY":
                            op = 6
                            body = {"token": "t", "session_id": message["d"]["session_id"]}
                        if message["op"] == 0 and message["t"] != "RESUMED":
                            received[shard].append(message["s"])
                            body["seq"] = message["s"]
                except ConnectionClosedError:
                    continue
                return

    def stop(core: Gateway) -> GatewayStats:
        # In one go, so that nothing is published between the counts and the ends.
        for shard in range(16):
            core.kick(shard, 1000)
        return core.stats()

    async def scenario() -> GatewayStats:
        async with GatewayServer(options) as server:
            shards = [asyncio.create_task(run_shard(server.url, shard)) for shard in range(16)]
            await server.wait_until(
                lambda stats: all(s.sequence >= 100 and s.connected for s in stats.shards)
            )
            stats = await server.call(stop)
            await asyncio.gather(*shards)
            return stats

    stats = asyncio.run(scenario())
    assert stats.total("resumes") == 16
    for shard in stats.shards:
        assert received[shard.shard] == list(range(1, shard.sequence + 1))
