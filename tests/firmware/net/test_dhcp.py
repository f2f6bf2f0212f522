"""DHCP: the answers that count, and the ones that must not (issues of other stacks as inputs)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers import inet
from scapy.layers.l2 import Ether

from emulator.simulation import dhcp_message as dm
from emulator.simulation.dhcp_message import DhcpMessage
from firmware.layouts.clock import NEVER
from firmware.layouts.config import CONFIG
from firmware.layouts.net import DhcpState
from firmware.layouts.nic import NicState
from firmware.layouts.node import CLOCK, CORE
from firmware.net.dhcp import dhcp_input, dhcp_link_up, dhcp_tick
from firmware.net.dhcp_options import dhcp_options, dhcp_parse
from firmware.net.start import net_start
from tests.support.lab import Lab
from tests.support.net import (
    IP,
    MAC,
    NEEDED,
    PEER,
    ROUTER,
    SECOND,
    START,
    NetBench,
    ip32,
)

LAB = Lab(*NEEDED, dhcp_tick, dhcp_link_up, net_start, slots=0)
SERVER, OTHER, DNS = "10.0.0.1", "10.0.0.66", "10.0.0.3"
XID = 0x1234_5678


def raw(text):
    return bytes(map(int, text.split(".")))


def answer(kind, options=(), *, xid=XID, address=IP, server=SERVER, mac=MAC, **fields):
    listed = [(dm.OPT_TYPE, bytes([kind]))]
    if server:
        listed.append((dm.OPT_SERVER, raw(server)))
    message = DhcpMessage(2, int.from_bytes(xid.to_bytes(4, "little"), "big"), mac)
    message.options = [*listed, *options]
    message.yiaddr = raw(address)
    for name, value in fields.items():
        setattr(message, name, value)
    return message.encode()


WHOLE = (
    (dm.OPT_MASK, raw("255.255.255.0")),
    (dm.OPT_ROUTER, raw(ROUTER)),
    (dm.OPT_DNS, raw(DNS) + raw("10.0.0.4")),
    (dm.OPT_LEASE, (3600).to_bytes(4, "big")),
)


def client(state, *, configured=False, lease=3600):
    bench = NetBench(LAB, configured=configured)
    dhcp = bench.dhcp
    dhcp.state, dhcp.xid, dhcp.server = state, XID, ip32(SERVER)
    dhcp.offered, dhcp.begun = ip32(IP), START
    if configured:
        dhcp.t1_at, dhcp.t2_at = START + lease // 2 * SECOND, START + lease * 7 // 8 * SECOND
        dhcp.expires_at = START + lease * SECOND
    return bench


def take(bench, payload):
    at = LAB.machine.alloc(1600)
    LAB.machine.write(at, payload + bytes(64))
    bench.call(dhcp_input, message=at, length=len(payload))
    return bench.dhcp.state


def tick(bench):
    return bench.call(dhcp_tick).outputs["rax"]


def now_of(bench):
    return bench.lab.g(CORE).now


def messages(bench):
    return [DhcpMessage.decode(frame[42:342]) for frame in bench.sent() if frame[23:24] == b"\x11"]


# -- starting -------------------------------------------------------------------------------------
def start(bench, payload):
    LAB.g(CONFIG).dhcp = 1
    at = LAB.machine.alloc(1600)
    LAB.machine.write(at, payload + bytes(300))
    bench.call(net_start, ack=at, length=len(payload))


def test_net_start_ack_of_the_boot_rom_is_a_lease():
    bench = NetBench(LAB, configured=False)
    start(bench, answer(dm.ACK, WHOLE))
    network = bench.network
    assert (network.ip, network.netmask, network.router) == tuple(
        map(ip32, (IP, "255.255.255.0", ROUTER))
    )
    assert (network.dns1, network.dns2) == (ip32(DNS), ip32("10.0.0.4"))
    assert (network.configured, network.server_id) == (1, ip32(SERVER))
    assert network.lease_seconds == 3600
    assert bench.dhcp.state == DhcpState.BOUND
    assert bench.dhcp.t1_at == START + 1800 * SECOND
    assert bench.dhcp.t2_at == START + 3150 * SECOND
    assert tick(bench) == bench.dhcp.t1_at


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        answer(dm.ACK, WHOLE, mac=bytes(6)),
        answer(dm.ACK, WHOLE, mac=MAC[:5] + b"\x00"),
        answer(dm.ACK, WHOLE, mac=bytes(4) + MAC[4:]),
        answer(dm.OFFER, WHOLE),
        answer(dm.ACK, WHOLE, address=".".join("0000")),
        answer(dm.ACK, WHOLE, address="127.0.0.1"),
        answer(dm.ACK, WHOLE, address="224.0.0.1"),
        answer(dm.ACK, WHOLE)[:239],
        answer(dm.ACK, WHOLE, op=1),
        answer(dm.ACK, WHOLE).replace(dm.MAGIC, b"\x00" * 4),
    ],
)
def test_net_start_other_acks_lead_to_an_own_exchange(payload):
    bench = NetBench(LAB, configured=False)
    start(bench, payload)
    assert bench.dhcp.state == DhcpState.SELECTING
    assert bench.network.configured == 0
    tick(bench)
    (discover,) = messages(bench)
    assert discover.kind == dm.DISCOVER


def test_net_start_configured_address_needs_no_server():
    bench = NetBench(LAB, configured=False)
    config = LAB.g(CONFIG)
    config.dhcp, config.static_ip, config.static_dns2 = 0, ip32(PEER), ip32(DNS)
    bench.call(net_start, ack=LAB.machine.alloc(16), length=0)
    assert (bench.network.ip, bench.network.dns2) == (ip32(PEER), ip32(DNS))
    assert (bench.network.configured, bench.dhcp.state) == (1, DhcpState.OFF)
    assert tick(bench) == NEVER
    bench.call(dhcp_link_up)
    assert bench.dhcp.state == DhcpState.OFF


# -- exchanges ------------------------------------------------------------------------------------
def test_dhcp_discover_offer_request_ack():
    bench = NetBench(LAB, configured=False)
    start(bench, b"")
    tick(bench)
    (discover,) = messages(bench)
    assert (discover.kind, discover.chaddr, discover.ciaddr) == (dm.DISCOVER, MAC, bytes(4))
    assert discover.option(dm.OPT_CLIENT_ID) == b"\x01" + MAC
    assert discover.option(dm.OPT_PARAMETERS) == bytes((1, 3, 6, 51, 54, 58, 59))
    assert discover.option(dm.OPT_MAX_SIZE) == (1500).to_bytes(2, "big")
    assert discover.option(dm.OPT_REQUESTED_IP) is None
    xid = int.from_bytes(discover.xid.to_bytes(4, "big"), "little")
    bench.advance(3 * SECOND)
    assert take(bench, answer(dm.OFFER, WHOLE, xid=xid)) == DhcpState.REQUESTING
    # A second offer, for another address, changes nothing.
    take(bench, answer(dm.OFFER, WHOLE, xid=xid, address=PEER))
    assert bench.counters.dhcp_others == 1
    tick(bench)
    (request,) = messages(bench)
    assert request.kind == dm.REQUEST
    assert request.option(dm.OPT_REQUESTED_IP) == raw(IP)
    assert request.option(dm.OPT_SERVER) == raw(SERVER)
    assert (request.xid, request.secs) == (discover.xid, 3)
    assert take(bench, answer(dm.ACK, WHOLE, xid=xid)) == DhcpState.BOUND
    assert bench.network.ip == ip32(IP)


def test_dhcp_frames_reach_the_client_before_it_has_an_address():
    """End to end through net_input: broadcast and unicast to the offered address."""
    for destination in ("255.255.255.255", IP):
        bench = client(DhcpState.SELECTING)
        head = Ether(dst=MAC.hex(":"), src="02:00:00:00:00:01")
        packet = head / inet.IP(src=SERVER, dst=destination) / inet.UDP(sport=67, dport=68)
        bench.input(bytes(packet / answer(dm.OFFER, WHOLE)))
        assert bench.dhcp.state == DhcpState.REQUESTING


@pytest.mark.parametrize(
    ("state", "payload"),
    [
        (DhcpState.SELECTING, answer(dm.OFFER, WHOLE, xid=99)),
        (DhcpState.SELECTING, answer(dm.OFFER, WHOLE, server="")),
        (DhcpState.SELECTING, answer(dm.OFFER, WHOLE, address=".".join("0000"))),
        (DhcpState.SELECTING, answer(dm.OFFER, WHOLE, address="230.0.0.1")),
        (DhcpState.SELECTING, answer(dm.OFFER, WHOLE, address="127.0.0.1")),
        (DhcpState.SELECTING, answer(dm.ACK, WHOLE)),
        (DhcpState.SELECTING, answer(dm.NAK)),
        (DhcpState.SELECTING, answer(9)),
        (DhcpState.REQUESTING, answer(dm.OFFER, WHOLE)),
        (DhcpState.REQUESTING, answer(dm.ACK, WHOLE, server=OTHER)),
        (DhcpState.REQUESTING, answer(dm.ACK, WHOLE, address=PEER)),
        (DhcpState.REQUESTING, answer(dm.NAK, server=OTHER, address=".".join("0000"))),
        (DhcpState.REQUESTING, answer(dm.NAK, server="")),
        (DhcpState.BOUND, answer(dm.ACK, WHOLE)),
        (DhcpState.BOUND, answer(dm.NAK)),
        (DhcpState.OFF, answer(dm.NAK)),
        (DhcpState.RENEWING, answer(dm.ACK, WHOLE, address=PEER)),
        (DhcpState.RENEWING, answer(dm.ACK, WHOLE, server=OTHER)),
        (DhcpState.RENEWING, answer(dm.NAK, server=OTHER)),
        (DhcpState.REBINDING, answer(dm.ACK, WHOLE, address=PEER)),
    ],
)
def test_dhcp_input_answers_that_are_not_awaited_change_nothing(state, payload):
    bench = client(state, configured=state >= DhcpState.BOUND)
    before = bytes(LAB.machine.read(bench.network.address_, 0x28))
    assert take(bench, payload) == state
    assert bytes(LAB.machine.read(bench.network.address_, 0x28)) == before
    assert bench.counters.dhcp_others == 1


@pytest.mark.parametrize("state", [DhcpState.REQUESTING, DhcpState.RENEWING])
def test_dhcp_input_nak_of_the_chosen_server_starts_anew_after_a_second(state):
    bench = client(state, configured=state == DhcpState.RENEWING)
    assert take(bench, answer(dm.NAK, address=".".join("0000"))) == DhcpState.SELECTING
    assert (bench.network.configured, bench.network.ip) == (0, 0)
    assert bench.dhcp.xid != XID
    assert tick(bench) == START + SECOND
    assert messages(bench) == []
    assert bench.dhcp.naks == 1


def test_dhcp_input_when_rebinding_any_server_may_answer():
    bench = client(DhcpState.REBINDING, configured=True)
    assert take(bench, answer(dm.ACK, WHOLE, server=OTHER)) == DhcpState.BOUND
    assert bench.dhcp.server == ip32(OTHER)
    bench = client(DhcpState.REBINDING, configured=True)
    assert take(bench, answer(dm.NAK, server=OTHER)) == DhcpState.SELECTING


@pytest.mark.parametrize("state", [DhcpState.REQUESTING, DhcpState.RENEWING])
def test_dhcp_input_ack_without_a_server_counts(state):
    bench = client(state, configured=state == DhcpState.RENEWING)
    assert take(bench, answer(dm.ACK, WHOLE, server="")) == DhcpState.BOUND


def test_dhcp_adopt_bare_ack_keeps_mask_router_and_dns():
    bench = client(DhcpState.RENEWING, configured=True)
    bench.network.dns1, bench.network.dns2 = ip32(DNS), ip32("10.0.0.4")
    take(bench, answer(dm.ACK, [(dm.OPT_LEASE, (7200).to_bytes(4, "big"))]))
    network = bench.network
    assert (network.netmask, network.router) == (ip32("255.255.255.0"), ip32(ROUTER))
    assert (network.dns1, network.dns2) == (ip32(DNS), ip32("10.0.0.4"))
    assert network.lease_seconds == 7200


def test_dhcp_adopt_without_any_server_takes_siaddr():
    bench = client(DhcpState.REQUESTING)
    bench.dhcp.server = 0
    take(bench, answer(dm.ACK, WHOLE, server="", siaddr=raw(OTHER)))
    assert bench.dhcp.server == ip32(OTHER)


def seconds(value):
    return value.to_bytes(4, "big")


@pytest.mark.parametrize(
    ("lease", "t1", "t2", "expected"),
    [
        (3600, None, None, (1800, 3150, 3600)),
        (60, 100, 30, (15, 30, 60)),
        (60, 20, 50, (20, 50, 60)),
        (60, 50, 50, (30, 50, 60)),
        (60, 0, 0, (30, 53, 60)),
        (60, 70, 80, (30, 53, 60)),
        (0, None, None, (15, 27, 30)),
        (1, None, None, (15, 27, 30)),
        (None, None, None, (1800, 3150, 3600)),
        (0xFFFF_FFFE, None, None, (1 << 27, (1 << 28) - (1 << 25), 1 << 28)),
        (60, 1, 2, (1, 2, 60)),
        (60, None, 1, (0, 1, 60)),
    ],
)
def test_dhcp_adopt_lease_times(lease, t1, t2, expected):
    bench = client(DhcpState.REQUESTING)
    pairs = ((dm.OPT_LEASE, lease), (dm.OPT_T1, t1), (dm.OPT_T2, t2))
    take(bench, answer(dm.ACK, [(code, seconds(v)) for code, v in pairs if v is not None]))
    dhcp = bench.dhcp
    got = tuple((at - START) // SECOND for at in (dhcp.t1_at, dhcp.t2_at, dhcp.expires_at))
    assert got == expected


def test_dhcp_adopt_lease_for_ever_is_never_renewed():
    bench = client(DhcpState.REQUESTING)
    take(bench, answer(dm.ACK, [(dm.OPT_LEASE, b"\xff" * 4)]))
    assert tick(bench) == NEVER
    bench.call(dhcp_link_up)
    assert bench.dhcp.state == DhcpState.BOUND


# -- timers ---------------------------------------------------------------------------------------
def test_dhcp_tick_asks_for_ever_with_doubling_waits():
    bench = NetBench(LAB, configured=False)
    start(bench, b"")
    waits = []
    for _ in range(10):
        due = tick(bench)
        (message,) = messages(bench)
        assert message.kind == dm.DISCOVER
        waits.append((due - now_of(bench)) / SECOND)
        bench.advance(due - now_of(bench) - 1)
        assert tick(bench) == due
        assert messages(bench) == []
        bench.advance(1)
    assert all(abs(w - 2 ** min(n, 6)) <= 0.52 for n, w in enumerate(waits))
    assert len({w % 1 for w in waits}) > 5, "the waits are jittered"


def test_dhcp_tick_request_without_answer_falls_back_to_discover():
    bench = client(DhcpState.REQUESTING)
    kinds = []
    for _ in range(6):
        due = tick(bench)
        kinds += [m.kind for m in messages(bench)]
        bench.advance(due - now_of(bench))
    assert kinds == [dm.REQUEST] * 4 + [dm.DISCOVER] * 2


def test_dhcp_tick_renews_rebinds_and_gives_up():
    bench = client(DhcpState.BOUND, configured=True)
    dhcp = bench.dhcp
    t1, t2, end = dhcp.t1_at, dhcp.t2_at, dhcp.expires_at
    bench.advance(t1 - START)
    bench.learn(SERVER)
    due = tick(bench)
    (renew,) = messages(bench)
    assert (renew.kind, renew.ciaddr, dhcp.state) == (dm.REQUEST, raw(IP), DhcpState.RENEWING)
    assert renew.option(dm.OPT_SERVER) is None
    assert renew.option(dm.OPT_REQUESTED_IP) is None
    assert due == t1 + (t2 - t1) // 2
    bench.advance(t2 - 30 * SECOND - t1)
    bench.learn(SERVER)
    assert tick(bench) == t2, "the next try may not pass T2"
    bench.sent()
    bench.advance(30 * SECOND)
    due = tick(bench)
    frames = bench.sent()
    assert frames[0][:6] == b"\xff" * 6
    assert frames[0][30:34] == b"\xff" * 4
    assert dhcp.state == DhcpState.REBINDING
    assert due == t2 + (end - t2) // 2
    bench.advance(end - t2 - 1)
    assert tick(bench) == end
    assert bench.network.configured == 1
    bench.sent()
    bench.advance(1)
    tick(bench)
    assert (bench.network.configured, dhcp.state) == (0, DhcpState.SELECTING)
    assert messages(bench)[0].kind == dm.DISCOVER


def test_dhcp_tick_late_wake_goes_straight_to_a_new_exchange():
    bench = client(DhcpState.BOUND, configured=True)
    bench.advance(10_000 * SECOND)
    tick(bench)
    assert bench.dhcp.state == DhcpState.SELECTING


def test_dhcp_tick_that_cannot_send_tries_again_in_a_second():
    bench = client(DhcpState.RENEWING, configured=True)
    bench.dhcp.next_at = START
    assert tick(bench) == START + SECOND, "the server's MAC is not known yet"
    assert bench.dhcp.attempt == 0
    bench.nic.state = NicState.FAILED
    bench.advance(SECOND)
    tick(bench)


def test_dhcp_tick_without_a_clock_does_nothing():
    bench = client(DhcpState.SELECTING)
    LAB.g(CLOCK).tsc_cycles_per_ms = 0
    assert tick(bench) == NEVER
    assert bench.sent() == []


def test_dhcp_send_counts_seconds_up_to_16_bits():
    bench = client(DhcpState.SELECTING)
    bench.advance(100_000 * SECOND)
    tick(bench)
    assert messages(bench)[0].secs == 0xFFFF


@pytest.mark.parametrize(
    ("state", "after"),
    [
        (DhcpState.SELECTING, DhcpState.SELECTING),
        (DhcpState.REQUESTING, DhcpState.SELECTING),
        (DhcpState.BOUND, DhcpState.RENEWING),
        (DhcpState.REBINDING, DhcpState.RENEWING),
    ],
)
def test_dhcp_link_up_confirms_or_restarts(state, after):
    bench = client(state, configured=state >= DhcpState.BOUND)
    bench.dhcp.attempt = 6
    bench.call(dhcp_link_up)
    assert (bench.dhcp.state, bench.dhcp.attempt, bench.dhcp.next_at) == (after, 0, START)


# -- options --------------------------------------------------------------------------------------
def options(bench, field):
    at = LAB.machine.alloc(len(field) + 1)
    LAB.machine.write(at, field + b"\x01")
    LAB.machine.write(bench.dhcp_options.address_, bytes(0x30))
    bench.call(dhcp_options, options=at, length=len(field))
    return bench.dhcp_options


def test_dhcp_options_overload_reads_file_then_sname():
    bench = client(DhcpState.REQUESTING)
    message = answer(
        dm.ACK,
        [(dm.OPT_OVERLOAD, b"\x03")],
        file_options=[(dm.OPT_ROUTER, raw("10.0.2.2"))],
        sname_options=[(dm.OPT_DNS, raw("10.0.2.3"))],
    )
    take(bench, message)
    assert bench.network.router == ip32("10.0.2.2")
    assert bench.network.dns1 == ip32("10.0.2.3")


def test_dhcp_options_first_of_a_kind_counts():
    bench = client(DhcpState.REQUESTING)
    found = options(bench, bytes((3, 4, 1, 1, 1, 1, 3, 4, 2, 2, 2, 2, 255)))
    assert found.router == ip32("1.1.1.1")


@pytest.mark.parametrize(
    "field",
    [
        b"",
        b"\x36",  # a tag with no length
        b"\x36\xc8\x0a\x00\x00",  # 200 bytes announced, three there
        b"\x36\x04\x0a\x00\x00",
        b"\x36\x03\x0a\x00\x00\xff",  # too short for an address
        b"\x00" * 40,
        b"\xff\x36\x04\x0a\x00\x00\x01",
    ],
)
def test_dhcp_options_truncated_or_short_are_not_taken(field):
    assert options(client(DhcpState.REQUESTING), field).seen == 0


def test_dhcp_options_long_vendor_option_split_is_passed_over():
    bench = client(DhcpState.REQUESTING)
    field = b"\x2b\xff" + bytes(255) + b"\x2b\x0a" + bytes(10) + b"\x36\x04\x0a\x00\x00\x01\xff"
    assert options(bench, field).server == ip32("10.0.0.1")


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, 1, 3, 6, 51, 52, 53, 54, 58, 59, 255, 43, 200]),
            st.binary(max_size=9),
        ),
        max_size=12,
    ),
    st.integers(0, 6),
)
def test_dhcp_options_any_field_agrees_with_the_model(items, cut):
    bench = client(DhcpState.REQUESTING)
    field = b"".join(bytes((code, len(value))) + value for code, value in items)
    options(bench, field[: len(field) - cut] if cut < len(field) else field)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_dhcp_input_any_damaged_answer_agrees_with_the_model(data):
    state = data.draw(st.sampled_from(list(DhcpState)))
    bench = client(state, configured=state >= DhcpState.BOUND)
    kind = data.draw(st.sampled_from([dm.OFFER, dm.ACK, dm.NAK]))
    message = bytearray(answer(kind, WHOLE))
    for _ in range(data.draw(st.integers(0, 3))):
        message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    take(bench, bytes(message[: data.draw(st.integers(230, len(message)))]))


def test_dhcp_parse_short_message_is_refused():
    bench = client(DhcpState.REQUESTING)
    at = LAB.machine.alloc(300)
    assert bench.call(dhcp_parse, message=at, length=239).outputs["cf"] == 1
