"""`shardfw status` with TLS: what each shard agreed on with its server, and who vouches for it."""

import asyncio
import json
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

from firmware.layouts.shard import ShardState
from firmware.layouts.tls import Group, Suite, TlsState
from firmware.layouts.trust import name_hash
from firmware.layouts.x509 import KeyKind
from tests.support.fake_node import FakeNode, FakeShard
from toolchain.cli.runtime import ControlServer
from toolchain.cli.status import command
from toolchain.trust import choose

NODE = {"now": 9_000_000, "cycles_per_ms": 1000, "boot_tsc": 4_000_000, "global_total": 4}
ANCHOR = next(a for a in choose("web", (), datetime.now(UTC)).anchors if a.label == "ISRG Root X1")
VERIFIED = {
    "tls_state": TlsState.CONNECTED,
    "tls_suite": Suite.AES_128_GCM_SHA256,
    "tls_group": Group.X25519,
    "tls_key": KeyKind.P256,
    "tls_anchor": name_hash(ANCHOR.subject),
}
PRIVATE = VERIFIED | {
    "tls_suite": Suite.CHACHA20_POLY1305_SHA256,
    "tls_group": Group.SECP256R1,
    "tls_key": KeyKind.RSA,
    "tls_anchor": 0x0123_4567_89AB_CDEF,
}
EARLY = {"tls_state": TlsState.WAIT_EXTENSIONS, "tls_suite": Suite.AES_256_GCM_SHA384}
PLAIN = {"tls_state": TlsState.PASS_THROUGH}
AGREED = {
    "protocol": "TLS 1.3",
    "suite": "TLS_AES_128_GCM_SHA256",
    "group": "x25519",
    "chain": "verified",
    "key": "P256",
    "anchor": "ISRG Root X1",
    "anchor_hash": f"{name_hash(ANCHOR.subject):016x}",
}


def shards_of(*replies):
    return [
        FakeShard({"state": ShardState.READY, "shard_id": n}, dict(reply))
        for n, reply in enumerate(replies)
    ]


def ask(*replies, argv=()):
    with FakeNode(NODE, shards_of(*replies)) as node:
        result = CliRunner().invoke(command, ["--port", str(node.port), *argv])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_json_has_protocol_suite_group_and_chain_of_each_shard():
    shown = json.loads(ask(VERIFIED, PRIVATE, EARLY, PLAIN, argv=["--json"]))["shards"]
    verified, private, early, plain = (row["tls"] for row in shown)
    assert verified == AGREED
    assert private == AGREED | {
        "suite": "TLS_CHACHA20_POLY1305_SHA256",
        "group": "secp256r1",
        "key": "RSA",
        "anchor": None,
        "anchor_hash": "0123456789abcdef",
    }
    assert early == AGREED | {
        "suite": "TLS_AES_256_GCM_SHA384",
        "group": None,
        "chain": "pending",
        "key": None,
        "anchor": None,
        "anchor_hash": None,
    }
    assert plain is None


def test_numbers_that_have_no_name_are_shown():
    (row,) = json.loads(ask(VERIFIED | {"tls_suite": 0x1304}, argv=["--json"]))["shards"]
    assert row["tls"]["suite"] == "TLS_unknown(4868)"


def test_a_table_shows_the_shards_that_speak_tls():
    lines = [line.split() for line in ask(VERIFIED, PRIVATE, EARLY, PLAIN).splitlines()]
    table = lines[lines.index(["TLS"]) :]
    assert "0 TLS 1.3 TLS_AES_128_GCM_SHA256 x25519 verified P256 ISRG Root X1".split() in table
    assert (
        "1 TLS 1.3 TLS_CHACHA20_POLY1305_SHA256 secp256r1 verified RSA 0123456789abcdef".split()
        in table
    )
    assert "2 TLS 1.3 TLS_AES_256_GCM_SHA384 - pending - -".split() in table
    assert not [line for line in table if line[:2] == ["3", "TLS"]]


def test_a_plain_node_has_no_such_table():
    assert ["TLS"] not in [line.split() for line in ask(PLAIN).splitlines()]


@pytest.mark.parametrize("label", ["my own CA", "odd [red] name"])
def test_the_runner_knows_the_anchors_that_certifi_does_not(tmp_path, monkeypatch, label):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    async def serve(port):
        async def where(_request):
            known = {"0123456789abcdef": label}
            return {"diagnostics_host": "127.0.0.1", "diagnostics_port": port, "anchors": known}

        async with ControlServer("node", {"where": where}):
            return await asyncio.to_thread(CliRunner().invoke, command, [])

    with FakeNode(NODE, shards_of(VERIFIED, PRIVATE)) as node:
        result = asyncio.run(serve(node.port))
    assert result.exit_code == 0, result.output
    assert label in result.stdout
    assert "ISRG Root X1" in result.stdout


def test_the_hybrid_has_its_name():
    told = json.loads(ask(VERIFIED | {"tls_group": Group.X25519MLKEM768}, argv=("--json",)))
    assert told["shards"][0]["tls"]["group"] == "x25519mlkem768"
