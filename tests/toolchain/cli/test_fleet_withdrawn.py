"""What commands that look on say when the stream, the permission or the user goes away meanwhile."""

import asyncio
import gc
import json
import signal
from types import SimpleNamespace

import nats
import pytest

from pxe.nats import NatsOptions, NatsServer, NatsUser, operator_permissions
from tests.support.fleet_cli import BOT, fleet, new_fleet, told
from toolchain.cli.fleet import change, connect, ordered
from toolchain.cli.fleet.connect import (
    EVENTS,
    STREAM,
    DeniedError,
    FleetError,
    Login,
    UnansweredError,
    connected,
)
from toolchain.cli.fleet.ordered import DENIED_S, LOST_S, Patience, WatchEndedError
from toolchain.cli.fleet.watch import View

BOSS = NatsUser("boss", "pw")
# nats-py leaves open what it could not use.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:loop is closed:ResourceWarning"),
]
LOOKING = [("status", "--watch", "--json"), ("status", "--watch"), ("tail",)]


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Nothing is waited for longer than it needs to be seen here."""
    monkeypatch.setattr(ordered, "DENIED_S", 0.5)
    monkeypatch.setattr(connect, "ANSWER_S", 0.5)
    monkeypatch.setattr(connect, "RETRIES", 2)
    monkeypatch.setenv("SHARDFW_NATS_PASSWORD", "pw")


def let_in(server, *users):
    """Let other users in, or the same ones do other things, as an administrator's reload does."""
    file = server.folder / "nats.conf"
    config = json.loads(file.read_text())
    config["authorization"]["users"] = [user.render() for user in users]
    file.write_text(json.dumps(config))
    server.send_signal(signal.SIGHUP)


def looked(words, spoil):
    """Return what a command says from which something is taken while it looks on, and where it looked."""

    async def run():
        async with NatsServer(NatsOptions(users=(BOSS, NatsUser("ada", "pw")))) as server:
            await new_fleet(server.url, "--user", "boss")
            client = await nats.connect(server.url, user="boss", password="pw")  # noqa: S106
            stream, least = (EVENTS, 1) if words == ("tail",) else (STREAM, 2)
            async with asyncio.timeout(60):
                task = asyncio.create_task(fleet(server.url, *words, "--user", "ada"))
                while (await client.jetstream().stream_info(stream)).state.consumer_count < least:
                    await asyncio.sleep(0.05)
                await asyncio.sleep(0.5)
                await spoil(server, client.jetstream())
                result = await task
            await client.close()
            return server.url, result

    url, result = asyncio.run(run())
    gc.collect()
    assert result.exit_code == 1, result.output
    return url, result


async def no_streams(_server, jetstream):
    for stream in (STREAM, EVENTS):
        await jetstream.delete_stream(stream)


async def no_inbox(server, _jetstream):
    may_not = {"publish": [">"], "subscribe": ["shardfw.>"]}
    let_in(server, BOSS, NatsUser("ada", "pw", permissions=may_not))


async def no_user(server, _jetstream):
    let_in(server, BOSS)


async def another_password(server, _jetstream):
    let_in(server, BOSS, NatsUser("ada", "other"))


@pytest.mark.parametrize("words", LOOKING)
def test_a_stream_that_is_deleted_ends_it(words):
    url, result = looked(words, no_streams)
    stream = EVENTS if words == ("tail",) else STREAM
    assert result.stderr.splitlines()[-1] == (
        f"Error: there is no stream {stream} at {url}, so no fleet. Make it with: shardfw fleet init "
        f"--bot {BOT}"
    )
    assert result.stderr.count("out of sight, and looked for again: ") == 1


def test_what_is_out_of_sight_is_not_shown_as_a_fleet_without_a_plan():
    _, result = looked(LOOKING[0], no_streams)
    assert all(json.loads(line)["plan"] for line in result.stdout.splitlines())


