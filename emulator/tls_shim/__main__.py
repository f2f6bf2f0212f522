"""The program: 0 with nothing on stderr, 89 for what is not implemented, else 1 and the reason."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from emulator.tls_shim.settings import NotImplementedHereError, read_flags

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emulator.tls_shim.settings import Settings

ASKS_FOR_HANDSHAKER = "-is-handshaker-supported"
"""Asked once, before all tests: whether a handshake can move from one process to another."""
GOOD, FAILED, NOT_IMPLEMENTED = 0, 1, 89


def main(arguments: Sequence[str]) -> int:
    """Run one connection; return the exit code."""
    if ASKS_FOR_HANDSHAKER in arguments:
        sys.stdout.write("No\n")
        return GOOD
    try:
        settings = read_flags(arguments)
    except NotImplementedHereError as problem:
        return _tell(f"not implemented: {problem}", NOT_IMPLEMENTED)
    # Most of a runner's tests end before this line: making the client takes a second or two.
    from emulator.tls_shim.verdict import FailedError  # noqa: PLC0415

    try:
        _run(settings)
    except NotImplementedHereError as problem:
        return _tell(f"not implemented: {problem}", NOT_IMPLEMENTED)
    except FailedError as problem:
        return _tell(str(problem), FAILED)
    except OSError as problem:
        return _tell(f":TRANSPORT: {problem}", FAILED)
    return GOOD


def _run(settings: Settings) -> None:
    """Let a node connect, or the client in this process."""
    if settings.node:
        from emulator.tls_shim.relay import Relay  # noqa: PLC0415

        Relay(settings).run()
        return
    from emulator.machine import MachineError  # noqa: PLC0415
    from emulator.tls_shim.connection import Connection  # noqa: PLC0415
    from emulator.tls_shim.verdict import FailedError  # noqa: PLC0415

    try:
        Connection(settings).run()
    except MachineError as problem:
        raise FailedError(f":MACHINE_FAULT: {problem}") from problem


def _tell(reason: str, code: int) -> int:
    sys.stderr.write(f"{reason}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
