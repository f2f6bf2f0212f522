"""One turn of the node: the budget of frames, who gets them, who is due, and the rest after it."""

import pytest
from scapy.layers.inet import IP as SCAPY_IP
from scapy.layers.inet import TCP, UDP
from scapy.layers.l2 import Ether

from emulator.environment import Environment
from firmware.layouts.clock import RTC_DATA, RTC_INDEX
from firmware.layouts.config import CONFIG
from firmware.layouts.dns import DNS
from firmware.layouts.fleet import FLEET
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.log import LOG
from firmware.layouts.net import FIRST_PORT
from firmware.layouts.nic import NIC, NicState
from firmware.layouts.node import CLOCK, CORE, LEASE
from firmware.layouts.outbox import OUTBOX
from firmware.layouts.permit import PERMITS
from firmware.layouts.shard import ShardContext, ShardState
from firmware.layouts.status import DIAGNOSTICS, STATUS_REQUEST_MAGIC, StatusReply
from firmware.layouts.tcp import TCP_PORTS, TcpState
from firmware.node.rest import node_rest
from firmware.node.slots import slot_wake
from firmware.node.step import FRAMES_PER_TURN, node_step, receive_frames, step_shards
from tests.support.lab import Lab
from tests.support.net import IP, MAC, MS, NEEDED, PEER, PEER_MAC, START, NetBench, ip32
from tests.support.pages import tables_region
from toolchain.layout.pack import pack

LAB = Lab(*NEEDED, node_step, node_rest, slots=3, extra=(tables_region(),))
NEVER = 2**64 - 1
DIAGNOSTICS_PORT = 4747


class Node:
    """A node with a card and three shards that wait for a network lease to start."""

    def __init__(self):
        self.bench = NetBench(LAB)
        self.bench.learn(PEER)
        LAB.g(PERMITS).max_concurrency = 1
        LAB.g(CONFIG).diagnostics_port = DIAGNOSTICS_PORT
        core = LAB.g(CORE)
        core.slots_used = 3
        self.shards = []
        for n in range(3):
            address = LAB.shard(n)
            context = LAB.view(ShardContext, address)
            context.state = ShardState.FATAL
            core.slots[n].context, core.slots[n].flags = address, 1
            core.slots[n].deadline = NEVER
            self.shards.append(context)

    def environment(self, *, status=0x60, tsc=None):
        env = self.bench.environment()

        def port_in(port, size):
            if port == 0x3FD:
                return status
            return env.on_port_in(port, size)

        return Environment(
            tsc=lambda: LAB.g(CORE).now if tsc is None else tsc,
            on_port_in=port_in,
            on_port_out=env.on_port_out,
            on_mmio_read=env.on_mmio_read,
            on_mmio_write=env.on_mmio_write,
        )

    def call(self, routine, **inputs):
        return LAB.call(routine, self.environment(), **inputs).outputs

    def frame(self, payload, *, port=DIAGNOSTICS_PORT):
        packet = Ether(dst=MAC.hex(":"), src=PEER_MAC.hex(":")) / SCAPY_IP(src=PEER, dst=IP)
        return bytes(packet / UDP(sport=40_000, dport=port) / payload)


def question():
    return pack(StatusReply, {"magic": STATUS_REQUEST_MAGIC, "slot": 0})


def test_receive_frames_answers_diagnostics():
    node = Node()
    node.bench.card.deliver(node.frame(question()))
    assert node.call(receive_frames)["eax"] == 1
    assert LAB.g(DIAGNOSTICS).requests == 1


def test_receive_frames_port_zero_is_no_way_to_diagnostics_that_are_off():
    node = Node()
    LAB.g(CONFIG).diagnostics_port = 0
    node.bench.card.deliver(node.frame(question(), port=0))
    node.call(receive_frames)
    assert LAB.g(DIAGNOSTICS).requests == 0
    assert LAB.g(DNS).strays == 1


def test_receive_frames_hands_other_datagrams_to_dns():
    node = Node()
    node.bench.card.deliver(node.frame(b"x" * 20, port=50_000))
    node.call(receive_frames)
    assert LAB.g(DNS).strays == 1


def test_receive_frames_drops_what_is_not_ours():
    node = Node()
    node.bench.card.deliver(b"\xff" * 60)
    assert node.call(receive_frames)["eax"] == 1


def test_receive_frames_stray_segment_wakes_nobody():
    node = Node()
    packet = Ether(dst=MAC.hex(":"), src=PEER_MAC.hex(":")) / SCAPY_IP(src=PEER, dst=IP)
    node.bench.card.deliver(bytes(packet / TCP(sport=80, dport=50_000, flags="A")))
    node.call(receive_frames)
    assert [LAB.g(CORE).slots[n].deadline for n in range(3)] == [NEVER] * 3