@pytest.mark.parametrize("words", LOOKING)
def test_a_permission_that_is_withdrawn_ends_it(words):
    url, result = looked(words, no_inbox)
    last = result.stderr.splitlines()[-1]
    assert last.startswith(
        f"Error: NATS at {url} does not let user 'ada' do that: permissions violation for subscription "
    )
    assert last.endswith("Log in as an operator")


@pytest.mark.parametrize("spoil", [no_user, another_password])
@pytest.mark.parametrize("words", [LOOKING[0], ("tail",)])
def test_a_user_that_is_withdrawn_is_no_server_that_is_gone(monkeypatch, words, spoil):
    monkeypatch.setattr(connect, "RETRIES", 12)
    url, result = looked(words, spoil)
    assert result.stderr.splitlines()[-1] == (
        f"Error: NATS at {url} does not let user 'ada' in any more. Give --user with "
        "SHARDFW_NATS_PASSWORD, or the seed of an nkey in SHARDFW_NATS_NKEY"
    )


def test_records_that_are_made_anew_come_into_sight_again(monkeypatch):
    monkeypatch.setattr(ordered, "DENIED_S", DENIED_S)

    async def run():
        async with NatsServer() as server, connected(Login((server.url,)), BOT) as one:
            await new_fleet(server.url)
            view = View(one)
            await view.sync()
            client = await nats.connect(server.url)
            await client.jetstream().delete_stream(STREAM)
            await client.close()
            async with asyncio.timeout(30):
                while not view.trouble.startswith("there is no stream"):
                    await view.pump(0.2)
                await new_fleet(server.url)
                while view.trouble or not view.synced:
                    await view.pump(0.2)
            found = dict(view.records)
            await view.stop()
            return found

    assert change.PLAN in asyncio.run(run())


