"""What the parser keeps of the documents that discovery reads."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.layouts.json import DocumentField, JsonKind, JsonState, Vocabulary
from tests.support.json_parser import READY, Parser

BOT = json.dumps(
    {
        "url": "ws://gateway.test:8080/ws",
        "shards": 9,
        "total": 1,
        "session_start_limit": {
            "total": 1000, "remaining": 999, "reset_after": 14400000, "max_concurrency": 16,
            "url": "no", "deeper": {"total": 5},
        },
        "endpoints": {"gateway": "no"},
        "retry_after": 1.5,
    }
).encode()  # fmt: skip
WELL_KNOWN = json.dumps(
    {
        "url": "no",
        "session_start_limit": {"total": 1},
        "endpoints": {"api": "http://a", "gateway": "ws://fluxer.test", "total": 3},
        "retry_after": 30,
    }
).encode()


def document(vocabulary, text):
    parser = Parser(vocabulary)
    assert parser.feed(text) == 0
    assert parser.view.state == JsonState.END
    return parser


def kept(parser):
    return {
        field.name: parser.value(field)
        for field in DocumentField
        if parser.kind(field) not in (JsonKind.ABSENT, JsonKind.OBJECT)
    }


def test_json_feed_keeps_of_a_bot_document_what_discovery_needs():
    parser = document(Vocabulary.GATEWAY_BOT, BOT)
    assert parser.text(DocumentField.URL, "resume_url") == b"ws://gateway.test:8080/ws"
    assert kept(parser) == {
        "URL": 25, "TOTAL": 1000, "REMAINING": 999, "RESET_AFTER": 14400000,
        "MAX_CONCURRENCY": 16, "RETRY_AFTER": 1500, "SHARDS": 9,
    }  # fmt: skip
    assert parser.kind(DocumentField.RETRY_AFTER) == JsonKind.DECIMAL


def test_json_feed_keeps_of_a_well_known_document_what_discovery_needs():
    parser = document(Vocabulary.WELL_KNOWN, WELL_KNOWN)
    assert parser.text(DocumentField.URL, "resume_url") == b"ws://fluxer.test"
    assert kept(parser) == {"URL": 16, "RETRY_AFTER": 30}


@pytest.mark.parametrize("vocabulary", [Vocabulary.GATEWAY_BOT, Vocabulary.WELL_KNOWN])
def test_json_feed_of_an_envelope_keeps_nothing_for_a_document(vocabulary):
    assert kept(document(vocabulary, READY)) == {}


def test_json_feed_a_new_message_leaves_the_vocabulary():
    parser = document(Vocabulary.WELL_KNOWN, WELL_KNOWN)
    parser.again()
    assert parser.view.vocabulary == Vocabulary.WELL_KNOWN


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(0, len(BOT)), vocabulary=st.sampled_from(Vocabulary))
def test_json_feed_documents_in_any_two_parts(cut, vocabulary):
    parser = Parser(vocabulary)
    assert parser.feed(BOT[:cut]) == 0
    assert parser.feed(BOT[cut:]) == 0
    assert parser.view.state == JsonState.END


def test_json_feed_a_document_key_that_is_no_utf8_is_only_unknown():
    assert kept(document(Vocabulary.WELL_KNOWN, b'{"' + b"\xff" * 24 + b'":1}')) == {}


def test_json_feed_a_document_key_counts_to_its_last_letter():
    nested = b'"session_start_limit":{"max_concurrency_x":1,"max_conc":2,"reset_aftex":3}'
    parser = document(Vocabulary.GATEWAY_BOT, b'{"session_start_limix":4,' + nested + b"}")
    assert kept(parser) == {}
    assert parser.kind(DocumentField.NESTED) == JsonKind.OBJECT
