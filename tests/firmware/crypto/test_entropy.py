"""Sources of entropy: honest ones are credited, lying ones are found out and mixed in all the same."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.constant_time import same_traces
from emulator.environment import Environment
from firmware.crypto.entropy import (
    RDRAND_TRIES,
    RDSEED_TRIES,
    entropy_gather,
    entropy_judge,
    entropy_rdrand,
    entropy_rdseed,
)
from firmware.layouts.crypto import DRBG, Drbg
from firmware.layouts.entropy import SAMPLE_BYTES, SAMPLES, EntropySource, Gathered, SourceState
from firmware.layouts.log import LOG, LOG_RING
from firmware.layouts.node import CLOCK, NETWORK
from tests.support.nic import windows_lab
from tests.support.rng import KINDS, RngBench, bytes_of

LAB = windows_lab(entropy_gather)
ONES = 2**64 - 1
BOTH, SEED_ALONE, RAND_ALONE, NEITHER = (1, 1), (1, 0), (0, 1), (0, 0)
ABSENT, CREDITED, FAILED = SourceState.ABSENT, SourceState.CREDITED, SourceState.FAILED


def honest(seed=1):
    """Return eight numbers of a healthy source."""
    numbers = random.Random(seed)
    return [numbers.getrandbits(64) for _ in range(SAMPLES)]


def answers(numbers):
    return [(True, number) for number in numbers]


def processor(has, highest=7):
    """Return a CPUID that tells of RDSEED, of RDRAND, and of leaves up to the highest."""
    seed, rand = has

    def cpuid(leaf, _subleaf):
        return {0: (highest, 0, 0, 0), 1: (0, 0, rand << 30, 0)}.get(leaf, (0, seed << 18, 0, 0))

    return cpuid


def gather(has=BOTH, seeds=None, rand=None, *, fresh=True, mac=b"\x52\x54\0", highest=7):
    """Gather in lockstep; sources are honest unless their answers are given."""
    if fresh:
        LAB.reset()
        LAB.machine.write(LAB.image.address(DRBG), bytes(Drbg.SIZE))
        LAB.g(NETWORK).mac[:] = mac.ljust(6, b"\x07")
        LAB.g(CLOCK).unix_time = 1_796_000_000
    outside = Environment(
        tsc=[0x1234_5678_9ABC_DEF0],
        on_cpuid=processor(has, highest),
        seeds=answers(honest(1)) if seeds is None else seeds,
        random=answers(honest(2)) if rand is None else rand,
    )
    LAB.call(entropy_gather, outside)
    return LAB.g(DRBG)


def states(drbg):
    return tuple(bytes(drbg.sources)[: len(EntropySource)])


def lines():
    raw = LAB.machine.read(LAB.image.address(LOG_RING), LAB.g(LOG).head)
    return [line.split(" ", 1)[1] for line in raw.decode().splitlines()]


def judge(numbers):
    LAB.reset()
    drbg = LAB.g(DRBG)
    drbg.seed[:] = b"".join(number.to_bytes(8, "little") for number in numbers)
    return LAB.call(entropy_judge).outputs["cf"]


# -- the test --------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(5))
def test_judge_random_numbers_pass(seed):
    assert judge(honest(seed)) == 0


A, B = 0x9E37_79B9_7F4A_7C15, 0xD1B5_4A32_D192_ED03
LIARS = {
    "all ones, as after a resume": [ONES] * SAMPLES,
    "zeros": [0] * SAMPLES,
    "one number for ever": [A] * SAMPLES,
    "two numbers in turn": [A, B] * 4,
    "a number and its complement": [A, A ^ ONES] * 4,
    "four numbers in turn": [*honest()[:4]] * 2,
    "a counter": list(range(1, 9)),
    "a large counter": [A + n for n in range(SAMPLES)],
    "one bit that walks": [1 << 7 * n for n in range(SAMPLES)],
    "32 bits in 64": [number >> 32 for number in honest()],
    "16 bits in 64": [number & 0xFFFF for number in honest()],
}


@pytest.mark.parametrize("liar", LIARS)
def test_judge_what_no_random_source_gives_is_refused(liar):
    assert judge(LIARS[liar]) == 1


@pytest.mark.parametrize("at", range(SAMPLES))
@pytest.mark.parametrize("value", [0, ONES])
def test_judge_one_number_of_equal_bits_is_refused(at, value):
    numbers = honest()
    numbers[at] = value
    assert judge(numbers) == 1


@pytest.mark.parametrize("first", range(SAMPLES))
@pytest.mark.parametrize("second", range(SAMPLES))
def test_judge_a_number_that_comes_twice_is_refused(first, second):
    numbers = honest()
    numbers[second] = numbers[first]
    assert judge(numbers) == int(first != second)


@pytest.mark.parametrize(("still", "refused"), [(0, 0), (15, 0), (16, 0), (17, 1), (40, 1)])
@pytest.mark.parametrize("value", [0, ONES])
def test_judge_sixteen_bits_may_stand_still(still, refused, value):
    # Every bit of these four pairs varies; then some are held.
    numbers = [*honest()[:4], *(number ^ ONES for number in honest()[:4])]
    mask = (1 << still) - 1
    assert judge([number & ~mask | value & mask for number in numbers]) == refused


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(st.sampled_from([0, 1, ONES, ONES - 1, A]), st.integers(0, ONES)),
        min_size=SAMPLES,
        max_size=SAMPLES,
    )
)
def test_judge_any_sample_matches_model(numbers):
    judge(numbers)


def test_judge_takes_the_same_steps_whatever_the_sample():
    def prepare(secret, _public):
        LAB.g(DRBG).seed[:] = b"".join(number.to_bytes(8, "little") for number in secret)
        return {}

    samples = [honest(), [0] * SAMPLES, [ONES] * SAMPLES, [A, B] * 4, list(range(SAMPLES))]
    same_traces(LAB.machine, entropy_judge, prepare, secrets=samples, publics=[0], minimum=400)


# -- one source ------------------------------------------------------------------------------------
def ask(routine, outside):
    out = LAB.machine.alloc(SAMPLE_BYTES)
    LAB.machine.write(out, bytes(SAMPLE_BYTES))
    fate = LAB.call(routine, outside, out=out).outputs["eax"]
    return fate, LAB.machine.read(out, SAMPLE_BYTES)


@pytest.mark.parametrize(
    ("routine", "stream", "tries"),
    [(entropy_rdseed, "seeds", RDSEED_TRIES), (entropy_rdrand, "random", RDRAND_TRIES)],
)
class TestInstruction:
    def outside(self, stream, given):
        return Environment(on_cpuid=processor(BOTH), **{stream: given})

    def test_gives_eight_numbers(self, routine, stream, tries):
        fate, sample = ask(routine, self.outside(stream, answers(honest())))
        assert fate == Gathered.COMPLETE
        assert sample == b"".join(number.to_bytes(8, "little") for number in honest())

    def test_is_tried_again_so_many_times(self, routine, stream, tries):
        given = [(False, 0)] * (tries - 1) + answers(honest())
        assert ask(routine, self.outside(stream, given))[0] == Gathered.COMPLETE

    @pytest.mark.parametrize("good", [0, 1, 7])
    def test_that_has_nothing_more_is_broken_and_keeps_what_it_gave(
        self, routine, stream, tries, good
    ):
        given = answers([A] * good) + [(False, 0)] * tries
        fate, sample = ask(routine, self.outside(stream, given))
        assert fate == Gathered.BROKEN
        assert sample == A.to_bytes(8, "little") * good + bytes(8 * (SAMPLES - good))

    def test_the_processor_lacks_is_not_executed(self, routine, stream, tries):
        fate, sample = ask(routine, Environment(on_cpuid=processor(NEITHER)))
        assert (fate, sample) == (Gathered.ABSENT, bytes(SAMPLE_BYTES))


@pytest.mark.parametrize("highest", [1, 6])
def test_rdseed_leaf_beyond_the_highest_tells_nothing(highest):
    # A processor answers such a leaf with the highest one that it has.
    fate, _ = ask(entropy_rdseed, Environment(on_cpuid=processor(BOTH, highest)))
    assert fate == Gathered.ABSENT


# -- all of them -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("has", "wanted", "weak"),
    [
        (BOTH, (CREDITED, CREDITED, ABSENT), 0),
        (SEED_ALONE, (CREDITED, ABSENT, ABSENT), 0),
        (RAND_ALONE, (ABSENT, CREDITED, ABSENT), 0),
        (NEITHER, (ABSENT, ABSENT, ABSENT), 1),
    ],
)
def test_gather_one_healthy_source_is_enough(has, wanted, weak):
    drbg = gather(has)
    assert (states(drbg), drbg.weak, drbg.seeded) == (wanted, weak, 1)
    assert bytes(drbg.seed) == bytes(SAMPLE_BYTES), "what was gathered must not stay in memory"
    told = [f"{source.name.lower()}={state.name.lower()}" for source, state in zip(EntropySource, wanted, strict=True)]  # fmt: skip
    assert lines() == [f"level=info code=entropy.gathered {' '.join(told)}"]


LIES = {name: answers(numbers) for name, numbers in LIARS.items()}
SILENT = [(False, 0)] * RDSEED_TRIES


@pytest.mark.parametrize("lie", [*LIES, "silent", "silent after a while"])
def test_gather_a_liar_makes_no_keys_but_is_mixed_in(lie):
    given = {"silent": SILENT, "silent after a while": answers(honest()[:5]) + SILENT} | LIES
    drbg = gather(RAND_ALONE, rand=given[lie])
    assert (states(drbg), drbg.weak) == ((ABSENT, FAILED, ABSENT), 1)
    assert lines()[0] == "level=warn code=entropy.failed source=rdrand"
    key = bytes(drbg.key)
    with_nothing = bytes(gather(RAND_ALONE, rand=SILENT).key)
    nothing_but_zeros = lie in ("silent", "zeros")
    assert (key == with_nothing) == nothing_but_zeros


def test_gather_a_liar_beside_an_honest_source_takes_nothing_away():
    drbg = gather(rand=answers([ONES] * SAMPLES))
    assert (states(drbg), drbg.weak) == ((CREDITED, FAILED, ABSENT), 0)
    key = bytes(drbg.key)
    assert key != bytes(gather(seeds=answers(honest(3)), rand=answers([ONES] * SAMPLES)).key)
    drbg = gather(seeds=SILENT)
    assert (states(drbg), drbg.weak) == ((FAILED, CREDITED, ABSENT), 0)


def test_gather_each_source_changes_the_key():
    keys = {
        bytes(gather().key),
        bytes(gather(seeds=answers(honest(7))).key),
        bytes(gather(rand=answers(honest(7))).key),
        bytes(gather(mac=b"\x52\x54\1").key),
        bytes(gather(NEITHER).key),
    }
    assert len(keys) == 5
    assert bytes(gather().key) in keys, "the same inputs give the same key"


def test_gather_again_adds_and_never_weakens():
    first = bytes(gather().key)
    drbg = gather(fresh=False, seeds=SILENT, rand=SILENT)
    assert bytes(drbg.key) != first
    assert (states(drbg), drbg.weak, drbg.seeded) == ((FAILED, FAILED, ABSENT), 0, 2)
    gather(fresh=False, seeds=SILENT, rand=SILENT)
    failures = [line for line in lines() if "entropy.failed" in line]
    assert len(failures) == 2, "each source is told of once"
    drbg = gather(fresh=False)
    assert (states(drbg), drbg.weak, drbg.seeded) == ((CREDITED, CREDITED, ABSENT), 0, 4)


def test_gather_weak_ends_with_the_first_healthy_sample():
    drbg = gather(RAND_ALONE, rand=SILENT)
    assert drbg.weak == 1
    assert gather(RAND_ALONE, rand=SILENT, fresh=False).weak == 1
    assert gather(RAND_ALONE, fresh=False).weak == 0


# -- the device ------------------------------------------------------------------------------------
def gather_from(source=None, has=NEITHER, **options):
    """Gather on a machine with a virtio-rng."""
    bench = RngBench(LAB, source, **options)
    LAB.machine.write(LAB.image.address(DRBG), bytes(Drbg.SIZE))
    outside = bench.environment(
        on_cpuid=processor(has), seeds=answers(honest(1)), random=answers(honest(2))
    )
    LAB.call(entropy_gather, outside)
    return LAB.g(DRBG)


@pytest.mark.parametrize("kind", KINDS)
def test_gather_a_processor_without_instructions_lives_on_virtio_rng(kind):
    drbg = gather_from(**KINDS[kind])
    assert (states(drbg), drbg.weak) == ((ABSENT, ABSENT, CREDITED), 0)
    assert lines() == [
        "level=info code=entropy.gathered rdseed=absent rdrand=absent virtio_rng=credited"
    ]


def test_gather_all_three_are_mixed():
    keys = {bytes(gather_from(bytes_of(n), has=BOTH).key) for n in range(3)}
    assert states(LAB.g(DRBG)) == (CREDITED, CREDITED, CREDITED)
    assert len(keys) == 3


@pytest.mark.parametrize("byte", [b"\0", b"\xff", b"\x5a"])
def test_gather_a_host_that_lies_makes_no_keys(byte):
    drbg = gather_from(lambda room: byte * room)
    assert (states(drbg), drbg.weak) == ((ABSENT, ABSENT, FAILED), 1)
    assert lines()[0] == "level=warn code=entropy.failed source=virtio_rng"
    drbg = gather_from(lambda room: byte * room, has=RAND_ALONE)
    assert (states(drbg), drbg.weak) == ((ABSENT, CREDITED, FAILED), 0)