def test_receive_frames_segment_of_a_connection_wakes_its_shard():
    node = Node()
    context = node.shards[1]
    tcp = context.tcp
    tcp.state, tcp.remote_ip, tcp.remote_port = TcpState.ESTABLISHED, ip32(PEER), 80
    tcp.local_port, tcp.rcv_nxt, tcp.rcv_adv = 50_000, 100, 100 + 20_480
    ports = LAB.g(TCP_PORTS)
    ports.owner[50_000 - FIRST_PORT] = 1
    ports.contexts[8:16] = context.address_.to_bytes(8, "little")
    packet = Ether(dst=MAC.hex(":"), src=PEER_MAC.hex(":")) / SCAPY_IP(src=PEER, dst=IP)
    segment = TCP(sport=80, dport=50_000, flags="A", seq=100, ack=tcp.snd_una)
    node.bench.card.deliver(bytes(packet / segment))
    node.call(receive_frames)
    assert [LAB.g(CORE).slots[n].deadline for n in range(3)] == [NEVER, 0, NEVER]


def test_receive_frames_stops_at_the_budget_of_a_turn():
    node = Node()
    for _ in range(FRAMES_PER_TURN + 3):
        assert node.bench.card.deliver(b"\xff" * 60)
    assert node.call(receive_frames)["eax"] == FRAMES_PER_TURN
    assert node.call(receive_frames)["eax"] == 3


def rtc_looks(node, routine):
    """Call a routine of a node that holds a slot; return how often it read the RTC."""
    LAB.g(FLEET_CONFIG).magic, LAB.g(FLEET).holding = FLEET_MAGIC, 1
    env, looks = node.environment(), []

    def port_in(port, size):
        if port == RTC_DATA:
            looks.append(port)
            return 0x80
        return env.on_port_in(port, size)

    LAB.call(
        routine,
        Environment(
            tsc=lambda: LAB.g(CORE).now,
            on_port_in=port_in,
            on_port_out=lambda port, size, value: (
                None if port == RTC_INDEX else env.on_port_out(port, size, value)
            ),
            on_mmio_read=env.on_mmio_read,
            on_mmio_write=env.on_mmio_write,
        ),
    )
    return len(looks)


@pytest.mark.parametrize("frames", [0, 1, 3])
def test_receive_frames_looks_at_the_rtc_before_the_first_one(frames):
    node = Node()
    for _ in range(frames):
        node.bench.card.deliver(node.frame(question()))
    assert (rtc_looks(node, receive_frames) > 0) == (frames > 0)
    assert LAB.g(FLEET).rtc_seen == (frames > 0)
    assert rtc_looks(node, receive_frames) == 0


@pytest.mark.parametrize("due", [False, True])
def test_step_shards_looks_at_the_rtc_when_one_may_be_due(due):
    node = Node()
    core = LAB.g(CORE)
    core.slots_due = core.now if due else core.now + 1
    assert (rtc_looks(node, step_shards) > 0) == due


def doubt():
    """Make the RTC show another time than at the last look, while it is being updated."""
    LAB.g(FLEET).rtc_second, LAB.g(FLEET).rtc_low = 1_700_000_000, 1
    LAB.g(CLOCK).tsc_cycles_per_ms = MS


def test_receive_frames_in_doubt_about_the_clock_leaves_them_where_they_are():
    node = Node()
    doubt()
    for _ in range(2):
        node.bench.card.deliver(node.frame(question()))
    before = LAB.g(NIC).rx_frames
    for _ in range(3):
        assert rtc_looks(node, receive_frames) > 0
    assert (LAB.g(DIAGNOSTICS).requests, LAB.g(NIC).rx_frames) == (0, before)
    LAB.g(FLEET).holding = 0
    assert node.call(receive_frames)["eax"] == 2
    assert LAB.g(DIAGNOSTICS).requests == 2


def test_step_shards_in_doubt_about_the_clock_ticks_none_and_comes_back():
    node = Node()
    doubt()
    core = LAB.g(CORE)
    core.slots_due, core.slots[0].deadline = core.now, core.now
    assert rtc_looks(node, step_shards) > 0
    assert (core.slots_due, core.slots[0].deadline) == (core.now, core.now)
    LAB.g(FLEET).holding = 0
    assert node.call(step_shards)["rax"] == NEVER


def test_receive_frames_nothing_there():
    assert Node().call(receive_frames)["eax"] == 0


