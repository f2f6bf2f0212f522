"""`shardfw fleet approve` over a real server: who waits, to whom the token goes, and to whom not."""

import asyncio
import json

import nkeys
import pytest
from click.testing import CliRunner

from firmware.layouts.fleet_config import BusAuth
from pxe.nats import NatsOptions, NatsUser, enrol_permissions, node_permissions, settle
from tests.support.approving import TOKEN, TOKEN_IN, approve, error_of, quick, served, shown
from tests.support.enrolling import BUILD_ID, IDENTITY, EnrollingNode
from toolchain.cli.fleet import command
from toolchain.config.nkey import nkey_of

ENROL_LOGIN = {"user": "enrol", "password": "e"}
FACTS = {
    "mac": "52:54:00:00:00:77",
    "uuid": "4c4c4544-0057-4d10-8030-b4c04f4b5931",
    "serial": "S-1",
    "build_id": BUILD_ID,
}


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    quick(monkeypatch)


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


# -- by whom --------------------------------------------------------------------------------------
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
            await settle(client)
            for _ in range(50):
                if len(node.errors) >= 10:
                    break
                await asyncio.sleep(0.05)
            no_operator = await approve(server, "--user", "enrol", **{"SHARDFW_NATS_PASSWORD": "e"})
            return node, no_operator

    node, no_operator = served(work, options)
    assert len(node.errors) == 10
    assert all("permissions violation" in text.lower() for text in node.errors)
    assert " does not let user 'enrol' do that: permissions violation" in error_of(no_operator)
    assert "An operator subscribes to shardfw.b1.enrol.* and publishes to _E.>" in error_of(
        no_operator
    )
