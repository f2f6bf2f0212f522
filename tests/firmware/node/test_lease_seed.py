"""`lease_tick` is the seed's listing, byte for byte."""

from emulator.workspace import SECTIONS
from firmware.layouts.node import CLOCK
from firmware.node.lease import lease_tick
from tests.support.seed import our_bytes, seed_bytes
from toolchain.link import Linker


def test_seed_listing_gives_our_bytes():
    image = Linker((lease_tick,), SECTIONS, keep=(CLOCK,)).link()
    seed = seed_bytes(image, "lease_tick", {"legacy_shards_expire_lease64": "expire_lease"})
    assert len(seed) > 40
    assert our_bytes(image, "lease_tick") == seed
