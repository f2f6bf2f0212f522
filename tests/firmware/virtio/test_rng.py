"""virtio-rng: every kind of device gives a sample, and none takes more than its time."""

import pytest

from emulator.devices.virtio import F_VERSION_1
from firmware.layouts.boot import BOOT
from firmware.layouts.entropy import SAMPLE_BYTES, Gathered
from firmware.layouts.memory import MEMORY
from firmware.layouts.nic import Transport
from firmware.layouts.rng import RNG, RNG_BUFFER, RNG_QUEUE, RNG_WAIT_BITS
from firmware.limits import MMIO_BYTES, PAGE, WINDOW_MMIO
from firmware.virtio.rng import rng_gather
from firmware.virtio.rng_start import rng_lay
from tests.support.nic import windows_lab
from tests.support.rng import KINDS, RngBench, bytes_of

LAB = windows_lab(rng_gather)
COMPLETE, BROKEN, ABSENT = Gathered.COMPLETE, Gathered.BROKEN, Gathered.ABSENT
DECODE_AND_MASTER = 7
LONGEST = 1 << RNG_WAIT_BITS


def gather(bench):
    """Return what the driver says of the sample, and the sample."""
    lab = bench.lab
    out = lab.machine.alloc(SAMPLE_BYTES)
    lab.machine.write(out, bytes(SAMPLE_BYTES))
    fate = lab.call(rng_gather, bench.environment(), out=out).outputs["eax"]
    left = lab.machine.read(RNG_BUFFER, SAMPLE_BYTES)
    assert left == bytes(SAMPLE_BYTES), "nothing of a sample stays where a device can reach it"
    return fate, lab.machine.read(out, SAMPLE_BYTES)


def is_off(device):
    return device.status == 0 and not device.command & DECODE_AND_MASTER


@pytest.fixture(params=KINDS)
def kind(request):
    """The options of each kind of device."""
    return KINDS[request.param]


def test_gather_from_every_kind_of_device(kind):
    bench = RngBench(LAB, **kind)
    fate, sample = gather(bench)
    assert (fate, sample) == (COMPLETE, bytes_of()(SAMPLE_BYTES))
    device = bench.device
    assert (device.asked, device.notified) == ([SAMPLE_BYTES], [0])
    assert device.interrupts == 0, "the driver polls"
    assert is_off(device), "nothing of the device runs beside the node"
    assert bench.bus.strays == []
    assert LAB.g(RNG).transport == Transport.NONE


def test_gather_again_gives_other_bytes_through_the_same_windows(kind):
    bench = RngBench(LAB, **kind)
    first = gather(bench)
    mapped = LAB.g(MEMORY).mmio_next
    second = gather(bench)
    assert (first[0], second[0]) == (COMPLETE, COMPLETE)
    assert first[1] != second[1]
    assert LAB.g(MEMORY).mmio_next == mapped


def test_gather_without_a_device():
    bench = RngBench(LAB)
    LAB.g(BOOT).rng_function = 0
    bench.bus.devices.clear()
    assert gather(bench) == (ABSENT, bytes(SAMPLE_BYTES))
    assert bench.bus.strays == []


@pytest.mark.parametrize("delay", [1, 2, 50])
def test_gather_waits_for_the_answer(kind, delay):
    bench = RngBench(LAB, delay=delay, **kind)
    assert gather(bench) == (COMPLETE, bytes_of()(SAMPLE_BYTES))


@pytest.mark.parametrize("delay", [0, 3])
@pytest.mark.parametrize("most", [1, 24, 63])
def test_gather_asks_for_what_is_missing(kind, most, delay):
    given = bytearray()

    def source(room):
        given.extend(piece := bytes_of(len(given))(min(room, most)))
        return piece

    bench = RngBench(LAB, source, delay=delay, **kind)
    assert gather(bench) == (COMPLETE, bytes(given))
    assert bench.device.asked == list(range(SAMPLE_BYTES, 0, -most))


@pytest.mark.parametrize("size", [1, 2, 256, 1024])
def test_gather_any_queue_size(kind, size):
    """With fewer entries than answers the rings wrap."""
    bench = RngBench(LAB, lambda room: bytes_of(room)(min(room, 20)), queue_size=size, **kind)
    assert gather(bench)[0] == COMPLETE
    assert bench.device.asked == [64, 44, 24, 4]


@pytest.mark.parametrize("size", [0, 3, 1023, 2048])
def test_gather_legacy_queue_size_that_cannot_be(size):
    bench = RngBench(LAB, queue_size=size)
    assert gather(bench)[0] == BROKEN
    assert is_off(bench.device)


def test_gather_modern_queue_that_is_not_there():
    bench = RngBench(LAB, modern=True, queue_size=0)
    assert gather_broken(bench)


def gather_broken(bench):
    """Tell whether the driver gave up cleanly."""
    fate, sample = gather(bench)
    assert sample == bytes(SAMPLE_BYTES)
    return fate == BROKEN and is_off(bench.device)


LIES = {
    "nothing": lambda head, _length: (head, 0),
    "more than was asked for": lambda head, _length: (head, SAMPLE_BYTES + 1),
    "four gigabytes": lambda head, _length: (head, 2**32 - 1),
    "another buffer": lambda _head, length: (1, length),
    "a buffer that cannot be": lambda _head, length: (2**32 - 1, length),
}


@pytest.mark.parametrize("lie", LIES)
def test_gather_device_that_lies_about_its_answer_is_broken(kind, lie):
    bench = RngBench(LAB, report=LIES[lie], **kind)
    fate, sample = gather(bench)
    assert fate == BROKEN
    assert sample == bytes_of()(SAMPLE_BYTES), "what it stored is mixed in all the same"
    assert is_off(bench.device)


