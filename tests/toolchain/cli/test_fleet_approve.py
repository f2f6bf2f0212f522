"""`shardfw fleet approve` over a real server: who waits, to whom the token goes, and to whom not."""

import asyncio
import json

import nkeys
import pytest
from click.testing import CliRunner

from firmware.layouts.fleet_config import BusAuth
from pxe.nats import NatsOptions, NatsServer, NatsUser, enrol_permissions, node_permissions
from tests.support.enrolling import BUILD_ID, IDENTITY, EnrollingNode
from tests.support.fleet_cli import fleet
from toolchain.cli.fleet import approving, command
from toolchain.cli.fleet.enrolment import Announcement, Identity
from toolchain.config.nkey import nkey_of

TOKEN = "MTk4.the-token.of_the-bot"  # noqa: S105 - of tests
ENROL_LOGIN = {"user": "enrol", "password": "e"}
TOKEN_IN = {"SHARDFW_TOKEN": TOKEN}
FACTS = {
    "mac": "52:54:00:00:00:77",
    "uuid": "4c4c4544-0057-4d10-8030-b4c04f4b5931",
    "serial": "S-1",
    "build_id": BUILD_ID,
}


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """The nodes of these tests speak five times a second."""
    monkeypatch.setattr(approving, "LISTEN_S", 1.0)
    monkeypatch.setattr(approving, "ENROLLED_S", 2.0)
    for name in ("SHARDFW_TOKEN", "SHARDFW_NODE_PASSWORD", "SHARDFW_NODE_NKEY"):
        monkeypatch.delenv(name, raising=False)


def shown(node):
    """Return the fingerprint of a node's key."""
    return Announcement("n7", False, 0, node.public, IDENTITY).fingerprint


def served(work, options=None):
    """Do async work beside a running server."""

    async def run():
        async with NatsServer(options) as server:
            return await work(server)

    return asyncio.run(run())


async def approve(server, *words, **environ):
    return await fleet(server.url, "approve", *words, **environ)


# -- listing --------------------------------------------------------------------------------------
def test_nobody_waits():
    result = served(approve)
    assert (result.exit_code, result.stdout) == (0, "no node waits for its token\n")


def test_who_waits_is_listed_with_what_it_says_of_itself():
    async def work(server):
        bare = f"020000000001 - - {BUILD_ID}"
        async with EnrollingNode(server.url) as one, EnrollingNode(server.url, "n8", bare) as two:
            two.refused = 3
            return one, two, await approve(server), await approve(server, "--json")

    one, two, plain, as_json = served(work)
    first, second = json.loads(as_json.stdout)["waiting"]
    print_ = shown(one)
    assert first == {"node": "n7", "fingerprint": print_, **FACTS, "refused": 0}
    assert (second["node"], second["uuid"], second["serial"], second["refused"]) == (
        "n8",
        None,
        None,
        3,
    )
    assert (
        f"n7 {print_} 52:54:00:00:00:77 {FACTS['uuid']} S-1".split()
        == plain.stdout.split("\n")[3].split()[:5]
    )
    assert (one.got, two.got) == ([], []), "listing releases nothing"


def test_a_serial_number_is_no_markup():
    async def work(server):
        async with EnrollingNode(server.url, identity=f"020000000001 - [red] {BUILD_ID}"):
            return await approve(server)

    assert " [red] " in served(work).stdout


