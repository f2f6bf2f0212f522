"""The gateway over TLS on a loopback port: the same service, with URLs that say so."""

import asyncio
import json
import socket
import ssl
import time
import urllib.request

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import connect as connect_now

from pxe.gateway import GatewayOptions
from pxe.gateway.certificates import make_chain
from pxe.gateway.cli_support import LOCAL_NAMES
from pxe.gateway.server import GatewayServer
from pxe.gateway.thread import GatewayThread

QUERY = "/?v=10&encoding=json"
QUIET = GatewayOptions(guilds_per_shard=0, identify_interval_ms=0, shards=2)
CHAIN = make_chain(LOCAL_NAMES)
IDENTIFY = {
    "op": 2,
    "d": {
        "token": "t",
        "properties": {"os": "none", "browser": "test", "device": "test"},
        "intents": 1,
        "shard": [0, 2],
    },
}


def serving(options=QUIET):
    return GatewayServer(options, ssl_context=CHAIN.context())


def dial(server):
    return connect(server.url + QUERY, ssl=CHAIN.client_context())


async def identify(client):
    """Identify and return the body of READY."""
    assert json.loads(await client.recv())["op"] == 10
    await client.send(json.dumps(IDENTIFY))
    return json.loads(await client.recv())["d"]


def test_the_gateway_and_its_resume_url_are_wss():
    async def scenario():
        async with serving() as server, dial(server) as client:
            return server.url, server.port, await identify(client)

    url, port, ready = asyncio.run(scenario())
    assert url == f"wss://127.0.0.1:{port}"
    assert ready["resume_gateway_url"] == url


def test_the_same_port_answers_https_and_names_wss():
    async def scenario():
        async with serving() as server:

            def ask():
                url = f"https://127.0.0.1:{server.port}/api/v10/gateway"
                context = CHAIN.client_context()
                with urllib.request.urlopen(url, context=context) as answer:
                    return json.load(answer)

            return server.url, await asyncio.to_thread(ask)

    url, answer = asyncio.run(scenario())
    assert answer == {"url": url}


def test_each_door_serves_tls():
    async def scenario():
        options = GatewayOptions(guilds_per_shard=0, shards=2, doors=True)
        async with serving(options) as server:
            async with dial(server) as client:
                door = (await identify(client))["resume_gateway_url"]
            async with connect(door + QUERY, ssl=CHAIN.client_context()) as client:
                return door, server.url, json.loads(await client.recv())["op"]

    door, url, op = asyncio.run(scenario())
    assert door.startswith("wss://127.0.0.1:")
    assert door != url
    assert op == 10


def test_a_client_without_tls_or_with_another_root_gets_nowhere():
    async def scenario():
        async with serving() as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            plain = await reader.read()
            writer.close()
            with pytest.raises(ssl.SSLCertVerificationError):
                await connect(server.url + QUERY, ssl=make_chain(("127.0.0.1",)).client_context())
            return plain, server.stats().connections

    plain, connections = asyncio.run(scenario())
    assert b"HTTP" not in plain
    assert connections == 0


def test_a_kick_is_a_close_frame_and_an_abort_a_reset():
    async def scenario():
        async with serving() as server:
            async with dial(server) as client:
                await identify(client)
                await server.kick(0, 4009, "why not")
                with pytest.raises(ConnectionClosedError) as kicked:
                    await client.recv()
            async with dial(server) as client:
                await identify(client)
                await server.abort(0)
                with pytest.raises(ConnectionClosedError) as aborted:
                    await client.recv()
            return kicked.value.rcvd, aborted.value

    received, aborted = asyncio.run(scenario())
    assert (received.code, received.reason) == (4009, "why not")
    assert aborted.rcvd is None
    assert isinstance(aborted.__cause__, ConnectionResetError)


def test_the_end_does_not_wait_for_a_client_that_says_nothing():
    """It would answer neither close frame nor close_notify."""

    async def scenario():
        loop = asyncio.get_running_loop()
        async with serving() as server:
            plain = await asyncio.to_thread(socket.create_connection, ("127.0.0.1", server.port))
            client = CHAIN.client_context().wrap_socket(
                plain, server_hostname="127.0.0.1", do_handshake_on_connect=False
            )
            await loop.run_in_executor(None, client.do_handshake)
            request = (
                f"GET {QUERY} HTTP/1.1\r\nHost: x\r\nUser-Agent: x\r\nUpgrade: websocket\r\n"
                "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            )
            client.sendall(request.encode())
            await server.wait_until(lambda stats: stats.open_connections == 1)
            start = time.monotonic()
        client.close()
        return time.monotonic() - start

    assert asyncio.run(scenario()) < 10


def test_the_thread_serves_tls():
    with (
        GatewayThread(QUIET, ssl_context=CHAIN.context()) as gateway,
        connect_now(gateway.url + QUERY, ssl=CHAIN.client_context()) as client,
    ):
        assert gateway.url.startswith("wss://")
        assert json.loads(client.recv())["op"] == 10
