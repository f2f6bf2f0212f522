"""Lines: their ends, their length, and words that are none."""

import pytest

from firmware.bus.lines import bus_line, bus_verb
from firmware.bus.messages import bus_take
from firmware.layouts.bus import LINE_MAX, BusKind, LinkState, Verb
from firmware.layouts.bus_sites import BAD_INFO, LINE_END, LINE_TOO_LONG, UNEXPECTED, VERB
from tests.support.bus import INFO, BusBench

BENCH = BusBench(bus_line, bus_verb)


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()


def heard(data, state=LinkState.UP):
    BENCH.up(state)
    BENCH.arrive(data)
    assert BENCH.bus(bus_take)["eax"] == BusKind.NONE
    return BENCH.link


@pytest.mark.parametrize("data", [b"\n", b"PING\n", b"\r\r\n\n", b"PING \n\r\n"])
def test_a_line_ends_with_both(data):
    link = heard(data)
    assert (link.state, link.error & 0xFFFF_0000) == (LinkState.DOWN, LINE_END.code) or (
        data.startswith(b"\r") and link.error == VERB.code
    )


@pytest.mark.parametrize("length", [LINE_MAX - 1, LINE_MAX])
def test_a_line_has_an_end(length):
    link = heard(b"I" * length)
    assert (link.error == LINE_TOO_LONG.code) == (length >= LINE_MAX)


def test_the_longest_info_fits():
    servers = b",".join(b'"10.0.0.%d:4222"' % (n % 250) for n in range(850))
    line = b'INFO {"headers":true,"version":"2.15.1","connect_urls":[' + servers + b"]} \r\n"
    assert LINE_MAX - 2000 < len(line) < LINE_MAX
    assert (heard(line).state, BENCH.link.version) == (LinkState.UP, 0x020F01)


WORDS = {
    b"PING": Verb.PING, b"PONG": Verb.PONG, b"+OK": Verb.OK, b"INFO {}": Verb.INFO,
    b"-ERR 'x'": Verb.ERR, b"MSG a": Verb.MSG, b"HMSG\ta": Verb.HMSG,
}  # fmt: skip
NONE = [
    b"", b" ", b" PING", b"\tMSG a", b"P", b"PIN", b"PINGS", b"ping", b"Msg a", b"MSGX", b"MSG\0 a",
    b"+OKAY", b"+O", b"-ERRO", b"\0\0\0\0", b"XMSG a", b"CONNECT {}",
]  # fmt: skip


@pytest.mark.parametrize("line", [*WORDS, *NONE])
def test_a_line_begins_with_a_word_in_capitals(line):
    at = BENCH.lab.put(line)
    out = BENCH.lab.call(bus_verb, line=at, length=len(line)).outputs
    assert (out["eax"], out["rdx"]) == (WORDS.get(line, Verb.NONE), at + len(line))


@pytest.mark.parametrize("line", NONE)
def test_a_word_that_is_none_ends_the_link(line):
    assert heard(line + b"\r\n").error == VERB.code


@pytest.mark.parametrize("line", [b"PING", b"PONG", b"+OK", b"MSG a 1 0\r\n"])
def test_nothing_comes_before_info(line):
    assert heard(line + b"\r\n", LinkState.INFO).error == UNEXPECTED.code


@pytest.mark.parametrize("line", [b"MSG a 1 0\r\n", b"HMSG a 1 12 12\r\nNATS/1.0\r\n\r\n"])
def test_no_message_comes_before_pong(line):
    assert heard(line + b"\r\n", LinkState.HELLO).error == UNEXPECTED.code


@pytest.mark.parametrize("line", [b"INFO", b"INFO {", b'INFO {"nonce":1}', b"INFO x {}"])
def test_info_is_an_object(line):
    assert heard(line + b"\r\n").error == BAD_INFO.code


def test_a_server_may_ping_before_pong():
    heard(b"PING\r\n+OK\r\nPONG\r\n" + INFO, LinkState.HELLO)
    assert (BENCH.link.state, BENCH.queued()) == (LinkState.UP, b"PONG\r\n")


@pytest.mark.parametrize(
    "state", [LinkState.DOWN, LinkState.RESOLVE, LinkState.CONNECT, LinkState.TLS]
)
def test_in_other_states_nothing_is_read(state):
    heard(b"PING\r\n", state)
    assert BENCH.tcp.ring_ready == 6
