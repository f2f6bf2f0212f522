"""How a node is asked: so many questions at once, lost ones again, strangers' answers ignored."""

import pytest

from firmware.layouts.status import StatusReply
from tests.support.fake_node import FakeNode
from tests.support.status_examples import FAILED, HELD, NODE, READY
from toolchain.cli import diagnostics
from toolchain.cli.diagnostics import NoAnswerError, ask

PATIENCE_S = 60.0


@pytest.fixture
def node():
    with FakeNode(NODE, [READY, FAILED, HELD]) as running:
        yield running


def test_not_more_questions_are_open_than_a_card_holds(monkeypatch):
    batches, collect = [], diagnostics._collect

    def record(node, until, batch, nonces, answers):
        batches.append(len(batch))
        collect(node, until, batch, nonces, answers)

    monkeypatch.setattr(diagnostics, "_collect", record)
    monkeypatch.setattr(diagnostics, "ROUND_S", PATIENCE_S)
    with FakeNode(NODE, [READY] * 256) as node:
        found = ask("127.0.0.1", node.port, PATIENCE_S)
    assert [reply["slot"] for reply in found] == list(range(256))
    assert batches == [1, *([32] * 7), 31]


def test_a_request_is_as_long_as_the_answer(node):
    ask("127.0.0.1", node.port)
    assert set(node.sizes) == {StatusReply.SIZE}


def test_lost_datagrams_are_asked_again():
    with FakeNode(NODE, [READY, FAILED], lose=2) as node:
        assert [r["slot"] for r in ask("127.0.0.1", node.port)] == [0, 1]


def test_a_strangers_answer_is_ignored():
    class Liar(FakeNode):
        def answer(self, request):
            answer = super().answer(request) or b""
            return answer[:8] + bytes(8) + answer[16:]  # another nonce

    with Liar(NODE, [READY]) as node, pytest.raises(NoAnswerError) as caught:
        ask("127.0.0.1", node.port, timeout=0.4)
    assert "did not answer for slot 0 within 0.4 s" in str(caught.value)
    assert "[diagnostics] port" in str(caught.value)
