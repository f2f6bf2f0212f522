"""The bus targets: a link to NATS, and what a server may send on it."""

from __future__ import annotations

from emulator.fuzz.engine import BrokenRuleError, Target
from firmware.bus.messages import bus_done, bus_take
from firmware.errors import SITES
from firmware.layouts.bus import BUS, BUS_IN, BusKind, LinkState
from firmware.layouts.crypto import DRBG
from firmware.layouts.log import LOG
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import TcpState
from firmware.limits import RING_BYTES, TX_BYTES
from tests.fuzz.watched import watched
from tests.support.bus import INFO, BusBench

LONGEST = 8192
WHOLE_INFO = INFO.replace(
    b'"proto":1', b'"cluster":"c1","nonce":"KHTNdjaaHYZ1uMk","ldm":false,"list":[{"a":"\\""},"}"]'
)
STREAM = [
    b"PONG\r\n", WHOLE_INFO, b"PING\r\n", b"+OK\r\n",
    b"MSG _I.n7.3fa2c1d0.c.2 1 31\r\n" b'{"stream":"KV_shardfw","seq":7}\r\n',
    b"HMSG $KV.a.b 2 $JS.ACK.x.1.1 52 55\r\n"
    b"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: 0\r\n\r\n1 a\r\n",
    b"HMSG _I.n7.3fa2c1d0.c.50 1 34 34\r\nNATS/1.0 404 Message Not Found\r\n\r\n\r\n",
    b"-ERR 'Permissions Violation for Publish to \"x\"'\r\n", b"MSG a  10 b.c 0\r\n\r\n",
]  # fmt: skip
_CHANGING = {one.struct for one in (BUS, BUS_IN, DRBG, LOG)}
_OURS = ("tcp", "tls", "failure", "failure_flags", "failure_close", "last_error")


def link(state: LinkState) -> Target:
    """Bytes on a link in a state."""
    bench = BusBench(bus_done, semantics=False)
    bench.up(state)
    bench.tcp.state = TcpState.TIME_WAIT  # an end sends no reset, which is other layers' work
    lab, context = bench.lab, bench.context
    at = {"link": bench.link.address_, "shard": bench.shard}
    watch = watched(lab)

    def run(data: bytes) -> None:
        bench.arrive(data)
        taken = 0
        while lab.free(bus_take, **at)["rax"] & 0xFFFF_FFFF == BusKind.MESSAGE:
            taken += 1
            _lies_within(bench)
            lab.free(bus_done, **at)
        _judge(bench, len(data), taken)

    symbols = lab.image.symbols.values()
    globals_ = [s for s in symbols if getattr(s.thing, "struct", None) in _CHANGING]
    globals_ += [s for s in symbols if s.thing.name == "log_ring"]
    fields = [f for f in ShardContext.fields() if f.name in _OURS]
    places = [
        *((bench.shard + field.offset, field.size) for field in fields),
        (context.tx_base, TX_BYTES), (context.ring_base, RING_BYTES),
        *((one.address, one.size) for one in globals_),
    ]  # fmt: skip
    seeds = [b"".join(STREAM), *STREAM] if state == LinkState.UP else [WHOLE_INFO, INFO, STREAM[-2]]
    return Target(f"bus-{state.name.lower()}", lab.machine, run, seeds, watch, places, LONGEST)


def _lies_within(bench: BusBench) -> None:
    """A message is made of pieces of itself."""
    got = bench.lab.g(BUS_IN)
    start = bench.context.ring_base + bench.tcp.ring_head
    end = start + bench.link.message_bytes
    if not 0 < bench.link.message_bytes <= bench.tcp.ring_ready:
        raise BrokenRuleError(f"a message of {bench.link.message_bytes} bytes")
    for name in ("subject", "reply", "header", "body"):
        at, size = getattr(got, name), getattr(got, f"{name}_len")
        if size and not start <= at <= at + size <= end:
            raise BrokenRuleError(f"BusMessage.{name} lies outside of the message")


def _judge(bench: BusBench, size: int, taken: int) -> None:
    """What the link says of itself fits together."""
    it, tcp = bench.link, bench.tcp
    if it.state not in LinkState._value2member_map_:
        raise BrokenRuleError(f"state {it.state:#x}")
    if (it.state == LinkState.DOWN) != (it.error & 0xFFFF_0000 in SITES):
        raise BrokenRuleError(f"state {it.state} with the error {it.error:#x}")
    if tcp.ring_ready > size or tcp.tx_end > TX_BYTES or it.received != taken:
        raise BrokenRuleError("more than has come")
