"""What leaves for NATS, byte for byte as a real server took it."""

import pytest

from firmware.fleet.texts import put_inbox, put_us, watch_text
from firmware.layouts.fleet import FLEET, WATCH_TEXT_MAX
from firmware.layouts.fleet_config import FLEET_CONFIG, NAME_MAX
from tests.support.fleet import name_node
from tests.support.lab import INPUT, Lab

LAB = Lab(put_inbox, put_us, watch_text, slots=0)
BIG = 2**32 - 1


@pytest.fixture(autouse=True)
def node():
    LAB.reset()
    name_node(LAB)


def written(routine, **inputs):
    end = LAB.call(routine, text=INPUT, **inputs).outputs["rdi"]
    return LAB.machine.read(INPUT, end - INPUT)


def test_put_inbox_names_the_control_connection():
    assert written(put_inbox, number=12) == b"_I.n7.3fa2c1d0.c.12"
    assert written(put_us) == b"n7.3fa2c1d0."


def test_watch_text_subscribes_literally_before_it_asks():
    fleet = LAB.g(FLEET)
    fleet.resyncs, fleet.watch_sid = 1, 2
    assert written(watch_text, request=1, last=0) == (
        b"SUB _W.n7.3fa2c1d0.1 2\r\n"
        b"PUB $JS.API.CONSUMER.CREATE.KV_shardfw _I.n7.3fa2c1d0.c.1 285\r\n"
        b'{"stream_name":"KV_shardfw","config":{"deliver_subject":"_W.n7.3fa2c1d0.1",'
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
    assert len(written(watch_text, request=BIG, last=BIG)) <= WATCH_TEXT_MAX
