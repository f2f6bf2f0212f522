"""`shardfw fleet approve --auto` over a real server: known machines, each served once."""

import asyncio

import pytest

from tests.support.approving import TOKEN_IN, approve, error_of, quick, served
from tests.support.enrolling import IDENTITY, EnrollingNode


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    quick(monkeypatch)


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
