"""`shardfw fleet approve`: what is denied shows at once, what was done is told, and Ctrl-C ends it."""

import asyncio
import contextlib
import json
import os
import pty
import sys
from types import SimpleNamespace

import pytest

from pxe.nats import NatsOptions, NatsServer, NatsUser
from tests.support.enrolling import IDENTITY, EnrollingNode
from tests.support.fleet_cli import ROOT, SHARDFW, fleet
from toolchain.cli.fleet import approving
from toolchain.cli.fleet.approving import Desk
from toolchain.cli.fleet.connect import FleetError, Login, connected
from toolchain.cli.fleet.enrolment import Announcement

TOKEN_IN = {"SHARDFW_TOKEN": "MTk4.the-token.of_the-bot", "SHARDFW_NATS_PASSWORD": "pw"}
NODE_LOGIN = {"user": "n7", "password": "pw"}
HEARS = ["shardfw.*.enrol.*", "shardfw.*.diag.*"]


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """The nodes of these tests speak five times a second."""
    monkeypatch.setattr(approving, "LISTEN_S", 1.0)
    monkeypatch.setattr(approving, "ENROLLED_S", 5.0)


def served(work, publish=(">",), subscribe=(">",)):
    """Do async work beside a server with a user ada who may do so much."""
    ada = NatsUser("ada", "pw", permissions={"publish": [*publish], "subscribe": [*subscribe]})

    async def run():
        async with NatsServer(NatsOptions(users=(ada, NatsUser("n7", "pw")))) as server:
            return await work(server)

    return asyncio.run(run())


def approve(server, *words):
    return fleet(server.url, "approve", "--user", "ada", *words, **TOKEN_IN)


def shown(node):
    return Announcement("n7", False, 0, node.public, IDENTITY).fingerprint


def opened(subscribe, bot):
    """Open a desk as somebody who may subscribe to that, and look at once and a little later."""

    async def work(server):
        async with connected(Login((server.url,), "ada", "pw"), bot) as one:
            desk = Desk(one)
            await desk.open()
            await desk.listen()

    return served(work, subscribe=subscribe)


def test_who_may_not_listen_is_told_before_anything_is_waited_for(monkeypatch):
    monkeypatch.setattr(approving, "LISTEN_S", 3600.0)
    with pytest.raises(FleetError, match=r"does not let user 'ada' do that: .*shardfw\.b1\.enrol"):
        opened(["_INBOX.>"], "b1")


def test_who_hears_no_numbers_may_approve_however_the_bot_is_written():
    opened([HEARS[0]], "B1")


def test_what_may_not_be_sent_is_told_and_not_waited_for(monkeypatch):
    monkeypatch.setattr(approving, "ENROLLED_S", 3600.0)

    async def work(server):
        async with EnrollingNode(server.url, login=NODE_LOGIN) as node:
            by_hand = await approve(server, "n7", "--fingerprint", shown(node))
            auto = await approve(server, "--auto", "--identity", "serial=S-1", "--for", "1h")
            return node, by_hand, auto

    node, *results = served(work, ["shardfw.>"], HEARS)
    assert node.got == []
    for result in results:
        last = result.stderr.splitlines()[-1]
        assert result.exit_code == 1, result.output
        assert " does not let user 'ada' do that: permissions violation for publish to " in last
        assert last.endswith("and publishes to _E.>; firmware/docs/enrol.md lists who may do what")
        assert "Whoever comes next" not in result.stderr


@pytest.mark.parametrize(
    "words", [("n7", "n8"), ("--auto", "--identity", "serial=S-1", "--identity", "serial=S-9", "--for", "3s")]
)  # fmt: skip
def test_who_was_enrolled_is_told_though_the_next_one_fails(monkeypatch, words):
    async def yes(_question):
        return None

    monkeypatch.setattr("toolchain.cli.fleet.approve.agree", yes)

    async def work(server):
        results = []
        for more in ((), ("--json",)):
            async with EnrollingNode(server.url, login=NODE_LOGIN):
                results.append(await approve(server, *words, *more))
        return results

    plain, as_json = served(work)
    assert (plain.exit_code, plain.stdout) == (1, "n7 is enrolled\n"), plain.output
    assert as_json.exit_code == 1
    assert [one["node"] for one in json.loads(as_json.stdout)["enrolled"]] == ["n7"]


def test_a_node_that_is_named_twice_is_served_once():
    async def work(server):
        async with EnrollingNode(server.url, login=NODE_LOGIN) as node:
            return node, await approve(server, "n7", "n7", "--fingerprint", shown(node))

    node, done = served(work)
    assert (done.exit_code, done.stdout, len(node.got)) == (0, "n7 is enrolled\n", 1), done.output


# -- at a terminal ------------------------------------------------------------------------------------
def typed(answers, without=""):
    """Return what a terminal shows of a command that asks for something, its exit code, and the node."""

    async def work(server):
        async with EnrollingNode(server.url, login=NODE_LOGIN) as node:
            ours, theirs = pty.openpty()
            words = [
                "fleet",
                "approve",
                "--bot",
                "b1",
                "--server",
                server.url,
                "--user",
                "ada",
                "n7",
            ]
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", f"import os; os.login_tty(0); {SHARDFW}", *words,
                stdin=theirs, stdout=theirs, stderr=theirs, cwd=ROOT,
                env={k: v for k, v in {**os.environ, **TOKEN_IN}.items() if k != without},
            )  # fmt: skip
            os.close(theirs)
            os.set_blocking(ours, False)
            seen, left = "", list(answers)
            async with asyncio.timeout(60):
                while process.returncode is None:
                    with contextlib.suppress(OSError):
                        seen += os.read(ours, 4096).decode()
                    if left and left[0][0] in seen:
                        os.write(ours, left.pop(0)[1])
                    await asyncio.sleep(0.05)
            with contextlib.suppress(OSError):
                seen += os.read(ours, 4096).decode()
            os.close(ours)
            return SimpleNamespace(text=seen, code=process.returncode, node=node)

    return served(work)


def test_ctrl_c_at_the_question_ends_it_and_releases_nothing():
    found = typed([("[y/N]: ", b"\x03")])
    assert found.code == 1, found.text
    assert "Aborted!" in found.text
    assert found.node.got == []


def test_an_answer_that_is_none_is_asked_for_again():
    found = typed([("[y/N]: ", b"what\n"), ("write y or n", b"y\n")])
    assert found.code == 0, found.text
    assert "n7 is enrolled" in found.text


def test_ctrl_c_at_the_token_ends_it():
    found = typed([("the bot's token: ", b"\x03")], without="SHARDFW_TOKEN")
    assert found.code == 1, found.text
    assert "Aborted!" in found.text
