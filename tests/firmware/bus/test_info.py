"""INFO: what counts is found wherever it stands, and nothing else is taken for it."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.bus.info import bus_info, bus_version
from firmware.layouts.bus import NONCE_MAX, BusLink
from tests.support.lab import Lab

LAB = Lab(bus_info, bus_version, slots=0)
SEEN = {
    "server_id": "NBQOPH7USEEHBGD3CIOGGSXABVBGUJHEAIHOYYAOCNKOD7QPSR7VTCFZ", "server_name": "tr",
    "version": "2.15.1", "proto": 1, "git_commit": "b2fd3ef", "go": "go1.27.2", "host": "127.0.0.1",
    "port": 19505, "headers": True, "auth_required": True, "max_payload": 8388608,
    "jetstream": True, "client_id": 13, "client_ip": "127.0.0.1", "api_lvl": 5,
}  # fmt: skip
FIELDS = (
    "version", "max_payload", "clustered", "lame_duck", "tls_required", "tls_available", "headers",
)  # fmt: skip


def told(raw):
    """Read a text in lockstep; return whether it was refused, and the link."""
    LAB.reset()
    at = LAB.machine.alloc(BusLink.SIZE)
    link = LAB.view(BusLink, at)
    link.wipe()
    for name in FIELDS:
        setattr(link, name, 0xEE)
    link.nonce_len = 0xEE
    out = LAB.call(bus_info, link=at, text=LAB.put(raw), length=len(raw)).outputs
    return out["cf"], link


def known(**members):
    wrong, link = told(json.dumps(members, separators=(",", ":")).encode())
    assert not wrong
    return link


def of(link):
    return {name: int(getattr(link, name)) for name in FIELDS if getattr(link, name)}


def test_what_a_server_says_of_itself():
    link = known(**SEEN)
    assert of(link) == {
        "version": 0x020F01, "max_payload": 8388608, "headers": 1,
    }  # fmt: skip
    assert link.nonce_len == 0


def test_everything_that_counts():
    link = known(
        ldm=True, tls_required=True, tls_available=True, headers=True,
        nonce="a-_Zz09", version="2.9.21", cluster="c1", max_payload=1,
    )  # fmt: skip
    assert of(link) == {
        "version": 0x020915, "max_payload": 1, "clustered": 1, "lame_duck": 1, "tls_required": 1,
        "tls_available": 1, "headers": 1,
    }  # fmt: skip
    assert bytes(link.nonce)[: link.nonce_len] == b"a-_Zz09"


def test_what_is_false_null_or_empty_is_not_so():
    link = known(ldm=False, headers=None, tls_required=1, tls_available="true", cluster="")
    assert of(link) == {}


@pytest.mark.parametrize(
    "lie", ['"cluster":"x"', '","cluster":"x","y":"', '\\","ldm":true,"', "}", "{", "]", "\\"]
)
def test_a_string_is_not_taken_for_members(lie):
    assert of(known(server_name=lie, headers=True)) == {"headers": 1}


def test_members_of_members_do_not_count():
    inside = {"ldm": True, "cluster": "x", "deep": [{"headers": True}, ["}", "{"]]}
    assert of(known(other=inside, list=[inside, inside], tls_required=True)) == {"tls_required": 1}


def test_blanks_between_mean_nothing():
    raw = (
        b' {  "ldm" :\ttrue , "max_payload" : 12 , "version" : "2.10.3" , "cluster": "a" } trailing'
    )
    wrong, link = told(raw)
    assert not wrong
    assert of(link) == {"lame_duck": 1, "max_payload": 12, "version": 0x020A03, "clustered": 1}


@pytest.mark.parametrize(("size", "wrong"), [(0, 0), (NONCE_MAX, 0), (NONCE_MAX + 1, 1)])
def test_a_nonce_has_to_fit(size, wrong):
    got, link = told(b'{"nonce":"' + b"n" * size + b'"}')
    assert (got, link.nonce_len) == (wrong, 0 if wrong else size)


def test_a_nonce_is_a_string():
    assert told(b'{"nonce":15}')[0] == 1


@pytest.mark.parametrize("value", [b"x", b'"1"', b"-1", b"1.5", b"{}", b"18446744073709551616"])
def test_a_size_is_a_number(value):
    assert told(b'{"max_payload":' + value + b"}")[0] == 1


def test_a_size_beyond_a_doubleword_is_as_large_as_one_can_be():
    assert told(b'{"max_payload":%d}' % 2**32)[1].max_payload == 2**32 - 1


@pytest.mark.parametrize(
    "raw",
    [
        b"", b" ", b"{", b"}", b"[]", b"true", b'"ldm"', b'{"', b'{"a"', b'{"a":', b'{"a":}', b'{"a":1',
        b'{"a":1,', b'{"a":1,}', b'{"a" 1}', b'{a:1}', b'{"a":"x}', b'{"a":"x\\"}', b'{"a":"x\\',
        b'{"a":1]', b'{"a":{"b":1}', b'{"a":[1}', b'{"a":"x" "b":1}', b'{"a":,"b":1}', b'{,"a":1}',
    ],
)  # fmt: skip
def test_what_is_no_object_is_refused(raw):
    assert told(raw)[0] == 1


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (b"2.9.10", 0x02090A), (b"2.11.0-RC.1", 0x020B00), (b"2.10.25+x", 0x020A19), (b"", 0),
        (b"2", 0), (b"2.", 0), (b"2.9", 0), (b"2.9.", 0), (b"2..1", 0), (b".1.2", 0), (b"v2.9.1", 0), (b"2x9.1", 0), (b"2.9x1", 0),
        (b"2.9.x", 0), (b"300.256.255", 0xFFFFFF), (b"00.000000000000000000001.1", 0x000101),
        (b"99999999999999.1.1", 0xFF0101),
    ],
)  # fmt: skip
def test_versions(text, version):
    LAB.reset()
    assert LAB.call(bus_version, text=LAB.put(text), length=len(text)).outputs["eax"] == version


WHOLE = b' \t{\t "a"\t : "x\\\\\\"y" \t,\t "b"\t:\t[ "q\\"r" , {"c":"}"} ]\t , "ldm" : true\t }\t '
BLANKS = WHOLE.replace(b" ", b"\t")


@pytest.mark.parametrize(
    "whole", [WHOLE, BLANKS, WHOLE.replace(b"\t", b"")], ids=["both", "tabs", "spaces"]
)
def test_a_text_that_ends_anywhere_is_refused_inside_its_bytes(whole):
    end = whole.rindex(b"}") + 1
    assert [told(whole[:size])[0] for size in range(len(whole) + 1)] == [1] * end + [0] * (
        len(whole) + 1 - end
    )


@pytest.mark.parametrize(
    ("raw", "name", "value"),
    [
        (b'{"cluster":5}', "clustered", 0),
        (b'{"cluster":"x"}', "clustered", 1),
        (b'{"version":20911}', "version", 0),
        (b'{"ldm":tru}', "lame_duck", 0),
        (b'{"ldm":t}', "lame_duck", 0),
    ],
)
def test_values_of_another_kind_mean_nothing(raw, name, value):
    wrong, link = told(raw)
    assert (wrong, getattr(link, name)) == (0, value)


KEYS = st.sampled_from(
    [
        "ldm",
        "cluster",
        "nonce",
        "version",
        "max_payload",
        "headers",
        "tls_required",
        "a",
        "",
        'é\\"',
    ]
)
VALUES = st.recursive(
    st.one_of(
        st.booleans(), st.none(), st.integers(0, 2**33), st.text(max_size=12),
        st.sampled_from(["2.9.20", "2.9.21", "2.15.1", '"cluster":"x"', "\\"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)
    ),
    max_leaves=6,
)  # fmt: skip


@given(members=st.dictionaries(KEYS, VALUES, max_size=6), indent=st.booleans())
@settings(max_examples=150, deadline=None)
def test_it_finds_what_a_json_parser_finds(members, indent):
    separators = (" , ", "\t:  ") if indent else (",", ":")
    wrong, link = told(json.dumps(members, separators=separators).encode())
    nonce, size = members.get("nonce"), members.get("max_payload")
    raw = json.dumps(nonce)[1:-1] if isinstance(nonce, str) else ""
    unusable = "nonce" in members and (not isinstance(nonce, str) or len(raw) > NONCE_MAX)
    unusable |= "max_payload" in members and type(size) is not int
    assert wrong == unusable
    if not wrong:
        cluster = members.get("cluster")
        assert link.clustered == (isinstance(cluster, str) and cluster != "")
        assert link.lame_duck == (members.get("ldm") is True)
        assert link.headers == (members.get("headers") is True)
        assert link.max_payload == min(members.get("max_payload", 0), 2**32 - 1)
        assert bytes(link.nonce)[: link.nonce_len] == raw.encode()


@given(
    cut=st.integers(0, 400), what=st.sampled_from([b"", b'"', b"\\", b"{", b"}", b",", b":", b" "])
)
@settings(max_examples=120, deadline=None)
def test_damaged_texts_match_the_model(cut, what):
    raw = json.dumps({**SEEN, "cluster": "c", "nonce": "n", "x": [{"y": '"{'}]}).encode()
    told(raw[:cut] + what + raw[cut + 1 :])
    told(raw[:cut] + what)
