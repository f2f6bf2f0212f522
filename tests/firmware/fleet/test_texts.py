"""What leaves for NATS, byte for byte as a real server took it."""

import pytest

from firmware.fleet.texts import key_begin, lease_text, put_holder, put_us, watch_text
from firmware.layouts.bus import BUS
from firmware.layouts.fleet import (
    FLEET,
    FLEET_OUT,
    KEY_MAX,
    VALUE_MAX,
    WATCH_TEXT_MAX,
)
from firmware.layouts.fleet_config import FLEET_CONFIG, NAME_MAX
from tests.support.fleet import name_node, set_fields
from tests.support.lab import INPUT, Lab

LAB = Lab(key_begin, lease_text, put_holder, put_us, watch_text, slots=0)
BIG = 2**32 - 1


@pytest.fixture(autouse=True)
def node():
    LAB.reset()
    name_node(LAB)


def written(routine, **inputs):
    if "link" in routine.parameters:
        inputs["link"] = LAB.g(BUS).links[0].address_
    end = LAB.call(routine, text=INPUT, **inputs).outputs["rdi"]
    return LAB.machine.read(INPUT, end - INPUT)


def test_put_us_and_put_holder_name_the_node():
    assert written(put_us) == b"n7.3fa2c1d0."
    assert written(put_holder) == b"n7 3fa2c1d0 "


def test_watch_text_subscribes_literally_before_it_asks():
    fleet = LAB.g(FLEET)
    fleet.resyncs, fleet.watch_sid = 1, 4097
    assert written(watch_text, request=1, last=0) == (
        b"SUB _W.n7.3fa2c1d0.1 4097\r\n"
        b"PUB $JS.API.CONSUMER.CREATE.KV_shardfw.n7-3fa2c1d0-1.$KV.shardfw.b1.ctl.> "
        b"_I.n7.3fa2c1d0.c.1 308\r\n"
        b'{"stream_name":"KV_shardfw","config":{"name":"n7-3fa2c1d0-1","deliver_subject":"_W.n7.3fa2c1d0.1",'
        b'"deliver_policy":"last_per_subject","ack_policy":"none","max_deliver":1,'
        b'"filter_subject":"$KV.shardfw.b1.ctl.>","idle_heartbeat":1000000000,'
        b'"mem_storage":true,"num_replicas":1,"inactive_threshold":10000000000}}\r\n'
    )


def test_watch_text_ends_the_last_watch_of_the_connection():
    fleet = LAB.g(FLEET)
    fleet.resyncs, fleet.watch_sid = 2, 4098
    text = written(watch_text, request=7, last=4097)
    assert text.startswith(b"UNSUB 4097\r\nSUB _W.n7.3fa2c1d0.2 4098\r\nPUB ")


def test_watch_text_of_the_longest_names_fits():
    name_node(LAB, node=b"n" * NAME_MAX)
    config, fleet = LAB.g(FLEET_CONFIG), LAB.g(FLEET)
    config.bot[:NAME_MAX], config.bot_len = b"b" * NAME_MAX, NAME_MAX
    fleet.resyncs = fleet.watch_sid = BIG
    for last in (0, BIG):
        assert len(written(watch_text, request=BIG, last=last)) <= WATCH_TEXT_MAX


def record():
    out = LAB.g(FLEET_OUT)
    return bytes(out.key[: out.key_len]), bytes(out.value[: out.value_len])


def test_lease_text_of_a_claim_and_of_a_release():
    held = LAB.g(FLEET).held[2]
    set_fields(held, slot=0, generation=1, duration_ms=20_000, epoch=3, start=0, count=4, total=16)
    LAB.call(lease_text, held=held.address_, op=1, claimed=1)
    assert record() == (b"$KV.shardfw.b1.ctl.lease.0", b"1 held n7 3fa2c1d0 1 1 20000 3 0 4 16")
    LAB.call(lease_text, held=held.address_, op=4, claimed=0)
    assert record() == (b"$KV.shardfw.b1.ctl.lease.0", b"1 free - - 1 4 0 3 0 4 16")


def test_lease_text_of_the_longest_names_and_numbers_fits():
    name_node(LAB, node=b"n" * NAME_MAX)
    config, held = LAB.g(FLEET_CONFIG), LAB.g(FLEET).held[0]
    config.bot[:NAME_MAX], config.bot_len = b"b" * NAME_MAX, NAME_MAX
    names = ("generation", "duration_ms", "epoch", "start", "count", "total")
    set_fields(held, slot=63, **dict.fromkeys(names, BIG))
    LAB.call(lease_text, held=held.address_, op=BIG, claimed=1)
    key, value = record()
    assert len(key) <= KEY_MAX
    assert len(value) <= VALUE_MAX


def test_key_begin_takes_any_rest():
    rest = b"ident."
    end = LAB.call(key_begin, rest=LAB.put(rest), length=len(rest)).outputs["rdi"]
    at = LAB.g(FLEET_OUT).offset_of("key")
    assert LAB.machine.read(at, end - at) == b"$KV.shardfw.b1.ctl.ident."
