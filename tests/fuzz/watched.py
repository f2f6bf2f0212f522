"""What is watched in every machine under fuzzing, and how much of it one input may take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.environment import Environment
from emulator.fuzz.watch import Watch

if TYPE_CHECKING:
    from tests.support.lab import Lab
    from toolchain.link.image import Placed

INSTRUCTIONS_MAX = 2_000_000
"""Of the watched routines, for one input: what the longest legal one needs, several times over."""
LAYERS = (
    "firmware.tls.",
    "firmware.x509.",
    "firmware.bus.",
    "firmware.text",
    "firmware.boot.smbios",
    "firmware.fleet.enrol_",
)
STEPS_MAX = 100
"""Turns of a chain's search; its own budget ends before."""


def _parsers(placed: Placed) -> bool:
    return str(placed.thing.module).startswith(LAYERS)


def watched(lab: Lab) -> Watch:
    """Watch the parsers of a machine: TLS, X.509, NATS, enrolment."""
    lab.machine.environment = Environment(recording=False)
    return Watch(lab.machine, _parsers, INSTRUCTIONS_MAX)
