"""Where the parts of a shard and of an image lie, for every machine that runs routines."""

from __future__ import annotations

from emulator.memory import Region
from firmware import limits
from toolchain.link import SectionPlan

SECTIONS = (
    SectionPlan(".text", limits.IMAGE_BASE, executable=True),
    SectionPlan(".rodata", align=limits.PAGE),
    SectionPlan(".data", align=limits.PAGE, writable=True),
    SectionPlan(".bss", align=limits.PAGE, writable=True),
    SectionPlan(".trust", align=limits.PAGE),
)


def workspace_regions(slot: int) -> tuple[Region, ...]:
    """Return the three mapped parts of a shard's workspace; the ring has two addresses."""
    base = limits.WORKSPACE_BASE + slot * limits.WORKSPACE_STRIDE
    ring = base + limits.WORKSPACE_RING
    return (
        Region(f"state{slot}", base + limits.WORKSPACE_STATE, limits.WORKSPACE_STATE_BYTES),
        Region(f"tx{slot}", base + limits.WORKSPACE_TX, limits.TX_BYTES, foreign=True),
        Region(
            f"ring{slot}",
            ring,
            limits.RING_BYTES,
            aliases=(ring + limits.RING_BYTES,),
            foreign=True,
        ),
    )