# -- by hand --------------------------------------------------------------------------------------
def test_a_node_gets_the_token_when_its_fingerprint_is_given():
    async def work(server):
        async with EnrollingNode(server.url) as node, EnrollingNode(server.url, "n8") as other:
            done = await approve(server, "n7", "--fingerprint", shown(node), "--json", **TOKEN_IN)
            return node, other, done

    node, other, done = served(work)
    assert done.exit_code == 0, done.output
    assert [row["node"] for row in json.loads(done.stdout)["enrolled"]] == ["n7"]
    grant = node.grant
    assert grant["token"][: grant["token_len"]] == TOKEN.encode()
    assert grant["login"]["auth"] == BusAuth.NONE
    assert (other.got, TOKEN in done.output) == ([], False)
    for name, value in FACTS.items():
        assert f"  {name:<12} {value}" in done.stderr


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1), ("", 1)])
def test_without_a_fingerprint_the_operator_is_asked(answer, code):
    async def work(server):
        async with EnrollingNode(server.url) as node:
            words = ["approve", "--bot", "b1", "--server", server.url, "n7"]
            runner = CliRunner(env=TOKEN_IN)
            done = await asyncio.to_thread(runner.invoke, command, words, input=answer)
            return node, done

    node, done = served(work)
    assert "release the token to it? [y/N]" in done.stderr
    assert done.exit_code == code
    assert (node.grant is not None) == (code == 0)
    assert bool(node.got) == (code == 0)


def test_a_login_goes_along():
    key = nkey_of(bytes(range(32)))
    seed = nkeys.encode_seed(bytes(range(32)), nkeys.PREFIX_BYTE_USER).decode()

    async def work(server):
        got = []
        for words, environ in (
            (("--node-user", "n7"), {"SHARDFW_NODE_PASSWORD": "pw"}),
            ((), {"SHARDFW_NODE_NKEY": seed}),
        ):
            async with EnrollingNode(server.url) as node:
                given = ("n7", "--fingerprint", shown(node), *words)
                done = await approve(server, *given, **TOKEN_IN, **environ)
                assert done.exit_code == 0, done.output
                assert node.grant is not None
                got.append(node.grant["login"])
        return got

    user, nkey = served(work)
    assert (user["auth"], user["user"][:3], user["user_len"]) == (BusAuth.USER, b"n7\0", 2)
    assert (user["password"][:3], user["password_len"]) == (b"pw\0", 2)
    assert (nkey["auth"], nkey["nkey_seed"]) == (BusAuth.NKEY, bytes(range(32)))
    assert nkey["nkey_public"] == key.public.encode()


def error_of(result):
    assert result.exit_code == 1, result.output
    return result.stderr.strip().splitlines()[-1]


def test_what_cannot_be_done_says_why():
    async def work(server):
        async with EnrollingNode(server.url) as node, EnrollingNode(server.url, "n8"):
            missing = await approve(server, "n9", **TOKEN_IN)
            wrong = await approve(server, "n7", "--fingerprint", "0x12", **TOKEN_IN)
            no_token = await approve(server, "n7", "--fingerprint", shown(node))
            bad_token = await approve(
                server, "n7", "--fingerprint", shown(node), **{"SHARDFW_TOKEN": "Bot x"}
            )
            no_password = await approve(server, "n7", "--node-user", "u", **TOKEN_IN)
            bad_seed = await approve(server, "n7", SHARDFW_NODE_NKEY="SUA", **TOKEN_IN)
            no_file = await approve(server, "n7", "--token-file", "/nowhere/token")
            assert node.got == []
            return shown(node), missing, wrong, no_token, bad_token, no_password, bad_seed, no_file

    mine, *results = served(work)
    missing, wrong, none, bad, unlocked, bad_seed, no_file = map(error_of, results)
    assert missing == "Error: n9 does not wait for its token; there waits: n7, n8"
    assert wrong == (
        f"Error: n7 waits with the fingerprint {mine}, not 0x12. Compare it with the node's own log "
        "or with shardfw status"
    )
    assert none == "Error: no token to release. Set SHARDFW_TOKEN, or give --token-file"
    assert bad.startswith('Error: the token begins with "Bot ". Remove that')
    assert unlocked == (
        "Error: --node-user u without a password. Set SHARDFW_NODE_PASSWORD, or give "
        "--node-password-file"
    )
    assert bad_seed.startswith("Error: SHARDFW_NODE_NKEY: the seed has 3 characters, not 58")
    assert no_file == (
        "Error: cannot read /nowhere/token: No such file or directory. It has to hold the token alone"
    )


