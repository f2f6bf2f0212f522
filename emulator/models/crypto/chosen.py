"""What boot chose."""

from emulator.effects import World
from firmware.layouts.variants import VARIANTS


def is_fast(w: World, family: str) -> bool:
    """Tell whether a family's fast variant is used."""
    return bool(getattr(w.g(VARIANTS), family) == 1)
