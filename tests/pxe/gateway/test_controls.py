"""Trouble on command, without sockets and without real time."""

import pytest

from pxe.gateway import Abort, HangUp, Send, Wire


class TestControls:
    @pytest.mark.parametrize("code", [1000, 1001, 1005, 1011, 4000, 4004, 4014, 4999])
    def test_kick_closes_with_the_code(self, bench, code):
        b = bench()
        client = b.ready()
        b.gateway.kick(0, code)
        b.pump()
        assert client.code == code
        assert b.stats().closes == {str(code): 1}
        assert not b.stats().connected

    @pytest.mark.parametrize("code", [999, 1004, 1006, 1015, 2999, 5000])
    def test_kick_refuses_codes_that_no_frame_may_carry(self, bench, code):
        b = bench()
        b.ready()
        with pytest.raises(ValueError, match=f"close code {code} cannot be sent: give 1000-1003"):
            b.gateway.kick(0, code)

    def test_reconnect_sends_op_7(self, bench):
        b = bench()
        client = b.ready()
        b.gateway.reconnect(0)
        b.pump()
        assert client.messages[-1] == {"t": None, "s": None, "op": 7, "d": None}
        assert b.stats().reconnect_requests == 1

    @pytest.mark.parametrize("resumable", [True, False])
    def test_invalidate_sends_op_9_and_keeps_or_drops_the_session(self, bench, resumable):
        b = bench()
        client = b.ready()
        b.gateway.invalidate(0, resumable=resumable)
        b.pump()
        assert client.messages[-1] == {"t": None, "s": None, "op": 9, "d": resumable}
        client.connection.lost(4000)
        again = b.connect()
        again.resume(client.ready()["session_id"], 1)
        assert again.ops()[-1] == (0 if resumable else 9)

    def test_edited_ready_has_other_fields_or_none(self, bench):
        b = bench()
        b.gateway.edit_ready(shard=[7, 9], resume_gateway_url=None)
        edited = b.ready().ready()
        assert edited["shard"] == [7, 9]
        assert "resume_gateway_url" not in edited
        b.gateway.edit_ready()
        again = b.connect()
        b.clock.advance(5_000)
        again.identify()
        assert again.ready()["shard"] == [0, 1]

    def test_abort_resets_and_drops_what_was_queued(self, bench):
        b = bench()
        client = b.ready()
        b.gateway.dispatch(0, "A", {})
        b.gateway.abort(0)
        b.pump()
        assert client.end == Abort()
        assert client.events() == [("READY", 1)]
        again = b.connect()
        again.resume(client.ready()["session_id"], 1)
        assert again.events() == [("A", 2), ("RESUMED", 2)]

    def test_stalled_connection_is_silent_until_released(self, bench):
        b = bench(heartbeat_interval_ms=10_000)
        client = b.ready()
        b.gateway.stall(0)
        client.send(1, 1)
        b.gateway.dispatch(0, "A", {})
        b.advance(100_000)
        assert client.ops() == [10, 0]
        b.gateway.release(0)
        b.pump()
        assert client.ops() == [10, 0, 0, 11]
        assert client.end is None

    def test_session_of_a_stalled_connection_can_be_resumed(self, bench):
        b = bench()
        client = b.ready()
        b.gateway.stall(0)
        b.gateway.dispatch(0, "A", {})
        client.connection.lost()
        again = b.connect()
        again.resume(client.ready()["session_id"], 1)
        assert again.events() == [("A", 2), ("RESUMED", 2)]

    def test_hang_up_and_bytes_are_left_to_the_transport(self, bench):
        b = bench()
        client = b.ready()
        b.gateway.send_bytes(0, b"\x89")
        b.gateway.hang_up(0)
        b.pump()
        assert (client.wire, client.end) == ([Wire(b"\x89")], HangUp())
        again = b.connect()
        again.resume(client.ready()["session_id"], 1)
        assert again.events() == [("RESUMED", 1)]

    @pytest.mark.parametrize(("urls", "named"), [({0: "ws://x:1"}, "ws://x:1"), ({0: ""}, None)])
    def test_ready_names_the_url_that_is_set_for_a_shard(self, bench, urls, named):
        b = bench(resume_urls=urls)
        assert b.ready().ready().get("resume_gateway_url") == named

    def test_refusal_at_a_door_waits_for_its_shard(self, bench):
        gateway = bench(shards=2).gateway
        gateway.refuse_upgrades(503, shard=1)
        assert gateway.take_upgrade_refusal() is None
        assert gateway.take_upgrade_refusal(0) is None
        assert gateway.take_upgrade_refusal(1).status == 503
        assert gateway.take_upgrade_refusal(1) is None

    def test_request_heartbeat_sends_op_1(self, bench):
        b = bench()
        client = b.ready()
        b.gateway.request_heartbeat(0)
        b.pump()
        assert client.messages[-1]["op"] == 1

    def test_send_raw_sends_the_text_as_it_is(self, bench):
        b = bench()
        client = b.ready()
        b.gateway.send_raw(0, "{")
        (who, action), *rest = b.gateway.drain()
        assert (who, action, rest) == (client.connection, Send("{"), [])

    def test_restart_forgets_sessions_unless_told(self, bench):
        for keep, op in ((True, 0), (False, 9)):
            b = bench()
            client = b.ready()
            b.gateway.restart(keep_sessions=keep)
            b.pump()
            assert client.end == Abort()
            again = b.connect()
            again.resume(client.ready()["session_id"], 1)
            assert again.ops()[-1] == op

    def test_controls_of_an_absent_shard_say_which_are_there(self, bench):
        b = bench(shards=4)
        b.ready(2)
        message = r"shard 3 has no connection: wait for READY \(connected shards: 2\)"
        with pytest.raises(LookupError, match=message):
            b.gateway.kick(3)
        with pytest.raises(LookupError, match="shard 9 has no session: wait for READY"):
            b.gateway.dispatch(9, "A", {})

    def test_other_shards_are_untouched(self, bench):
        b = bench(shards=3, max_concurrency=3)
        clients = [b.ready(shard) for shard in range(3)]
        b.gateway.kick(1, 4000)
        b.gateway.dispatch(0, "A", {})
        b.pump()
        assert [client.code for client in clients] == [None, 4000, None]
        assert clients[0].events() == [("READY", 1), ("A", 2)]
        assert clients[2].events() == [("READY", 1)]

    def test_slow_client_is_dropped_at_the_bound(self, bench):
        b = bench(max_queued_bytes=10_000)
        client = b.ready()
        for _ in range(6):
            b.gateway.dispatch(0, "A", "x" * 2_000)
        assert b.gateway.drain() == [(client.connection, Abort())]
        assert "slow_client" in [e.name for e in b.events]

    def test_client_that_keeps_reading_is_never_slow(self, bench):
        b = bench(max_queued_bytes=10_000)
        client = b.ready()
        for _ in range(20):
            b.gateway.dispatch(0, "A", "x" * 2_000)
            b.pump()
        assert client.end is None
