"""What is wrong with a server, a login or a fleet is said in words that help, and never with a traceback."""

import asyncio
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

from pxe.gateway.certificates import Span, make_chain
from pxe.nats import NatsOptions, NatsServer, NatsUser, node_permissions
from pxe.nats.cluster import free_ports
from tests.support.cut_relay import CutRelay
from tests.support.fleet_cli import BOT, fleet, new_fleet, refused, told
from toolchain.cli.fleet import command, connect
from toolchain.cli.fleet.connect import FleetError, Login, connected, is_old_cluster
from toolchain.cli.fleet.streams import judge_server, judge_sync
from toolchain.config.nkey import parse_nkey

OLD_INFO = (
    b'INFO {"server_id":"N","server_name":"old","version":"2.9.10","proto":1,"headers":true,'
    b'"max_payload":1048576,"cluster":"c","jetstream":true} \r\n'
)
PASSWORD, WRONG = "pw", "no"


def served(work, options=None):
    """Return what blocking work gives that is called beside a running server."""

    async def run():
        async with NatsServer(options) as server:
            return await asyncio.to_thread(work, server)

    return asyncio.run(run())


def test_no_server_says_how_to_name_one():
    (port,) = free_ports(1)
    text = refused("status", "--server", f"nats://127.0.0.1:{port}")
    assert text.startswith(f"Error: no NATS server answers at nats://127.0.0.1:{port}: ")
    assert text.endswith(
        "Start one (firmware/docs/fleet-operator.md), or name yours with --server or SHARDFW_NATS_URL"
    )


@pytest.mark.parametrize(
    ("words", "environ", "who"),
    [((), {}, "nobody"), (("--user", "ada"), {"SHARDFW_NATS_PASSWORD": WRONG}, "user 'ada'")],
)
def test_a_wrong_login_is_named_without_its_password(words, environ, who):
    options = NatsOptions(users=(NatsUser("ada", PASSWORD),))
    text = served(
        lambda server: refused("status", "--server", server.url, *words, **environ), options
    )
    assert f" does not let {who} in. Give --user with SHARDFW_NATS_PASSWORD, or the seed" in text


def test_a_wrong_seed_is_refused_before_anything_is_sent(tmp_path):
    (tmp_path / "n.nk").write_text("SUAAA")
    text = refused("status", "--nkey-file", str(tmp_path / "n.nk"))
    assert text == (
        f"Error: {tmp_path}/n.nk: the seed has 5 characters, not 58. Copy it again, alone on one line"
    )
    assert "cannot read " in refused("status", "--nkey-file", str(tmp_path / "no.nk"))


def test_a_certificate_that_is_not_trusted_asks_for_the_ca(tmp_path):
    chain, other = make_chain(("127.0.0.1",)), make_chain(("127.0.0.1",))
    (tmp_path / "ca.pem").write_bytes(chain.root)
    (tmp_path / "other.pem").write_bytes(other.root)
    (tmp_path / "text.pem").write_text("none")

    def work(server):
        words = ("status", "--server", server.url)
        return (
            refused(*words, "--ca", str(tmp_path / "other.pem")),
            refused(*words, "--ca", str(tmp_path / "text.pem")),
            refused(*words, "--ca", str(tmp_path / "ca.pem")),
        )

    untrusted, text, trusted = served(work, NatsOptions(tls=chain))
    assert (
        " shows a certificate that is not trusted. Name the CA's file with --ca or SHARD"
        in untrusted
    )
    assert "text.pem holds no certificate of a CA" in text
    assert "there is no stream KV_shardfw at tls://127.0.0.1:" in trusted


def past(role):
    """Return spans in which one certificate is over since 2021."""
    return {role: Span(datetime(2020, 1, 1, tzinfo=UTC), datetime(2021, 2, 3, tzinfo=UTC))}


