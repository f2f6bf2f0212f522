"""`log_write` and `log_drain`: every kind of field, every level, a full and a wrapping ring."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.environment import Environment
from firmware.layouts.config import CONFIG
from firmware.layouts.json import JsonField
from firmware.layouts.log import CODES, LEVEL_SILENT, LOG, LOG_RING, LOG_RING_BYTES
from firmware.layouts.log_line import DEC, LINE_MAX, Level, code
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.shard import (
    Classification,
    End,
    NextStep,
    Phase,
    ShardContext,
    Then,
)
from firmware.layouts.tcp import TcpState
from firmware.log import log, log_drain, log_finish, log_setup, log_write
from tests.support.lab import Lab
from toolchain.asm import Asm

HEAD, BEHIND = ShardContext.tcp.offset, ShardContext.session.offset - ShardContext.tcp.offset
LAB = Lab(log_write, log_drain, log_finish, log_setup)
QUADS = st.one_of(
    st.sampled_from([0, 1, 9, 10, 99, 2**31, 2**32 - 1, 2**32, 2**63, 2**64 - 1]),
    st.integers(0, 2**64 - 1),
    st.integers(0, 12),
)


def fresh(head=0, tail=0, level=Level.DEBUG):
    state = LAB.g(LOG)
    state.head, state.tail, state.dropped, state.level, state.burst = head, tail, 0, level, 16
    LAB.g(CLOCK).tsc_cycles_per_ms = 1000
    LAB.g(CLOCK).boot_tsc = 500
    LAB.g(CORE).now = 123_500
    return state


def write(number, shard=0, values=(0, 0, 0, 0)):
    first, second, third, fourth = values
    LAB.call(
        log_write, shard=shard, code=number, first=first, second=second, third=third, fourth=fourth
    )


def text(start, end):
    ring = LAB.machine.read(LAB.image.address(LOG_RING), LOG_RING_BYTES)
    return bytes(
        ring[n % LOG_RING_BYTES] for n in range(start, start + (end - start) % 2**64)
    ).decode()


def by_name(name):
    return next(c for c in CODES if c.name == name)


@settings(max_examples=80, deadline=None)
@given(
    number=st.integers(0, len(CODES) - 1),
    values=st.tuples(QUADS, QUADS, QUADS, QUADS),
    head=QUADS,
    shard=st.booleans(),
    cycles=st.sampled_from([0, 1, 1000, 2**40]),
    noise=st.binary(min_size=HEAD, max_size=HEAD),
)
def test_log_write_any_line_matches_model(number, values, head, shard, cycles, noise):
    state = fresh(head, head, Level.TRACE)
    LAB.g(CLOCK).tsc_cycles_per_ms = cycles
    where = LAB.shard() if shard or CODES[number].of_shard else 0
    if where:
        LAB.machine.write(where, noise + (noise * (BEHIND // HEAD + 1))[7 : BEHIND + 7])
    write(number, where, values)
    assert re.fullmatch(
        r't=\d+ level=\w+( shard=\d+)? code=\S+( \w+=[^ "\n]*)*( text="[^"]+")?\n',
        text(head, state.head),
    )


def test_log_write_line_reads_as_documented():
    state = fresh()
    shard = LAB.shard()
    context = LAB.view(ShardContext, shard)
    context.shard_id, kept = 7, context.evidence
    kept.error, kept.tcp_state, kept.end, kept.lost = 0x0401_0002, TcpState.FAILED, End.CLOSED, 1
    kept.close_code, kept.attempt, kept.delay_ms, kept.phase = 4999, 3, 812, Phase.IDENT
    kept.next_step, kept.then, kept.http_status = NextStep.RESUME, Then.WAIT_RESUME, 599
    kept.classification, kept.sequence = Classification.CLOSED, 41
    kept.sequence_valid = 1
    write(by_name("lifecycle.connectionLost"), shard)
    assert text(0, state.head) == (
        "t=123 level=warn shard=7 code=lifecycle.connectionLost attempt=3 delayMs=812 next=resume "
        "closeCode=4999 reason=closed classification=closed error=0x4010002 tcp=failed tls=idle "
        'stage=ident known=41 text="Shard 7 lost its connection. The gateway closed the connection '
        "with code 4999 with HTTP status 599 after Identify. It resumes its session after the wait "
        'that the gateway requires, 812 ms"\n'
    )


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (0, "The gateway closed the connection. It"),
        (4008, "The gateway closed the connection with code 4008 (Rate limited: "),
        (4999, "The gateway closed the connection with code 4999. It"),
    ],
)
def test_log_write_a_close_without_a_code_names_none(code, said):
    state = fresh()
    shard = LAB.shard()
    kept = LAB.view(ShardContext, shard).evidence
    kept.end, kept.close_code, kept.then = End.CLOSED, code, Then.RESUME
    write(by_name("lifecycle.retry"), shard)
    assert said in text(0, state.head)


def test_log_write_address_is_dotted():
    state = fresh()
    write(
        by_name("boot.cached_ack"), 0, (int.from_bytes(bytes([10, 0, 2, 255]), "little"), 300, 0, 0)
    )
    assert (
        text(0, state.head)
        == "t=123 level=info code=boot.cached_ack address=10.0.2.255 bytes=300\n"
    )


def test_log_write_unknown_member_is_a_number():
    state = fresh()
    write(by_name("shard.state"), 0, (77, 1, 0, 0))
    assert " state=77 phase=resolve hold=none" in text(0, state.head)


@pytest.mark.parametrize(
    ("sent", "length", "printed"),
    [
        (b"MESSAGE_CREATE", 14, "MESSAGE_CREATE"),
        (b"", 0, ""),
        (b"A0Z9_", 5, "A0Z9_"),
        (b'x\nt=1 level=error code=forged text="', 36, "????1?" + "?" * 30),
        (b"@[/:`a{\x80\xff\0", 10, "?" * 10),
        (b"B" * 64, 64, "B" * 64),
        (b"C" * 64, 65, "C" * 64),
        (b"D" * 64, 2**32 - 1, "D" * 64),
    ],
)
def test_log_write_name_of_a_peer_says_nothing_but_a_name(sent, length, printed):
    state = fresh()
    shard = LAB.shard()
    context = LAB.view(ShardContext, shard)
    context.shard_id, parser = 7, context.gateway.parser
    parser.t[: len(sent)] = sent
    parser.values[4 * JsonField.T : 4 * JsonField.T + 4] = length.to_bytes(4, "little")
    parser.values[4 * JsonField.S : 4 * JsonField.S + 4] = (41).to_bytes(4, "little")
    context.gateway.message_bytes = 1000
    write(by_name("gateway.dispatch"), shard)
    assert text(0, state.head) == (
        f"t=123 level=debug shard=7 code=gateway.dispatch dispatch={printed} sequence=41 bytes=1000\n"
    )


def test_log_write_below_the_level_writes_nothing():
    state = fresh(level=Level.ERROR)
    write(by_name("boot.ready"))
    assert state.head == 0
    assert state.dropped == 0


def test_log_write_full_ring_drops_the_whole_line_and_counts():
    state = fresh(LOG_RING_BYTES - 40, 0)
    write(by_name("boot.ready"))
    assert (state.head, state.dropped) == (LOG_RING_BYTES - 40, 1)


def test_log_write_line_that_just_fits_is_kept():
    state = fresh()
    write(by_name("boot.ready"))
    size = state.head
    for room, kept in ((size, True), (size - 1, False)):
        state = fresh(5000 + LOG_RING_BYTES - room, 5000)
        write(by_name("boot.ready"))
        assert (state.head == 5000 + LOG_RING_BYTES) is kept
        assert state.dropped == (not kept)


@pytest.mark.parametrize("burst", [1, 16])
@pytest.mark.parametrize("waiting", [0, 1, 15, 16, 17, 64, 100])
def test_log_drain_sends_bursts_while_the_port_is_empty(burst, waiting):
    state = fresh(LOG_RING_BYTES + waiting - 5, LOG_RING_BYTES - 5)
    state.burst = burst
    LAB.machine.write(LAB.image.address(LOG_RING), bytes(n % 251 for n in range(LOG_RING_BYTES)))
    environment = Environment(on_port_in=lambda _port, _size: 0x60)
    sent = []
    environment.on_port_out = lambda _port, _size, value: sent.append(value)
    LAB.call(log_drain, environment)
    assert len(sent) == min(waiting, burst * 4)
    assert state.head - state.tail == waiting - len(sent)
    assert sent == [
        n % LOG_RING_BYTES % 251 for n in range(LOG_RING_BYTES - 5, LOG_RING_BYTES - 5 + len(sent))
    ]


def test_log_drain_busy_port_is_left_alone():
    state = fresh(10, 0)
    LAB.call(log_drain, Environment(on_port_in=lambda _port, _size: 0))
    assert state.tail == 0


def test_code_refuses_what_the_line_cannot_hold():
    with pytest.raises(ValueError, match="log code many has 5 fields; four registers carry values"):
        code("many", Level.INFO, a=DEC, b=DEC, c=DEC, d=DEC, e=DEC)
    with pytest.raises(ValueError, match=r"log code boot\.ready is declared twice; use the first"):
        code("boot.ready", Level.INFO)
    with pytest.raises(ValueError, match=f"can be [0-9]+ bytes long; {LINE_MAX} fit"):
        code("x" * LINE_MAX, Level.INFO)


@pytest.mark.parametrize(
    ("level", "serial", "wanted"), [(3, 1, 3), (0, 1, 0), (1, 0, LEVEL_SILENT)]
)
def test_log_setup_takes_the_configured_level_or_silence(level, serial, wanted):
    LAB.reset()
    config = LAB.g(CONFIG)
    config.log_level, config.serial = level, serial
    LAB.call(log_setup)
    assert LAB.g(LOG).level == wanted


def test_log_finish_prints_all_that_waits_and_waits_for_the_port():
    LAB.reset()
    text = b"one line\nanother\n"
    ring = LAB.image.address(LOG_RING)
    start = LOG_RING_BYTES - 5
    LAB.machine.write(ring + start, text[:5])
    LAB.machine.write(ring, text[5:])
    LAB.g(LOG).tail, LAB.g(LOG).head = start, start + len(text)
    sent, busy = bytearray(), [3]

    def port_in(_port, _size):
        busy[0] = busy[0] - 1 if busy[0] else 3
        return 0 if busy[0] else 0x20

    where = Environment(
        on_port_in=port_in, on_port_out=lambda _port, _size, value: sent.append(value)
    )
    LAB.call(log_finish, where)
    assert bytes(sent) == text
    assert LAB.g(LOG).tail == LAB.g(LOG).head


def test_log_of_a_shards_line_needs_the_shard():
    with pytest.raises(
        ValueError, match=r"log code lifecycle\.retry reads its shard; name the register"
    ):
        log(Asm("x"), by_name("lifecycle.retry"))