def test_two_machines_of_one_name_are_told_apart_by_their_key():
    async def work(server):
        async with EnrollingNode(server.url) as one, EnrollingNode(server.url) as two:
            both = await approve(server, "n7", **TOKEN_IN)
            done = await approve(server, "n7", "--fingerprint", shown(two), **TOKEN_IN)
            return one, two, both, done

    one, two, both, done = served(work)
    assert error_of(both).startswith("Error: 2 machines call themselves n7: 0x")
    assert done.exit_code == 0, done.output
    assert (one.grant, two.grant is not None) == (None, True)


def test_a_node_that_refuses_or_says_nothing_is_told_of():
    async def work(server):
        texts = []
        for options in ({"deaf": True}, {"opens_as": IDENTITY.replace("S-1", "S-2")}):
            async with EnrollingNode(server.url, **options) as node:
                done = await approve(server, "n7", "--fingerprint", shown(node), **TOKEN_IN)
                texts.append(error_of(done))
        return texts

    deaf, refused = served(work)
    assert deaf.startswith("Error: n7 did not say within 2 s that it is enrolled. Look at its log:")
    assert refused == (
        "Error: n7 refused what was sealed to it. Its log says why, at code=enrol.refused"
    )


@pytest.mark.parametrize(
    ("numbers", "code"),
    [("1 {boot} 12345 4 0", 0), ("1 00000001 12345 4 0", 1), ("2 {boot} 12345 4 0", 1)],
)
def test_a_node_whose_word_was_lost_is_enrolled_by_what_it_says_of_that_boot(numbers, code):
    async def work(server):
        async with EnrollingNode(server.url, numbers=numbers) as node:
            return node, await approve(server, "n7", "--fingerprint", shown(node), **TOKEN_IN)

    node, done = served(work)
    assert node.grant is not None
    assert done.exit_code == code, done.output
    if code == 0:
        assert done.stdout == "n7 is enrolled\n"
    else:
        assert error_of(done).startswith("Error: n7 did not say within 2 s that it is enrolled.")


def test_who_may_approve_and_no_more_waits_for_the_nodes_word():
    clerk = {"publish": ["_E.>"], "subscribe": ["shardfw.b1.enrol.*"]}
    options = NatsOptions(users=(NatsUser("ada", "a", permissions=clerk), NatsUser("n7", "pw")))

    async def work(server):
        async with EnrollingNode(server.url, login={"user": "n7", "password": "pw"}) as node:
            words = ("n7", "--fingerprint", shown(node), "--user", "ada")
            return await approve(server, *words, **{"SHARDFW_NATS_PASSWORD": "a"}, **TOKEN_IN)

    done = served(work, options)
    assert (done.exit_code, done.stdout) == (0, "n7 is enrolled\n"), done.output


# -- automatic ------------------------------------------------------------------------------------
def test_a_known_machine_is_served_once_whoever_else_waits():
    async def work(server):
        stranger = IDENTITY.replace("S-1", "S-9")
        async with EnrollingNode(server.url, "n8", stranger) as other:
            task = asyncio.create_task(
                approve(
                    server, "--auto", "--identity", "mac=52-54-00-00-00-77,serial=S-1", "--for", "20s",
                    **TOKEN_IN,
                )
            )  # fmt: skip
            await asyncio.sleep(0.6)
            async with EnrollingNode(server.url) as node:
                return other, node, await task

    other, node, done = served(work)
    assert done.exit_code == 0, done.output
    assert done.stdout == "n7 is enrolled\n"
    assert (other.got, node.grant is not None) == ([], True)


def test_an_identity_that_is_given_twice_is_one_and_a_machine_may_answer_to_another():
    async def work(server):
        identities = ("serial=S-1", "serial=S-1", "mac=525400000077")
        words = [word for one in identities for word in ("--identity", one)]
        task = asyncio.create_task(approve(server, "--auto", *words, "--for", "30s", **TOKEN_IN))
        async with EnrollingNode(server.url) as one:
            while one.grant is None:
                await asyncio.sleep(0.05)
            # The same card, and another machine: it is the second identity.
            async with EnrollingNode(server.url, "n8", IDENTITY) as two:
                return two, await task

    two, done = served(work)
    assert done.exit_code == 0, done.output
    assert two.grant is not None
    assert done.stdout == "n7 is enrolled\nn8 is enrolled\n"