@pytest.mark.parametrize("role", ["leaf", "root"])
def test_what_has_expired_is_named(tmp_path, role):
    chain, file = make_chain(("127.0.0.1",), spans=past(role)), tmp_path / "ca.pem"
    file.write_bytes(chain.root)
    url, text = served(
        lambda server: (server.url, refused("plan", "--server", server.url, "--ca", str(file))),
        NatsOptions(tls=chain),
    )
    if role == "root":
        assert text == (
            f"Error: the CA in {file} expired on 2021-02-03, so NATS at {url} is not trusted. Make a new "
            "CA and certificates of it for the servers, and name its file with --ca or SHARDFW_NATS_CA"
        )
    else:
        assert text.startswith(
            f"Error: NATS at {url} shows a certificate that has expired, by this machine's clock ("
        )
        assert text.endswith("). Give the server a new one, or set the clock")


IN_THE_MIDDLE = [
    (("status",), b"STREAM.INFO"),
    (("status", "--watch", "--json"), b"CONSUMER.CREATE"),
    (("tail",), b"STREAM.INFO"),
    (("tail",), b"CONSUMER.CREATE"),
    (("plan",), b"CONSUMER.CREATE"),
    (("plan", "--budget", "7"), b"PUB $KV.shardfw.b1.ctl.budget"),
    (("plan", "--total", "8", "--slots", "4"), b"PUB $KV.shardfw.b1.ctl.plan"),
    (("drain", "n1"), b"PUB $KV.shardfw.b1.ctl.node.n1"),
    (("move", "0", "n1"), b"PUB $KV.shardfw.b1.ctl.move.0"),
    (("init",), b"STREAM.INFO"),
]


@pytest.mark.parametrize(("words", "cut"), IN_THE_MIDDLE)
def test_a_server_that_goes_away_in_the_middle_is_named(monkeypatch, words, cut):
    monkeypatch.setattr(connect, "ANSWER_S", 0.5)
    monkeypatch.setattr(connect, "RETRIES", 2)

    async def run():
        async with NatsServer() as server, CutRelay(server.port, cut) as way:
            await new_fleet(server.url)
            return way, await fleet(way.url, *words)

    way, result = asyncio.run(run())
    assert way.is_cut
    assert result.exit_code == 1, result.output
    text = result.stderr.strip().splitlines()[-1]
    assert text.startswith(
        f"Error: the connection to NATS ended and no server of the list answers: {way.url} ("
    )
    assert text.endswith("). See that one runs, then give the command again")


@pytest.mark.parametrize("words", [("tail",), ("drain", "n1"), ("move", "0", "n1"), ("plan",)])
def test_a_wrong_login_is_the_same_for_every_command(words):
    options = NatsOptions(users=(NatsUser("ada", PASSWORD),))
    text = served(
        lambda server: refused(
            *words, "--server", server.url, "--user", "ada", SHARDFW_NATS_PASSWORD=WRONG
        ),
        options,
    )
    assert " does not let user 'ada' in. Give --user with SHARDFW_NATS_PASSWORD, or" in text


def test_a_fleet_works_over_tls_with_its_handshake_first(tmp_path):
    chain = make_chain(("127.0.0.1",))
    (tmp_path / "ca.pem").write_bytes(chain.root)
    words = ("--ca", str(tmp_path / "ca.pem"), "--handshake-first")

    async def run():
        async with NatsServer(NatsOptions(tls=chain, handshake_first=True)) as server:
            await new_fleet(server.url, *words)
            return await told(server.url, "plan", *words)

    assert asyncio.run(run())["total"] == 4


@pytest.mark.parametrize("words", [("status",), ("plan",), ("drain", "n1"), ("move", "0", "n1")])
def test_without_streams_there_is_no_fleet(words):
    url, result = served(
        lambda server: (
            server.url,
            CliRunner().invoke(
                command, [words[0], "--bot", BOT, "--server", server.url, *words[1:]]
            ),
        )
    )
    assert result.exit_code == 1
    assert result.stderr == (
        f"Error: there is no stream KV_shardfw at {url}, so no fleet. Make it with: shardfw fleet init "
        "--bot b1\n"
    )


def test_a_server_without_jetstream_says_so():
    result = served(
        lambda server: CliRunner().invoke(
            command, ["init", "--bot", BOT, "--server", server.url, "--check"]
        ),
        NatsOptions(extra={"jetstream": False}),
    )
    assert result.exit_code == 1
    assert "this server has no JetStream, or its leader is not elected" in result.stderr


