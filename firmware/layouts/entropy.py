"""Entropy: where it comes from, what became of each source, and what a healthy sample is."""

from __future__ import annotations

import enum

SAMPLES = 8
"""Numbers of 64 bits that a source is asked for: twice the 256 bits that it is credited with."""
SAMPLE_BYTES = 8 * SAMPLES
VARYING_MIN = 48
"""Bits that must be 0 in one number and 1 in another. Of eight random numbers fewer vary once in 2^68."""


class EntropySource(enum.IntEnum):
    """Who is asked, in this order; the row in the table of sources."""

    RDSEED = 0
    RDRAND = 1
    VIRTIO_RNG = 2


class Gathered(enum.IntEnum):
    """What a source says of its sample."""

    COMPLETE = 0
    BROKEN = 1
    """It gave less, or nothing."""
    ABSENT = 2


class SourceState(enum.IntEnum):
    """What became of a source. Only a credited one makes the generator fit for keys."""

    ABSENT = 0
    CREDITED = 1
    FAILED = 2
    """It broke off, or its sample is none of a random source; what it gave is mixed in all the same."""