def test_the_second_of_one_identity_gets_nothing():
    async def work(server):
        identities = ("--identity", "serial=S-1", "--identity", "serial=S-5")
        task = asyncio.create_task(
            approve(server, "--auto", *identities, "--for", "4s", **TOKEN_IN)
        )
        async with EnrollingNode(server.url) as one:
            while one.grant is None:
                await asyncio.sleep(0.05)
            async with EnrollingNode(server.url, "n8") as two:
                return two, await task

    two, done = served(work)
    assert two.got == []
    assert "says that it is serial=S-1, which n7 0x" in done.stderr
    assert error_of(done).startswith(
        "Error: within 4 s nobody came as serial=S-5. Does the node run"
    )


def test_one_that_takes_nothing_does_not_keep_the_next_one_waiting_for_ever():
    async def work(server):
        task = asyncio.create_task(
            approve(server, "--auto", "--identity", "serial=S-1", "--for", "20s", **TOKEN_IN)
        )
        async with EnrollingNode(server.url, deaf=True) as one:
            while not one.got:
                await asyncio.sleep(0.05)
            async with EnrollingNode(server.url, "n8") as two:
                return two, await task

    two, done = served(work)
    assert done.exit_code == 0, done.output
    assert two.grant is not None
    assert "Whoever comes next as serial=S-1 is served" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--auto",), "--auto goes with --identity and --for, and with no NODE"),
        (("--auto", "--identity", "serial=x"), "--auto goes with --identity and --for"),
        (("n7", "--auto", "--identity", "serial=x", "--for", "1m"), "and with no NODE"),
        (("--for", "10m"), "--identity and --for go with --auto"),
        (("--fingerprint", "0x1"), "--fingerprint is of one NODE"),
        (("n7", "n8", "--fingerprint", "0x1"), "--fingerprint is of one NODE"),
        (("n7", "--fingerprint", "xyz"), "'xyz' is no fingerprint. Copy it from the node's log"),
        (("--auto", "--for", "25h"), "'25h' is no time. Write 90s, 10m or 2h, a day at most"),
        (("--auto", "--for", "10"), "'10' is no time"),
        (("--identity", "name=x"), "'name=x' is no part of an identity. Write it such as mac="),
        (("--identity", "mac=12"), "'12' is no hardware address"),
        (("--identity", "uuid=12"), "'12' is no UUID. Copy it from shardfw status"),
        (("--identity", "serial=a,serial=b"), "'serial=b' is no part of an identity"),
        (("n.7",), "a node's name has letters, digits, _ and - alone"),
    ],
)
def test_wrong_usage_is_refused_before_anything_is_released(words, said):
    async def work(server):
        return await approve(server, *words, **TOKEN_IN)

    result = served(work)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())