def test_a_nodes_user_is_no_operator():
    node = NatsUser("n7", PASSWORD, permissions=node_permissions(BOT, "n7"))
    words = ("init", "--total", "4", "--slots", "2", "--user", "n7")
    text = served(
        lambda server: refused(*words, "--server", server.url, SHARDFW_NATS_PASSWORD=PASSWORD),
        NatsOptions(users=(node,)),
    )
    assert " does not let user 'n7' do that: permissions violation" in text
    assert text.endswith("Log in as an operator")


def test_a_cluster_that_lets_two_win_is_refused():
    async def scenario():
        async def old(reader, writer):
            writer.write(OLD_INFO)
            while line := await reader.readline():
                if line == b"PING\r\n":
                    writer.write(b"PONG\r\n")
            writer.close()

        async with await asyncio.start_server(old, "127.0.0.1", 0) as server:
            url = f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            with pytest.raises(FleetError) as caught:
                async with connected(Login((url,)), BOT):
                    pass
        return str(caught.value)

    text = asyncio.run(scenario())
    assert "is a cluster of nats-server 2.9.10: several nodes may win one compare-and-swap" in text
    assert text.endswith("Use 2.9.21 or newer")


@pytest.mark.parametrize(
    ("version", "cluster", "old"),
    [
        ("2.9.20", "c", True),
        ("2.9.21", "c", False),
        ("2.10.0-RC.1", "c", False),
        ("2.9.10", "", False),
        ("2.15.1", "c", False),
        ("2.9", "c", True),
    ],
)
def test_only_old_clusters_are_refused(version, cluster, old):
    assert is_old_cluster({"version": version, "cluster": cluster}) is old


def test_a_name_that_is_no_bots_is_refused():
    assert "'b.1' is not a bot's name: letters, digits, _ and -" in refused("status", bot="b.1")


def test_a_monitor_that_is_none_is_named():
    (port,) = free_ports(1)
    (finding,) = judge_sync((f"http://127.0.0.1:{port}",))
    assert finding.level == "bad"
    assert f"http://127.0.0.1:{port} does not tell: " in finding.text


def test_a_lone_server_without_login_or_tls_is_noted():
    info = {"version": "2.15.1", "max_payload": 8 << 20}
    found = {one.what: one.level for one in judge_server(info, 1)}
    expected = {
        "version": "ok",
        "copies": "note",
        "max_payload": "ok",
        "login": "note",
        "TLS": "note",
    }
    assert found == expected
    info |= {"cluster": "c", "auth_required": True, "tls_required": True}
    assert {one.level for one in judge_server(info, 3)} == {"ok"}
    assert {one.what for one in judge_server(info, 1) if one.level == "bad"} == {"copies"}


def test_a_budget_and_room_for_events_are_the_operators():
    async def run():
        async with NatsServer() as server:
            words = ("--total", "1", "--slots", "1", "--new", "--budget", "7", "--event-mib", "1")
            assert (await fleet(server.url, "init", *words)).exit_code == 0
            found = await told(server.url, "init", "--check")
            first = (await told(server.url, "status"))["budget"]
            for left in ("3", "9"):
                await told(server.url, "plan", "--budget", left)
            return first, (await told(server.url, "status"))["budget"], found["findings"]

    first, budget, findings = asyncio.run(run())
    assert first == {"remaining": 7, "total": 7}
    assert budget == {"remaining": 9, "total": 9}
    assert {one["level"] for one in findings if one["what"] == "SHARDFW_EV"} == {"ok"}


def test_a_key_is_made_once_and_for_its_owner(tmp_path):
    file = tmp_path / "n7.nk"
    made = CliRunner().invoke(command, ["nkey", str(file)])
    assert made.exit_code == 0
    assert parse_nkey(file.read_text()).public == made.stdout.strip()
    assert file.stat().st_mode & 0o777 == 0o600
    again = CliRunner().invoke(command, ["nkey", str(file)])
    assert again.exit_code == 1
    assert again.stderr == (
        f"Error: cannot write {file}: File exists. Name a file that does not exist yet\n"
    )
    assert parse_nkey(file.read_text()).public == made.stdout.strip()
