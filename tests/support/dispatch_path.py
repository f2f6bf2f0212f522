"""The dispatch path of the release image: frames in a ring, events out, on the processor or counted.

A simulated node becomes READY under Unicorn. Its memory then goes to a forked child, where a loop of a
few instructions copies frames into the receive ring of each shard in turn and calls the firmware's own
`gateway_poll`: WebSocket frame, UTF-8, envelope, skip of `d`, opcode, sequence, and, when somebody
listens, a datagram into the card's transmit queue. Then it returns the buffers as a card does. The copy
stands for TCP's; copy and card are part of what is measured.
"""

from __future__ import annotations

import itertools
import json
import random
from typing import TYPE_CHECKING

from emulator import native
from emulator.machine import STACK_TOP
from emulator.registers import GPR
from emulator.simulation.listener import Listener
from emulator.simulation.node import shard_address
from emulator.simulation.node_facts import NodeFacts
from emulator.simulation.rig import Rig
from firmware.abi import CALLER_SAVED
from firmware.gateway.poll import gateway_poll
from firmware.layouts.events import EVENTS as LISTENERS
from firmware.layouts.events import Events, EventSubscriber
from firmware.layouts.log import LOG
from firmware.layouts.log_line import Level
from firmware.layouts.nic import NIC, AvailableRing, Nic, UsedElement, UsedRing, Virtqueue
from firmware.layouts.node import CORE
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import TcpContext
from firmware.limits import RING_BYTES
from pxe.gateway.load import COUNTER_KEY, LoadGenerator, LoadOptions
from tests.support.firehose import frame
from toolchain.asm import (
    AX,
    EAX,
    ECX,
    NE,
    NZ,
    R12,
    R13,
    R13D,
    R14,
    R15,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    E,
    In,
    Reg64,
    Region,
    mem64,
    routine,
)
from toolchain.asm.assemble import assemble

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emulator.simulation.node import ImageNode
    from tests.support.firehose import Prepared

EVENT_BYTES = 1000
FIRST_SEQUENCE = 1_000_001
"""Seven digits for long, so that every event has the same length."""
EVENTS = 20
"""Frames that fit in a ring."""
PLAIN = "the quick brown fox jumps over the lazy dog, again and again, until the message is full; "
LOOP, DATA = 0x5000_0000, 0x5100_0000
FRAMES_OFFSET = 0x1000
TABLE = Region("the shards that take turns", "of the benchmark, ends with a zero")
FRAMES = Region("the frames", "of the benchmark")


@routine(
    inputs=[
        In(RDX, Nic, "the card's driver"),
        In(RBP, int, "the table of shards"),
        In(R12, int, "frames"),
        In(R13, int, "their bytes"),
        In(R14, int, "how many times"),
        In(R15, int, "the routine"),
    ],
    clobbers=[*CALLER_SAVED, RBX, R14],
    reads=[
        ShardContext.ring_base,
        TABLE,
        FRAMES,
        Virtqueue.available,
        Virtqueue.used,
        Virtqueue.mask,
        AvailableRing.idx,
        AvailableRing.heads,
        UsedRing.idx,
    ],
    writes=[
        ShardContext.sequence,
        TcpContext.ring_head,
        TcpContext.ring_ready,
        UsedRing.idx,
        UsedRing.elements,
    ],
    indirect=lambda: (gateway_poll,),
    saves=[RBP],
    stack=16,
    source="the benchmark",
)
def drive(
    a: Asm, nic: Nic, table: Reg64, frames: Reg64, size: Reg64, times: Reg64, poll: Reg64
) -> None:
    """Fill the ring of each shard in turn and let it be read, so many times."""
    shard = ShardContext.at(RBX)
    a.mov(a.local(8), table)
    a.mov(a.local(8, 8), RDX)
    with a.loop() as again:
        a.mov(table, a.local(8))
        with a.loop() as shards:
            a.mov(RBX, mem64(table, ref=TABLE))
            a.mov(RDI, shard.ring_base)
            a.mov(RSI, frames)
            a.mov(RCX, size)
            a.rep_movsb()
            a.mov(shard.tcp.ring_head, 0)
            a.mov(shard.tcp.ring_ready, R13D)
            a.mov(shard.sequence, 0)
            a.call_indirect(poll)
            a.mov(RDX, a.local(8, 8))
            _return_buffers(a, nic)
            a.add(table, 8)
            a.cmp(mem64(table, ref=TABLE), 0)
            a.again(NE, shards)
        a.dec(times)
        a.again(NZ, again)
    a.ret()


