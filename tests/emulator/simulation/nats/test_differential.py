"""The simulated NATS says what nats-server 2.15.1 says: the same scripts, the same transcripts."""

from __future__ import annotations

import base64
import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from emulator.simulation.nats.auth import User, nkey_text
from tests.support.nats_script import (
    CONNECT,
    HELLO,
    PASSWORD,
    Script,
    Step,
    cas,
    hpub,
    on_real,
    on_simulated,
    pub,
    watch,
)

LEASE, IDENT = "$KV.shardfw.b1.ctl.lease.0", "$KV.shardfw.b1.ctl.ident.0"
SESSION = "$KV.shardfw.b1.sess.0"
DIRECT = "$JS.API.DIRECT.GET.KV_shardfw"
EVENT = "shardfw.b1.ev.0.MESSAGE_CREATE"
I = "_I.n7."  # noqa: E741 - the letter of the subject
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
NKEY = nkey_text(KEY.public_key().public_bytes_raw())
NODE = User(
    user="n7", password=PASSWORD, publish=("$KV.shardfw.b1.>", "a.>"),
    subscribe=("_I.n7.>", "cmd.>"), responses=True,
)  # fmt: skip


def one(*says: bytes, hello: bytes = HELLO) -> Script:
    """A script of one client, one step for each saying."""
    return Script([Step({"a": hello}), *(Step({"a": each}) for each in says)])


def signed(nonce: str, key: Ed25519PrivateKey = KEY) -> bytes:
    signature = base64.urlsafe_b64encode(key.sign(nonce.encode())).decode().rstrip("=")
    told = {"verbose": False, "headers": True, "nkey": NKEY, "sig": signature}
    return f"CONNECT {json.dumps(told)}\r\nPING\r\n".encode()


