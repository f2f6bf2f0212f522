"""What a node's lines tell: every declared line is understood, states follow, figures are kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware.layouts.log import CODES
from firmware.layouts.log_line import Render
from toolchain.cli.board import Board
from toolchain.cli.loglines import parse_line


def sample(code):
    """A line of a code as the node writes it, and the values in it."""
    texts: list[str] = []
    values: dict[str, int | str] = {}
    for n, (key, kind) in enumerate(code.fields):
        if kind.render is Render.HEX:
            texts.append(f"{key}={0xA0 + n:#x}")
            values[key] = 0xA0 + n
        elif kind.render is Render.IP:
            texts.append(f"{key}=10.0.2.{n}")
            values[key] = f"10.0.2.{n}"
        elif kind.texts or kind.render in (Render.FIXED, Render.WORD):
            name = kind.texts[-1][1] if kind.texts else kind.other or "MESSAGE_CREATE"
            texts.append(f"{key}={name}")
            values[key] = name
        else:
            texts.append(f"{key}={n + 7}")
            values[key] = n + 7
    return " ".join(texts), values


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
def test_every_declared_line_is_understood(code):
    texts, values = sample(code)
    level = code.level.name.lower()
    said = ' text="two words"' if code.sentence else ""
    line = parse_line(f"t=1234 level={level} shard=5 code={code.name} {texts}{said}")
    assert line is not None
    assert (line.t_ms, line.level, line.code, line.shard) == (1234, code.level, code, 5)
    assert line.values == values
    assert line.text == ("two words" if code.sentence else "")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SeaBIOS (version 1.16.2)",
        "t=1 level=info code=no.such",
        "t=1 level=loud code=lifecycle.ready",
        "t=1 level=info shard=0 code=lifecycle.ready attempt=1 mode=identify",
        "t=x level=debug shard=0 code=shard.reset reconnects=1 sequence=2",
        "level=info code=lease.granted generation=1 left=2",
    ],
)
def test_other_text_is_no_line(text):
    assert parse_line(text) is None


@given(st.text(alphabet="t=leviscodhar1 .0x\x00\xff", max_size=80))
def test_any_text_is_taken(text):
    board = Board.of(0, 1)
    board.feed(0.0, text)
    assert board.lines[-1] == (0.0, text)


def fed(*lines, start=0, count=2):
    board = Board.of(start, count)
    for n, line in enumerate(lines):
        board.feed(5.0 + n / 4, line)
    return board


def figures(board):
    return board.nbp_to_ready_ms, board.power_on_to_ready_ms


BOOT = (
    "t=0 level=info code=boot.started pci=0x18 ram_kb=32256 regions=4 image_kb=60",
    "t=0 level=info code=boot.clock khz=2600000 spread_ppm=20 sources=3 unix=1700000000",
)
ATTEMPT = (
    "t=200 level=debug shard={} code=lifecycle.attempt attempt=1 phase=startup mode=identify "
    "address=10.0.2.2 port=80"
)
READY = (
    "t={} level=info shard={} code=lifecycle.ready durationMs=40 attempt=1 mode=identify shards=2 "
    'outageMs=0 gap=none known=none missingFrom=0 missingTo=0 sequence=1 text="Shard 0 is ready"'
)
EVIDENCE = (
    "classification=network error=0x4020000 tcp=failed tls=idle stage=none known=3 "
    'text="Shard 1 lost its connection."'
)
BACKOFF = (
    "t=900 level=warn shard={} code=lifecycle.connectionLost attempt=1 delayMs=812 next=resume "
    f"closeCode=0 reason=network {EVIDENCE}"
)
CLOSED = BACKOFF.replace("connectionLost", "retry").replace("closeCode=0", "closeCode=4009")
ENDED = (
    "t=1 level=error shard=1 code=lifecycle.connectionEnded attempt=1 stop=auth "
    f"reported=AuthenticationError budgetMs=0 refusal=none closeCode=4004 reason=closed {EVIDENCE}"
)


def test_boot_steps_note_their_times():
    board = fed(*BOOT)
    assert board.steps == {"boot ROM": 5.0, "clock": 5.25}


def test_states_go_from_assigned_to_ready():
    board = fed(ATTEMPT.format(0))
    assert [row.state for row in board.rows.values()] == ["STARTING", "ASSIGNED"]
    assert board.rows[0].detail == "dials 10.0.2.2:80"
    board.feed(6.0, READY.format(340, 0))
    assert (board.rows[0].state, board.rows[0].ready_at) == ("READY", 6.0)
    assert board.rows[0].detail == "identified in 40 ms"
    assert figures(board) == (None, None)
    board.feed(6.5, READY.format(512, 1))
    assert figures(board) == (512, 6500)
    assert board.ready == 2


def test_figures_are_those_of_the_first_time():
    board = fed(READY.format(340, 0), READY.format(512, 1), BACKOFF.format(0))
    board.feed(60.0, READY.format(55_000, 0))
    assert figures(board) == (512, 5250)


@pytest.mark.parametrize(
    ("line", "state", "detail"),
    [
        (BACKOFF.format(1), "BACKOFF", "network, resume in 812 ms"),
        (CLOSED.format(1), "BACKOFF", "network 4009, resume in 812 ms"),
        (
            "t=1 level=info shard=1 code=gateway.hello interval_ms=1 resume=0 sequence=0",
            "STARTING",
            "hello",
        ),
        (
            "t=1 level=info shard=1 code=shard.state state=starting phase=hello hold=none",
            "STARTING",
            "hello",
        ),
        (
            "t=1 level=info shard=1 code=shard.state state=assigned phase=none hold=no_lease",
            "ASSIGNED",
            "no_lease",
        ),
        (ENDED, "FATAL", "auth: closed 4004"),
        (
            "t=1 level=warn shard=1 code=shard.held hold=lease_expired sequence=3",
            "ASSIGNED",
            "lease_expired",
        ),
        (
            "t=0 level=error shard=1 code=shard.no_clock error=0x0 tcp=closed tls=idle",
            "ASSIGNED",
            "no_clock",
        ),
    ],
)
def test_each_line_moves_its_shard_alone(line, state, detail):
    board = fed(READY.format(340, 0), line)
    assert (board.rows[1].state, board.rows[1].detail) == (state, detail)
    assert board.rows[0].state == "READY"


def test_reconnects_are_counted():
    board = fed(
        BACKOFF.format(0),
        BACKOFF.format(0),
        "t=9 level=debug shard=0 code=shard.reset reconnects=2 sequence=0",
    )
    assert board.rows[0].reconnects == 2


def test_a_strange_shard_is_ignored():
    board = fed(READY.format(1, 40), start=8)
    assert set(board.rows) == {8, 9}
    assert board.ready == 0


def test_a_node_that_boots_again_begins_anew():
    board = fed(*BOOT, READY.format(340, 0), READY.format(350, 1), BOOT[0])
    assert board.ready == 0
    assert list(board.steps) == ["boot ROM"]


STARTED = (
    "t=9 level=info code=node.started total={} start={} count={} lease_ms=0 plan=configuration"
)
MOVED = "t=900 level=warn code=lifecycle.resharded total={} start={} shards={} generation=2"
HELD = "t=901 level=warn shard={} code=shard.held hold=plan_changed sequence=3"


def states(board):
    return {n: row.state for n, row in board.rows.items()}


def test_a_move_brings_rows_and_takes_those_of_shards_that_left():
    """Shard 0 goes, 1 stays as it is, 2 comes; what the one that left still says moves nobody."""
    board = fed(
        STARTED.format(8, 0, 2), READY.format(340, 0), READY.format(350, 1), MOVED.format(8, 1, 2)
    )
    board.feed(9.0, HELD.format(0))
    assert states(board) == {1: "READY", 2: "ASSIGNED"}
    assert board.rows[1].detail == "identified in 40 ms"
    board.feed(9.5, READY.format(990, 2))
    assert board.ready == 2


def test_with_another_total_every_row_is_new():
    board = fed(STARTED.format(2, 0, 2), READY.format(340, 0), MOVED.format(3, 0, 3))
    assert states(board) == dict.fromkeys(range(3), "ASSIGNED")
    assert {row.attempts for row in board.rows.values()} == {0}


def test_a_shard_that_had_failed_for_good_begins_anew_with_a_move():
    board = fed(STARTED.format(2, 0, 2), READY.format(340, 0), ENDED, MOVED.format(2, 0, 2))
    assert states(board) == {0: "READY", 1: "ASSIGNED"}
    assert board.fatal == []


def test_a_node_that_boots_again_has_the_shards_of_its_configuration():
    board = fed(STARTED.format(8, 0, 2), MOVED.format(8, 4, 3), *BOOT, STARTED.format(8, 0, 2))
    assert states(board) == {0: "ASSIGNED", 1: "ASSIGNED"}


def test_shards_that_found_no_memory_are_missed():
    """The node was configured for eight shards and holds five: eight are asked for still."""
    board = fed(STARTED.format(8, 0, 5), *(READY.format(340, n) for n in range(5)), count=8)
    assert states(board) == dict.fromkeys(range(5), "READY") | dict.fromkeys(
        range(5, 8), "ASSIGNED"
    )
    assert {row.detail for row in board.without_memory} == {"no_memory"}
    assert [row.shard for row in board.without_memory] == [5, 6, 7]
    assert figures(board) == (None, None)
    board.feed(20.0, BOOT[0])
    assert board.without_memory == []


def test_a_node_without_memory_for_one_shard_misses_all():
    board = fed(STARTED.format(8, 4, 0), start=4, count=2)
    assert [row.shard for row in board.without_memory] == [4, 5]


def test_a_move_whose_line_was_lost_is_learned_from_the_node():
    board = fed(STARTED.format(8, 0, 2), READY.format(340, 0), READY.format(350, 1))
    node = {"global_total": 8, "local_start": 1, "local_count": 2}
    told = {"state": "READY", "attempts": 1, "reconnects": 0}
    board.correct(20.0, node, [told | {"shard": 0}, told | {"shard": 2}], 340)
    assert states(board) == {1: "READY", 2: "READY"}
    assert board.rows[1].detail == "identified in 40 ms"
    assert board.rows[2].ready_at == 20.0