def _return_buffers(a: Asm, nic: Nic) -> None:
    """Say that every frame in the transmit queue has left."""
    available, used = AvailableRing.at(RSI), UsedRing.at(RDI)
    a.mov(RSI, nic.tx.available)
    a.mov(RDI, nic.tx.used)
    with a.loop() as sent:
        a.movzx(EAX, used.idx)
        a.cmp(AX, available.idx)
        a.leave(E, sent)
        a.and_(EAX, nic.tx.mask)
        a.movzx(ECX, available.heads.m16(index=RAX, scale=2))
        a.mov(used.elements.m32(UsedElement.id.offset, index=RAX, scale=UsedElement.SIZE), ECX)
        a.inc(used.idx)
        a.jmp(sent.top)


def dispatches(*, plain: bool = True, d_first: bool = False) -> list[Prepared]:
    """Return MESSAGE_CREATE dispatches, EVENT_BYTES long with a sequence of seven digits.

    Args:
        plain: Message texts are plain ASCII; else they hold escapes, accents, other scripts, emoji.
        d_first: `d` stands before everything else.
    """
    options = LoadOptions(rate=1000, mix=(("MESSAGE_CREATE", 1.0),), poisson=False)
    made = LoadGenerator(options, random.Random(1), shards=1, guilds=1, now_ms=0)
    return [
        _prepared(json.loads(event.body), plain=plain, d_first=d_first)
        for event in made.due(EVENTS, [0])
    ]


def _prepared(body: dict[str, object], *, plain: bool, d_first: bool) -> Prepared:
    """Fill the content until the dispatch is as long as it has to be."""
    del body[COUNTER_KEY]
    letters = itertools.cycle(PLAIN if plain else str(body["content"]) + " ")
    head = {"t": "MESSAGE_CREATE", "s": FIRST_SEQUENCE, "op": 0}
    order = ("d", *head) if d_first else (*head, "d")
    body["content"] = ""
    missing = EVENT_BYTES - len(_text(head | {"d": body}, order))
    content, size = "", 0
    while size < missing:
        letter = next(letters)
        more = len(json.dumps(letter, ensure_ascii=False).encode()) - 2
        letter, more = (letter, more) if size + more <= missing else (".", 1)
        content, size = content + letter, size + more
    text = _text(head | {"d": body | {"content": content}}, order)
    before, _, behind = text.partition(str(FIRST_SEQUENCE).encode())
    return before, behind


def _text(message: dict[str, object], order: Sequence[str]) -> bytes:
    ordered = {key: message[key] for key in order}
    return json.dumps(ordered, separators=(",", ":"), ensure_ascii=False).encode()


def frames(prepared: Sequence[Prepared]) -> bytes:
    """Return the frames that fill a ring, numbered in a row.

    Raises:
        ValueError: They do not fit in a ring, or one is not EVENT_BYTES long.
    """
    texts = [b"%b%d%b" % (a, n, z) for n, (a, z) in enumerate(prepared, FIRST_SEQUENCE)]
    joined = b"".join(map(frame, texts))
    if len(joined) > RING_BYTES or {len(text) for text in texts} != {EVENT_BYTES}:
        raise ValueError(
            f"{len(joined)} bytes of frames for a ring of {RING_BYTES}; texts of "
            f"{sorted({len(text) for text in texts})} bytes, not all of {EVENT_BYTES}"
        )
    return joined


def ready_node(shards: int, *, trace: bool = False, heard: bool = False) -> ImageNode:
    """Return a node of the release image whose shards are all READY.

    Args:
        shards: How many.
        trace: Count instructions.
        heard: Somebody listens to the dispatches.
    """
    rig = Rig(facts=NodeFacts(shards=shards, max_concurrency=shards), trace=trace)
    rig.until_ready()
    rig.node.g(LOG).level = Level.INFO  # what the configuration says when nobody changes it
    if heard:
        Listener(rig).sit()
    rig.run(5)
    return rig.node


