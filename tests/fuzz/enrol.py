"""The enrolment's targets: the machine's SMBIOS table, and what an operator sealed."""

from __future__ import annotations

import uuid

from emulator.fuzz.engine import BrokenRuleError, Target
from firmware.boot.smbios import smbios_walk
from firmware.fleet.enrol_grant import grant_judge
from firmware.layouts.enrol import Grant
from firmware.layouts.fleet_config import CREDENTIAL_MAX, BusAuth
from firmware.layouts.smbios import SERIAL_MAX, SMBIOS
from firmware.limits import TOKEN_MAX
from tests.fuzz.watched import watched
from tests.support.enrol import grant as a_grant
from tests.support.lab import INPUT, INPUT_BYTES, Lab
from toolchain.layout.pack import unpack

LONGEST = 4096
IDENTITY = uuid.UUID("4c4c4544-0057-4d10-8030-b4c04f4b5931").bytes_le
TABLE = [
    b"\0\x18\0\0" + bytes(20) + b"SeaBIOS\x001.16\0\0",
    b"\1\x1b\1\0\1\2\0\3" + IDENTITY + b"\6\0\0" + b"Maker\0Model\0S-1 of 2 \0\0",
    b"\x7f\4\x7f\0\0\0",
]


def table() -> Target:
    """A structure table, behind which nothing is mapped."""
    lab = Lab(smbios_walk, slots=0, semantics=False)
    lab.reset()
    watch = watched(lab)

    def run(data: bytes) -> None:
        lab.g(SMBIOS).wipe()
        at = lab.put(data)
        lab.free(smbios_walk, table=at, end=at + len(data))
        found = lab.g(SMBIOS)
        if found.serial_len > SERIAL_MAX:
            raise BrokenRuleError(f"a serial number of {found.serial_len} bytes")
        if not all(0x20 < byte < 0x7F for byte in bytes(found.serial)[: found.serial_len]):
            raise BrokenRuleError("a serial number that is no token")

    places = [(INPUT, INPUT_BYTES), (lab.image.address(SMBIOS), SMBIOS.size)]
    seeds = [b"".join(TABLE), b"".join(TABLE[1:]), TABLE[1][:-20]]
    return Target("smbios", lab.machine, run, seeds, watch, places, LONGEST)


def grant() -> Target:
    """What was sealed, whoever sealed it; always of the same length."""
    lab = Lab(grant_judge, slots=0, semantics=False)
    lab.reset()
    watch = watched(lab)

    def run(data: bytes) -> None:
        plain = data[: Grant.SIZE].ljust(Grant.SIZE, b"\0")
        error = lab.free(grant_judge, grant=lab.put(plain))["rax"] & 0xFFFF_FFFF
        told = unpack(Grant, plain)
        login = told["login"]
        good = (
            1 <= told["token_len"] <= TOKEN_MAX
            and login["auth"] in set(BusAuth)
            and max(login["user_len"], login["password_len"]) <= CREDENTIAL_MAX
        )
        if not error and not good:
            raise BrokenRuleError("a grant out of bounds is taken")

    places = [(INPUT, INPUT_BYTES)]
    seeds = [a_grant(), a_grant(b"t" * TOKEN_MAX, login={"auth": BusAuth.NKEY})]
    return Target("grant", lab.machine, run, seeds, watch, places, Grant.SIZE)