SCRIPTS = {
    "a claim, its renewal, a blind retry, a release": one(
        pub(LEASE, b"1 free - - 0 0 0 3 0 4 16", I + "1"),
        cas(LEASE, 1, b"1 held n7 3fa2c1d0 1 1 20000 3 0 4 16", I + "2"),
        cas(LEASE, 2, b"1 held n7 3fa2c1d0 1 2 20000 3 0 4 16", I + "3"),
        cas(LEASE, 2, b"1 held n7 3fa2c1d0 1 2 20000 3 0 4 16", I + "4"),
        cas(LEASE, 3, b"1 free - - 1 4 0 3 0 4 16", I + "5"),
    ),
    "what a compare-and-swap may expect": one(
        cas(LEASE, 0, b"A", I + "1"),
        cas(LEASE, 0, b"B", I + "2"),
        cas(LEASE, "x", b"B", I + "3"),
        cas(IDENT, 7, b"B", I + "4"),
        cas(LEASE, 1, b"", I + "5"),
        hpub(LEASE, b"B", I + "6"),
        pub(LEASE, b"C"),
        cas(LEASE, 4, b"D", ""),
        cas(LEASE, 5, b"E", I + "7"),
    ),
    "several compare-and-swaps in one segment": one(
        b"".join(cas(LEASE, 0, b"%d" % n, f"{I}{n}") for n in range(6)),
        cas(LEASE, 1, b"A", I + "7") + cas(LEASE, 2, b"B", I + "8") + cas(LEASE, 2, b"C", I + "9"),
    ),
    "two clients race": Script([
        Step({"a": HELLO, "b": HELLO.replace(b"n7", b"n8")}),
        Step({"a": cas(LEASE, 0, b"a", I + "1")}),
        Step({"b": cas(LEASE, 0, b"b", "_I.n8.1")}),
        Step({"b": cas(LEASE, 1, b"b", "_I.n8.2")}),
        Step({"a": cas(LEASE, 1, b"a", I + "2")}),
    ]),
    "a watch: first what is there, then what comes": one(
        pub(LEASE, b"1") + pub(IDENT, b"2") + pub(LEASE, b"3") + pub(SESSION, b"4"),
        b"SUB _W.n7.x.1 2\r\n" + watch("_W.n7.x.1", I + "1"),
        cas(IDENT, 2, b"5", I + "2"),
        pub(SESSION, b"6"),
        cas(LEASE, 3, b"7", I + "3"),
        pub(IDENT, b"8"),
    ),
    "a watch whose name and filter stand in the subject": one(
        pub(LEASE, b"1") + pub(SESSION, b"2"),
        b"SUB _W.n7.x.1 2\r\n" + watch("_W.n7.x.1", I + "1", name="n7-x-1"),
        pub(IDENT, b"3"),
        watch("_W.a", I + "2", name="n7-x-2", filter_subject="$KV.shardfw.>"),
    ),
    "a watch of what is not there yet": one(
        b"SUB _W.n7.x.1 2\r\n" + watch("_W.n7.x.1", I + "1"),
        pub(LEASE, b"1"),
    ),
    "watches that begin elsewhere": one(
        pub(LEASE, b"1") + pub(IDENT, b"2"),
        b"SUB _W.a 2\r\n" + watch("_W.a", I + "1", deliver_policy="all"),
        b"SUB _W.b 3\r\n" + watch("_W.b", I + "2", deliver_policy="new"),
        pub(LEASE, b"3"),
    ),
    "a watch made before its SUB is not bound, then runs": one(
        pub(LEASE, b"1"),
        watch("_W.n7.x.1", I + "1"),
        b"SUB _W.n7.x.1 2\r\n",
    ),
    "a wildcard is no interest": one(
        pub(LEASE, b"1"),
        b"SUB _W.n7.x.* 2\r\n" + watch("_W.n7.x.1", I + "1"),
        pub(LEASE, b"2"),
    ),
    "heartbeats of a watch": Script([
        Step({"a": HELLO + pub(LEASE, b"1") + pub(SESSION, b"2") + b"SUB _W.a 2\r\n"}),
        Step({"a": watch("_W.a", I + "1", idle_heartbeat=1_000_000_000)}, wait_s=2.5),
        Step({"a": pub(SESSION, b"3")}, wait_s=2.2),
    ]),
    "a watch ends with its listener": Script([
        Step({"a": HELLO + pub(LEASE, b"1") + b"SUB _W.a 2\r\n"}),
        Step({"a": watch("_W.a", I + "1", inactive_threshold=500_000_000)}),
        Step({"a": b"UNSUB 2\r\n"}, wait_s=2.0),
        Step({"a": b"SUB _W.a 2\r\n" + pub(LEASE, b"2")}),
    ]),
    "watches that are refused": one(
        watch("_W.a", I + "1", filter_subject=None),
        watch("_W.a", I + "2", idle_heartbeat=10_000_000),
        watch("_W.*", I + "3"),
        watch("$KV.shardfw.x", I + "4"),
        watch("_W.a", I + "5", durable_name="d"),
        watch("_W.a", I + "6", bogus=1),
        watch("_W.a", I + "7").replace(b"CREATE.KV_shardfw", b"CREATE.KV_shardfx"),
    ),
    "the newest of a subject": one(
        pub(f"{DIRECT}.{SESSION}", b"", I + "1"),
        cas(SESSION, 0, b"1 1 16 1 5f2c8e0a9b wss://gateway-us-east1-b.discord.gg", I + "2"),
        pub(f"{DIRECT}.{SESSION}", b"", I + "3"),
        pub(SESSION, b"plain"),
        pub(f"{DIRECT}.{SESSION}", b"", I + "4"),
        pub(DIRECT, b"{}", I + "5"),
        pub(DIRECT, b'{"last_by_subj":"$KV.shardfw.>"}', I + "6"),
        pub(DIRECT, b'{"seq":2}', I + "7"),
        pub(DIRECT, b'{"seq":1}', I + "8"),
        pub(DIRECT, b'{"seq":9}', I + "9"),
        pub(DIRECT, b"xxxxx", I + "10"),
        pub("$JS.API.DIRECT.GET.SHARDFW_EV.x", b"", I + "11"),
        pub("$JS.API.DIRECT.GET.NOPE.x", b"", I + "12"),
    ),
    "events are stored once": one(
        hpub(EVENT, b'{"s":2}', I + "1", Nats_Msg_Id="5f2c8e0a9b-2", Shardfw="g=1 n=n7 t=16 s=2"),
        hpub(EVENT, b'{"s":2}', I + "2", Nats_Msg_Id="5f2c8e0a9b-2", Shardfw="g=1 n=n7 t=16 s=2"),
        b"".join(hpub(EVENT, b"x", f"{I}{n}", Nats_Msg_Id=f"s-{n % 3}") for n in range(3, 9)),
        pub(EVENT, b"without an id", I + "9"),
    ),
    "a repeated compare-and-swap with an id": one(
        hpub(LEASE, b"A", I + "1", Nats_Msg_Id="m1", Nats_Expected_Last_Subject_Sequence=0),
        hpub(LEASE, b"A", I + "2", Nats_Msg_Id="m1", Nats_Expected_Last_Subject_Sequence=0),
        hpub(LEASE, b"A", I + "3", Nats_Msg_Id="m1", Nats_Expected_Last_Subject_Sequence=1),
    ),
    "an event is heard by who subscribed and stored": Script([
        Step({"a": HELLO, "b": CONNECT + b"SUB shardfw.b1.ev.> 5\r\nPING\r\n"}),
        Step({"a": hpub(EVENT, b"x", I + "1", Nats_Msg_Id="a-1")}),
        Step({"a": hpub(EVENT, b"x", I + "2", Nats_Msg_Id="a-1")}),
    ]),
    "a command and its answer; nobody for another": Script([
        Step({"a": HELLO + b"SUB shardfw.b1.cmd.0 10\r\n", "b": CONNECT + b"SUB _INBOX.b.* 1\r\n"}),
        Step({"b": pub("shardfw.b1.cmd.0", b'{"op":3}', "_INBOX.b.1")}),
        Step({"a": pub("_INBOX.b.1", b'{"ok":true}')}),
        Step({"b": pub("shardfw.b1.cmd.9", b"x", "_INBOX.b.2")}),
        Step({"a": b"UNSUB 10\r\n"}),
        Step({"b": pub("shardfw.b1.cmd.0", b"x", "_INBOX.b.3")}),
    ]),
    "nobody is there": one(
        pub("nobody", b"x", I + "1"),
        pub("nobody", b"x"),
        pub("$JS.API.FOO", b"", I + "2"),
        pub("a..b", b"", I + "3"),
    ),
    "blanks, tabs, lower case, bare newlines": one(
        b"PUB  foo   _I.n7.1   1\r\nx\r\n", b"PUB foo\t_I.n7.2\t1\r\nx\r\n", b"ping\r\n",
        b"PING\n", b"PING x\r\n", b"+OK\r\nPONG\r\nINFO {}\r\nPING\r\n",
    ),
    "subscriptions": one(
        b"SUB x 7\r\nSUB y 7\r\n" + pub("x", b"1") + pub("y", b"2"),
        b"SUB u.* 8\r\nUNSUB 8 1\r\n" + pub("u.a", b"1") + pub("u.b", b"2"),
        b"UNSUB 77\r\n",
        b"SUB a..b 4\r\n",
        b"SUB b.>.c 4\r\nSUB b.* 5\r\nSUB b.> 6\r\n" + pub("b.c", b"") + pub("b.c.d", b"x"),
        b"SUB h 9\r\n" + hpub("h", b"x", Some_Field=1) + b"HPUB h 3 5\r\nabcde\r\n",
    ),
    "the largest payload": one(pub("x", bytes(65_536)), b"PING\r\n", b"PUB x 65537\r\n"),
    "headers count too": one(b"HPUB x 12 65537\r\n"),
    "a control line without an end": one(b"SUB " + b"a" * 5000 + b" 5\r\n"),
    "verbose": one(
        b"SUB x 1\r\n", pub("y", b"1"), b"UNSUB 1\r\n", b"PING\r\n",
        hello=b'CONNECT {"verbose":true,"protocol":1}\r\n',
    ),
    "pedantic": one(
        pub("a.*", b""), pub("a..b", b""), pub("a.b", b""),
        hello=b'CONNECT {"verbose":false,"pedantic":true}\r\n',
    ),
    "no headers for who did not ask for them": one(
        b"SUB h 9\r\n" + pub("h", b"x"), pub("nobody", b"", "_I.n7.1"),
        hello=b'CONNECT {"verbose":false}\r\nSUB _I.n7.* 1\r\n',
    ),
    "no_responders needs headers": one(hello=b'CONNECT {"no_responders":true}\r\n'),
    "a right password": Script([
        Step({"a": b'CONNECT {"user":"n7","pass":"pw","verbose":false,"headers":true}\r\nPING\r\n'}),
        Step({"a": b"SUB _I.n7.* 1\r\nSUB elsewhere 2\r\n"}),
        Step({"a": pub("b", b"x")}),
        Step({"a": pub("a.b", b"x", I + "1") + cas(LEASE, 0, b"x", I + "2")}),
        Step({"a": b'CONNECT {"user":"n7","pass":"no"}\r\n'}),
    ], users=(NODE,)),
    "an answer is allowed once": Script([
        Step({"a": b'CONNECT {"user":"n7","pass":"pw","verbose":false}\r\nSUB cmd.0 1\r\n',
              "b": b'CONNECT {"user":"b","pass":"pw","verbose":false}\r\nSUB _INBOX.b.* 1\r\n'}),
        Step({"b": pub("cmd.0", b"?", "_INBOX.b.1")}),
        Step({"a": pub("_INBOX.b.1", b"!")}),
        Step({"a": pub("_INBOX.b.1", b"!")}),
    ], users=(NODE, User(user="b", password=PASSWORD))),
    "a wrong password": Script(
        [Step({"a": b'CONNECT {"user":"n7","pass":"no","verbose":false}\r\n'})], users=(NODE,)
    ),
    "words before CONNECT": Script([Step({"a": b"PING\r\n"})], users=(NODE,)),
    "no CONNECT in time": Script([Step({"a": b""}, wait_s=1.5)], users=(NODE,), auth_timeout_s=1),
    "an nkey": Script([Step({"a": lambda info: signed(info["nonce"])})], users=(User(nkey=NKEY),)),
    "an nkey that signed another nonce": Script(
        [Step({"a": lambda info: signed(info["nonce"] + "x")})], users=(User(nkey=NKEY),)
    ),
    "an nkey of somebody else": Script(
        [Step({"a": lambda info: signed(info["nonce"], Ed25519PrivateKey.generate())})],
        users=(User(nkey=NKEY),),
    ),
}  # fmt: skip

BROKEN = {
    "unknown": b"FOO\r\n", "empty": b"\r\n", "error": b"-ERR 'x'\r\n", "sub": b"SUB x\r\n",
    "sub of four": b"SUB a b c d\r\n", "pub": b"PUB x\r\n", "pub of four": b"PUB x y z 1\r\n",
    "negative": b"PUB x -1\r\n", "no number": b"PUB x abc\r\n", "head": b"HPUB x 12 10\r\n",
    "no end": b"PUB x 1\r\nxy\r\n", "connect": b"CONNECT {\r\n", "unsub": b"UNSUB\r\n",
}  # fmt: skip


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_both_say_the_same(script):
    said = on_simulated(script)
    assert said == on_real(script, said)


@pytest.mark.parametrize("line", BROKEN.values(), ids=BROKEN.keys())
def test_both_end_the_same_way(line):
    script = one(line)
    said = on_simulated(script)
    assert said == on_real(script, said)