@pytest.mark.parametrize("slot", [0, 2])
def test_slot_wake_makes_the_shard_due(slot):
    node = Node()
    LAB.g(CORE).slots_due = NEVER
    node.call(slot_wake, shard=node.shards[slot].address_)
    wanted = [NEVER] * 3
    wanted[slot] = 0
    assert [LAB.g(CORE).slots[n].deadline for n in range(3)] == wanted
    assert LAB.g(CORE).slots_due == 0


def test_step_shards_runs_only_active_shards_that_are_due():
    node = Node()
    core = LAB.g(CORE)
    for n, state in enumerate((ShardState.ASSIGNED, ShardState.ASSIGNED, ShardState.FATAL)):
        node.shards[n].state = state
        core.slots[n].deadline = START
    LAB.g(LEASE).expired = 1
    core.slots[1].flags = 0
    core.slots[2].deadline = START + 1
    assert node.call(step_shards)["rax"] == START + 1
    assert core.slots[0].deadline == START + 100 * MS
    assert core.slots[1].deadline == START


@pytest.mark.parametrize("begin", [0, 1, 2])
def test_step_shards_begins_with_whose_turn_it_is_and_leaves_none_out(begin):
    node = Node()
    core, box = LAB.g(CORE), LAB.g(OUTBOX)
    box.look_at, box.begin = core.now, begin
    for n, shard in enumerate(node.shards):
        shard.state, core.slots[n].deadline = ShardState.ASSIGNED, START
    LAB.g(LEASE).expired = 1
    assert node.call(step_shards)["rax"] == START + 100 * MS
    assert [core.slots[n].deadline for n in range(3)] == [START + 100 * MS] * 3
    assert box.look_at == 0


@pytest.mark.parametrize("slots_due", [0, START - 1, START])
def test_step_shards_notes_the_earliest_deadline_of_the_table(slots_due):
    node = Node()
    core = LAB.g(CORE)
    core.slots_due = slots_due
    core.slots[1].deadline = START + 7
    assert node.call(step_shards)["rax"] == START + 7
    assert core.slots_due == START + 7


def test_step_shards_before_the_earliest_deadline_does_not_look_at_the_table():
    node = Node()
    core = LAB.g(CORE)
    core.slots_due, core.slots[0].deadline = START + 1, 0
    assert node.call(step_shards)["rax"] == START + 1
    assert core.slots[0].deadline == 0


def test_step_shards_without_shards_never_wants_to_run():
    node = Node()
    LAB.g(CORE).slots_used = 0
    assert node.call(step_shards)["rax"] == NEVER


def test_node_step_idle_turn_gives_the_next_deadline():
    node = Node()
    deadline = node.call(node_step)["rax"]
    assert START < deadline <= START + 1000 * MS
    assert LAB.g(CORE).turns == 1
    assert LAB.g(CORE).next_deadline == deadline


def test_node_step_full_budget_comes_back_at_once():
    node = Node()
    for _ in range(FRAMES_PER_TURN):
        node.bench.card.deliver(b"\xff" * 60)
    assert node.call(node_step)["rax"] == START


def test_node_step_shard_deadline_counts():
    node = Node()
    LAB.g(CORE).slots[0].deadline = START + 5
    assert node.call(node_step)["rax"] == START + 5


def test_node_step_pending_name_counts():
    node = Node()
    entry = LAB.g(DNS).entries[0]
    entry.state, entry.retry_at = 1, START + 7
    assert node.call(node_step)["rax"] == START + 7


def rest(node, deadline, **given):
    env = node.environment(**given)
    LAB.call(node_rest, env, deadline=deadline)
    return [e for e in LAB.machine.environment.events if e[0] == "system"]


@pytest.mark.parametrize("line", [11, 255])
def test_node_rest_halts_with_the_card_armed(line):
    node = Node()
    LAB.g(NIC).irq_line = line
    LAB.call(node_rest, node.environment(tsc=START), deadline=START + 10 * MS)
    assert LAB.g(CORE).wake == 0


def test_node_rest_frames_that_came_meanwhile_forbid_the_halt():
    node = Node()
    node.bench.card.deliver(b"\xff" * 60)
    LAB.call(node_rest, node.environment(tsc=START), deadline=NEVER)


def test_node_rest_without_a_card_still_halts():
    node = Node()
    LAB.g(NIC).state = NicState.FAILED
    LAB.call(node_rest, node.environment(tsc=START), deadline=NEVER)


@pytest.mark.parametrize("ahead", [0, 10])
def test_node_rest_waiting_lines_shorten_it(ahead):
    node = Node()
    LAB.g(LOG).head, LAB.g(LOG).tail = 5, 0
    LAB.g(CLOCK).tsc_cycles_per_ms = MS
    LAB.call(node_rest, node.environment(tsc=START), deadline=START + ahead * MS)
