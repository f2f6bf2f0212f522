"""What boot chose, for tests that have no boot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firmware.layouts.variants import VARIANTS

if TYPE_CHECKING:
    from firmware.layouts.variants import Variant
    from tests.support.lab import Lab


def choose(lab: Lab, variant: Variant) -> None:
    """Let every family use a variant."""
    chosen = lab.g(VARIANTS)
    chosen.usable = 1
    chosen.aes_gcm = chosen.x25519 = chosen.p256 = chosen.signatures = variant
    chosen.sha256 = chosen.sha512 = variant