# -- what may be said, and by whom ----------------------------------------------------------------
def test_the_restricted_user_may_enrol_and_do_nothing_else():
    options = NatsOptions(
        users=(
            NatsUser("enrol", "e", permissions=enrol_permissions("b1")),
            NatsUser("n7", "pw", permissions=node_permissions("b1", "n7")),
            NatsUser("ada", "a"),
        )
    )

    async def work(server):
        async with EnrollingNode(server.url, login=ENROL_LOGIN) as node:
            done = await approve(
                server, "n7", "--fingerprint", shown(node), "--user", "ada", "--node-user", "n7",
                **{"SHARDFW_NATS_PASSWORD": "a", "SHARDFW_NODE_PASSWORD": "pw"}, **TOKEN_IN,
            )  # fmt: skip
            assert done.exit_code == 0, done.output
            client = node.client
            for subject in ("$KV.shardfw.b1.ctl.plan", "shardfw.b1.ev.0.READY", "_E.n8.3fa2c1d0.c.1",
                            "$JS.API.DIRECT.GET.KV_shardfw.$KV.shardfw.b1.sess.0",
                            "shardfw.b2.enrol.n7"):  # fmt: skip
                await client.publish(subject, b"x")
            for subject in ("shardfw.b1.ev.>", "shardfw.b1.enrol.*", "_I.>", "$KV.>", ">"):
                await client.subscribe(subject)
            await client.flush()
            for _ in range(50):
                if len(node.errors) >= 10:
                    break
                await asyncio.sleep(0.05)
            no_operator = await approve(server, "--user", "enrol", **{"SHARDFW_NATS_PASSWORD": "e"})
            return node, no_operator

    node, no_operator = served(work, options)
    assert len(node.errors) == 10
    assert all("permissions violation" in text.lower() for text in node.errors)
    assert "NATS does not let this user do that" in error_of(no_operator)
    assert "An operator subscribes to shardfw.b1.enrol.* and publishes to _E.>" in error_of(
        no_operator
    )


def line(body, *, subject="shardfw.b1.enrol.n7", reply="_E.n7.3fa2c1d0.c.1"):
    return Announcement.parse(subject, reply, body.encode())


KEY = "ab" * 32


def test_an_announcement_is_read_strictly():
    good = f"1 waiting 0 {KEY} {IDENTITY}"
    assert line(good).node == "n7"
    assert line(f"1 enrolled 12 {KEY} {IDENTITY}", reply="").enrolled
    for body in (
        "", good + " ", " " + good, good.replace("1 w", "2 w"), good.replace("waiting", "asking"),
        good.replace(" 0 ", " 00 "), good.replace(KEY, KEY[:-1]), good.replace(KEY, KEY.upper()),
        good.replace("525400000077", "52540000007"), good.replace(BUILD_ID, BUILD_ID[:-2]),
        good.replace("S-1", "S 1"), good.replace("S-1", "x" * 65), good.replace("S-1", "\x1b[31m"),
    ):  # fmt: skip
        assert line(body) is None, body
    assert line(good, subject="shardfw.b1.enrol.n*7") is None


@pytest.mark.parametrize(
    "reply",
    ["", "$KV.shardfw.b1.ctl.plan", "_E.n8.3fa2c1d0.c.1", "_I.n7.3fa2c1d0.c.1", "_E.n7.3fa2c1d0.c.0",
     "_E.n7.3fa2c1d0.c.1.x", "_E.n7.3fa2c1d.c.1", "_E.n7.3fa2c1d0.d.1", "_E.n7.3fa2c1d0.c.*"],
)  # fmt: skip
def test_an_answer_goes_to_the_inbox_of_that_node_alone(reply):
    assert line(f"1 waiting 0 {KEY} {IDENTITY}", reply=reply) is None


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("mac=52:54:00:00:00:77", True),
        ("mac=525400000077,serial=S-1", True),
        ("uuid=4C4C4544-0057-4D10-8030-B4C04F4B5931", True),
        ("serial=S-1", True),
        ("serial=S 1", False),
        ("mac=525400000077,serial=S-2", False),
        ("uuid=4c4c4544-0057-4d10-8030-b4c04f4b5932", False),
    ],
)
def test_an_identity_is_all_that_is_given_of_it(text, matches):
    assert Identity.parse(text).is_of(line(f"1 waiting 0 {KEY} {IDENTITY}")) == matches


def test_a_serial_number_is_compared_as_the_node_writes_it():
    assert Identity.parse("serial=VMware-56 4d  ").serial == "VMware-56_4d"
    assert Identity.parse("serial=" + "x" * 80).serial == "x" * 64


def test_a_key_of_small_order_is_not_sealed_to():
    from toolchain.cli.fleet.connect import FleetError

    with pytest.raises(FleetError, match="n7 announces a public key that is none"):
        Announcement("n7", False, 0, bytes(32), IDENTITY, "_E.x").seal("b1", b"grant")