def instructions(node: ImageNode, joined: bytes) -> float:
    """Return how many instructions of the dispatch path one event takes.

    Args:
        node: READY, with `trace`.
        joined: The frames.
    """
    assert node.trace is not None
    shard, address = node.shard(0), node.image.address("gateway_poll")
    node.machine.write(shard.ring_base, joined)
    shard.tcp.ring_head, shard.tcp.ring_ready = 0, len(joined)
    shard.sequence, before = 0, shard.dispatches
    node.machine.prepare_call(address, {"rbx": shard_address(0)})
    node.machine.run(address)
    assert shard.dispatches - before == EVENTS
    return node.trace.end_turn() / EVENTS


class DispatchPath:
    """The memory of a READY node, and the loop that drives its dispatch path on the processor.

    Args:
        node: Where the memory comes from; it is not changed.
        joined: The frames that each shard is given again and again.
        shards: How many take turns.
    """

    def __init__(self, node: ImageNode, joined: bytes, shards: int) -> None:
        addresses = [shard_address(n) for n in range(shards)]
        self._counters = [at + ShardContext.dispatches.offset for at in addresses]
        place = node.image.address(LISTENERS) + Events.subscribers.offset
        self._sent, self._lost = (
            place + field.offset for field in (EventSubscriber.sent, EventSubscriber.lost)
        )
        self._heard = int(node.g(LISTENERS).listeners)
        self._sequences = [at + ShardContext.sequence.offset for at in addresses]
        table = b"".join(at.to_bytes(8, "little") for at in (*addresses, 0))
        registers = dict.fromkeys(GPR, 0) | {
            "rsp": STACK_TOP - 0x100,
            "rdx": node.image.address(NIC),
            "rbp": DATA,
            "r12": DATA + FRAMES_OFFSET,
            "r13": len(joined),
            "r15": node.image.address("gateway_poll"),
        }
        self._registers, self._gs = registers, node.image.address(CORE)
        regions = [
            native.Region(DATA, table.ljust(FRAMES_OFFSET, b"\0") + joined),
            native.Region(LOOP, assemble(drive).code, native.Access.CODE),
        ]
        for region in node.machine.regions:
            access = native.Access.DATA if region.writable else native.Access.CONSTANT
            # Of the code only the dispatch path runs, which has nothing that a process may not do.
            if region.executable:
                access = native.Access.CODE
            none = () if region.executable else None
            contents = region.buffer[:]
            regions.append(native.Region(region.address, contents, access, none, region.aliases))
        self._program = native.NativeProgram(regions, seconds=600)

    def run(self, passes: int, repeats: int) -> list[float]:
        """Give every shard the frames so often; return seconds of processor time for each repeat.

        Args:
            passes: How often, in each repeat.
            repeats: How many figures; one run before them warms up.

        Raises:
            AssertionError: A shard or the listener did not get every event, or a sequence is wrong.
        """
        longs = (*self._counters, self._sent, self._lost)
        reads = tuple((at, 8) for at in longs) + tuple((at, 4) for at in self._sequences)
        registers = self._registers | {"r14": passes}
        call = native.Call(LOOP, list(registers.values()), reads=reads, gs_base=self._gs)
        seconds = []
        for before, after in itertools.pairwise(self._program.run([call] * (repeats + 1))):
            more = {at: _number(after.memory[at]) - _number(before.memory[at]) for at in longs}
            wanted = passes * EVENTS
            for at in self._counters:
                assert more[at] == wanted, f"{more[at]} events of {wanted}"
            told = wanted * len(self._counters) * self._heard
            assert (more[self._sent], more[self._lost]) == (told, 0)
            for at in self._sequences:
                assert _number(after.memory[at]) == FIRST_SEQUENCE + EVENTS - 1
            seconds.append(after.seconds)
        return seconds


def _number(contents: bytes) -> int:
    return int.from_bytes(contents, "little")
