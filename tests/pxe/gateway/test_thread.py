"""The gateway for synchronous code: a server in a thread of its own."""

import base64
import socket

import pytest

from pxe.gateway.thread import GatewayThread
from tests.support.gateway_socket import QUERY, QUIET


class TestThread:
    def test_synchronous_code_controls_and_waits(self):
        key = base64.b64encode(b"0123456789abcdef").decode()
        with GatewayThread(QUIET) as gateway:
            with socket.create_connection(("127.0.0.1", gateway.port), timeout=60) as client:
                client.sendall(
                    f"GET {QUERY} HTTP/1.1\r\nHost: h\r\nUser-Agent: t\r\nUpgrade: websocket\r\n"
                    f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
                    "Sec-WebSocket-Version: 13\r\n\r\n".encode()
                )
                gateway.wait_until(lambda stats: stats.open_connections == 1)
            stats = gateway.wait_until(lambda stats: stats.open_connections == 0)
            assert stats.refused == {"lost": 1}
            with pytest.raises(LookupError, match="shard 1 has no connection"):
                gateway.call(lambda core: core.kick(1))

    def test_time_out_shows_the_counts(self):
        with (
            GatewayThread(QUIET) as gateway,
            pytest.raises(TimeoutError, match=r"did not get there in 0\.01 s: GatewayStats"),
        ):
            gateway.wait_until(lambda stats: stats.connections == 1, 0.01)

    def test_used_port_is_an_error_in_the_caller(self):
        with (
            GatewayThread(QUIET) as gateway,
            pytest.raises(OSError, match="in use"),
            GatewayThread(QUIET, port=gateway.port),
        ):
            pytest.fail("two servers listen on one port")

    def test_outside_of_with_it_says_how_to_run(self):
        with pytest.raises(RuntimeError, match="use it as `with GatewayThread"):
            GatewayThread(QUIET).stats()