# -- how long it is tried ----------------------------------------------------------------------------
def borne(monkeypatch, *errors):
    """Return what is raised of errors that come at these times, and when; and what was said."""
    clock = SimpleNamespace(now=100.0)
    said: list[str] = []
    monkeypatch.setattr(ordered, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(ordered, "DENIED_S", DENIED_S)
    patience = Patience(("nats://n1", "nats://n2"), said.append)
    for at, error in errors:
        clock.now = 100.0 + at
        if error is None:
            patience.over()
            continue
        try:
            patience.bear(error)
        except FleetError as raised:
            return at, str(raised), said
    return None, "", said


def test_a_refusal_is_borne_for_seconds_and_silence_for_a_minute(monkeypatch):
    no, silence = DeniedError("no"), WatchEndedError("the server fell silent")
    times = [float(second) for second in range(int(LOST_S) + 2)]
    assert borne(monkeypatch, *((at, no) for at in times)) == (DENIED_S, "no", ["no"])
    at, text, said = borne(monkeypatch, *((at, silence) for at in times))
    assert (at, said) == (LOST_S, ["the server fell silent"])
    assert text == (
        "NATS at nats://n1, nats://n2 showed nothing for 60 s: the server fell silent. Look at the "
        "servers' logs"
    )
    assert borne(monkeypatch, *((at, FleetError("gone")) for at in times))[:2] == (LOST_S, "gone")


def test_what_was_seen_again_begins_anew(monkeypatch):
    no = DeniedError("no")
    errors = [(0, no), (DENIED_S - 1, no), (DENIED_S, None), (DENIED_S + 1, no), (LOST_S, None)]
    assert borne(monkeypatch, *errors) == (None, "", ["no", "no"])


def test_one_refusal_late_in_an_outage_is_not_the_last_word(monkeypatch):
    silence, no = WatchEndedError("silence"), DeniedError("no")
    errors = [(0, silence), (30, no), (33, silence), (36, no), (45, no), (46, no)]
    assert borne(monkeypatch, *errors) == (46, "no", ["silence"])


# -- writing -------------------------------------------------------------------------------------------
def test_a_write_that_is_not_allowed_is_no_other_operator():
    reads = {"publish": ["$JS.API.>"], "subscribe": ["_INBOX.>"]}

    async def run():
        users = (BOSS, NatsUser("ada", "pw", permissions=reads))
        async with NatsServer(NatsOptions(users=users)) as server:
            await new_fleet(server.url, "--user", "boss")
            began = asyncio.get_running_loop().time()
            result = await fleet(server.url, "plan", "--budget", "7", "--user", "ada")
            took = asyncio.get_running_loop().time() - began
            budget = (await told(server.url, "status", "--user", "boss"))["budget"]
            return result, took, budget["remaining"]

    result, took, left = asyncio.run(run())
    assert (result.exit_code, left) == (1, 1000)
    assert (
        " does not let user 'ada' do that: permissions violation for publish to " in result.stderr
    )
    assert result.stderr.endswith("Log in as an operator\n")
    assert took < 5.0, "it is not tried eight times"


def test_a_write_that_nobody_answers_is_no_other_operator_either(monkeypatch):
    monkeypatch.setattr(change, "TRIES", 2)

    async def swap(*_words):
        raise UnansweredError("nothing answers")

    async def nothing(*_words):
        return None

    view = SimpleNamespace(
        sync=nothing, until=nothing, records={}, fleet=SimpleNamespace(swap=swap)
    )
    with pytest.raises(UnansweredError, match="nothing answers"):
        asyncio.run(change.set_budget(view, 7))  # type: ignore[arg-type]


# -- permissions and servers as the operator's page has them ---------------------------------------
EACH = [
    ("init", "--total", "4", "--slots", "2", "--new"),
    ("init", "--check"),
    ("status",),
    ("plan",),
    ("plan", "--budget", "7"),
    ("plan", "--slots", "1"),
    ("drain", "n7"),
    ("drain", "n7", "--undo"),
    ("approve",),
]


def test_the_permissions_of_the_page_are_enough_for_every_command(monkeypatch):
    monkeypatch.setattr("toolchain.cli.fleet.approving.LISTEN_S", 0.5)
    monkeypatch.setattr(connect, "ANSWER_S", 5.0)

    async def run():
        boss = NatsUser("boss", "pw", permissions=operator_permissions(BOT))
        async with NatsServer(NatsOptions(users=(boss,))) as server:
            done = [await fleet(server.url, *words, "--user", "boss") for words in EACH]
            # Nobody holds the slot, so that nobody takes it, and nothing comes to be read.
            tail = asyncio.create_task(fleet(server.url, "tail", "--count", "1", "--user", "boss"))
            client = await nats.connect(server.url, user="boss", password="pw")  # noqa: S106
            while not json.loads((await client.request(INFO)).data)["state"]["consumer_count"]:
                await asyncio.sleep(0.05)
            await server.end()
            await client.close()
            return done, await tail

    done, tail = asyncio.run(run())
    gc.collect()
    assert [one.exit_code for one in done] == [0] * len(EACH), [one.output for one in done]
    assert "the connection to NATS ended" in tail.stderr, "it was read until then"


INFO = f"$JS.API.STREAM.INFO.{EVENTS}"


def test_a_server_alone_that_restarts_has_no_stream_for_events_and_the_status_says_so():
    async def run():
        async with NatsServer() as server:
            await new_fleet(server.url)
            before = await told(server.url, "status")
            await server.end()
            await server.start()
            after = await fleet(server.url, "status")
            made = await told(server.url, "init")
            return before, after, made, await told(server.url, "status")

    before, after, made, again = asyncio.run(run())
    assert (before["events_stream"], made["streams"], again["events_stream"]) == (
        True,
        [EVENTS],
        True,
    )
    text = "there is no stream SHARDFW_EV: nodes keep no event. Make it with: shardfw fleet init\n"
    assert text in after.stdout
    assert after.exit_code == 0