def test_gather_device_that_gives_more_than_is_missing_is_broken():
    answers = iter([40, 64])
    bench = RngBench(
        LAB, lambda room: bytes_of(room)(40), report=lambda head, _: (head, next(answers))
    )
    assert gather(bench)[0] == BROKEN


@pytest.mark.parametrize(("step", "looks"), [(LONGEST, 1), (LONGEST - 1, 2), (LONGEST // 8, 8)])
def test_gather_device_that_never_answers_is_given_up_in_its_time(kind, step, looks):
    bench = RngBench(LAB, lambda _room: b"", **kind)
    bench.step = step
    begun = bench.now
    assert gather_broken(bench)
    assert len(bench.device.asked) == 1
    assert (bench.now - begun) // step == 1 + looks


def test_gather_device_that_falls_silent_leaves_what_it_gave(kind):
    answers = iter([bytes_of()(20), b""])
    bench = RngBench(LAB, lambda _room: next(answers), **kind)
    bench.step = LONGEST // 4
    assert gather(bench) == (BROKEN, bytes_of()(20).ljust(SAMPLE_BYTES, b"\0"))
    assert is_off(bench.device)


def test_gather_answers_that_dribble_have_one_time_for_all():
    bench = RngBench(LAB, lambda room: bytes_of(room)(1), delay=1)
    bench.step = LONGEST // 8
    assert gather(bench)[0] == BROKEN
    assert len(bench.device.asked) == 8


def test_gather_index_that_jumps_is_no_answer():
    """What the device says beyond what it was asked is not believed."""

    def jump(head, length):
        bench.device.queues[0].returned = 6
        return head, length

    bench = RngBench(LAB, report=jump)
    bench.step = LONGEST // 4
    assert gather(bench) == (BROKEN, bytes_of()(SAMPLE_BYTES))


# -- devices that cannot be started ----------------------------------------------------------------
def capability_at(device, kind):
    at = device.config[0x34]
    while at:
        if device.config[at] == 9 and device.config[at + 3] == kind:
            return at
        at = device.config[at + 1]
    raise LookupError(kind)


@pytest.mark.parametrize("kind", [1, 2])
def test_gather_modern_device_without_a_structure(kind):
    bench = RngBench(LAB, modern=True)
    bench.device.poke(capability_at(bench.device, kind) + 3, 1, 9)
    assert gather(bench)[0] == BROKEN


def test_gather_transitional_device_whose_windows_fail_is_used_by_its_ports():
    bench = RngBench(LAB, transitional=True)
    LAB.g(MEMORY).mmio_next = WINDOW_MMIO + MMIO_BYTES
    assert gather(bench)[0] == COMPLETE
    bench = RngBench(LAB, transitional=True)
    bench.device.refuse_features = True
    assert gather(bench)[0] == COMPLETE
    assert is_off(bench.device)


@pytest.mark.parametrize("pages", range(2))
def test_gather_modern_device_without_room_for_its_windows(pages):
    bench = RngBench(LAB, modern=True)
    LAB.g(MEMORY).mmio_next = WINDOW_MMIO + MMIO_BYTES - pages * PAGE
    assert gather(bench)[0] == BROKEN


def test_gather_modern_device_that_refuses_the_features():
    bench = RngBench(LAB, modern=True)
    bench.device.refuse_features = True
    assert gather_broken(bench)
    bench = RngBench(LAB, modern=True)
    bench.device.offered &= ~(1 << F_VERSION_1)
    assert gather_broken(bench)


def test_gather_notify_register_outside_its_structure():
    bench = RngBench(LAB, modern=True)
    bench.device.poke(capability_at(bench.device, 2) + 12, 4, 1)
    assert gather_broken(bench)


def test_gather_device_without_ports():
    bench = RngBench(LAB)
    for bar in (0, 0xFEB0_0000):
        bench.device.poke(0x10, 4, bar)
        assert gather(bench)[0] == BROKEN
    assert not bench.device.command & DECODE_AND_MASTER


def test_gather_reset_that_never_ends_takes_the_device_off_the_bus(kind):
    bench = RngBench(LAB, **kind)
    bench.device.reset_reads = 10**9
    assert gather(bench)[0] == BROKEN
    assert not bench.device.command & DECODE_AND_MASTER


def test_gather_slow_reset_is_waited_for(kind):
    bench = RngBench(LAB, **kind)
    bench.device.reset_reads = 3
    assert gather(bench)[0] == COMPLETE


# -- the rings -------------------------------------------------------------------------------------
@pytest.mark.parametrize("entries", [1, 2, 8, 128, 1024])
def test_lay_keeps_the_rings_within_their_memory(entries):
    bench = RngBench(LAB)
    LAB.machine.write(RNG_QUEUE, b"\xa5" * (RNG_BUFFER - RNG_QUEUE))
    assert LAB.call(rng_lay, bench.environment(), entries=entries).outputs["cf"] == 0
    queue = LAB.g(RNG).queue
    assert queue.descriptors == RNG_QUEUE
    assert queue.available == RNG_QUEUE + 16 * entries
    assert queue.used % PAGE == 0
    assert queue.used >= queue.available + 6 + 2 * entries
    assert queue.used + 6 + 8 * entries <= RNG_BUFFER
    assert queue.mask == entries - 1


@pytest.mark.parametrize("entries", [0, 3, 5, 2047, 2048, 2**31, 2**32 - 1])
def test_lay_refuses_what_is_no_queue_size(entries):
    bench = RngBench(LAB)
    assert LAB.call(rng_lay, bench.environment(), entries=entries).outputs["cf"] == 1
