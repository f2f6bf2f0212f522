"""Hand-written NASM assembles against the include, and the seed's listings give our bytes."""

import pytest

from emulator.workspace import SECTIONS
from firmware.layouts.nasm import ALIASES, EQUS
from firmware.layouts.node import CLOCK, LEASE
from firmware.shard.backoff import schedule_backoff
from firmware.shard.resume import restore_resume_state
from tests.support.forms import nasm
from tests.support.seed import our_bytes, seed_bytes
from toolchain.asm import AsmError
from toolchain.layout.render import nasm_include
from toolchain.link import Linker

IMAGE = Linker((schedule_backoff, restore_resume_state), SECTIONS, keep=(CLOCK, LEASE)).link()
INCLUDE = nasm_include(EQUS, ALIASES, IMAGE)


@pytest.mark.parametrize("routine", ["schedule_backoff", "restore_resume_state"])
def test_seed_listing_gives_our_bytes(routine):
    ours, seed = our_bytes(IMAGE, routine), seed_bytes(IMAGE, routine)
    assert len(seed) > 40
    assert ours == seed + b"\xc3"


def test_include_names_every_name_of_the_seed():
    wanted = (
        "SHARD_OFF_STATE", "SHARD_OFF_RECONNECTS", "SHARD_OFF_RECONNECT_DEADLINE",
        "SHARD_OFF_SESSION_PTR", "SHARD_OFF_SEQUENCE", "SHARD_OFF_FLAGS", "SHARD_FLAG_SEQ_VALID",
        "SSES_VALID", "SHARD_RECONNECT_BACKOFF_MS", "SHARD_STATE_ASSIGNED", "SHARD_STATE_STARTING",
        "SHARD_STATE_READY", "SHARD_STATE_BACKOFF", "SHARD_STATE_FATAL",
    )  # fmt: skip
    names = {line.split()[0] for line in INCLUDE.splitlines() if " equ " in line}
    assert names.issuperset(wanted)
    for label in ("shard_lease_expired", "shard_lease_deadline", "tsc_cycles_per_ms"):
        assert f"\n{label}: ;" in INCLUDE


def test_include_labels_lie_at_the_real_addresses():
    text = "bits 64\n" + INCLUDE + "dq shard_lease_expired, shard_lease_deadline, tsc_cycles_per_ms"
    got = nasm(text)
    values = [int.from_bytes(got[n : n + 8], "little") for n in (0, 8, 16)]
    lease, clock = IMAGE.address(LEASE), IMAGE.address(CLOCK)
    assert values == [lease + 0x10, lease, clock]


def test_include_refuses_an_image_without_the_data():
    image = Linker((restore_resume_state,), SECTIONS).link()
    with pytest.raises(AsmError) as caught:
        nasm_include(EQUS, ALIASES, image)
    assert str(caught.value) == (
        "shard_lease_expired needs lease, which the image does not hold; "
        "link a routine that uses lease"
    )
