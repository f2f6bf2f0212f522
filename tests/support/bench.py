"""What the benchmarks share: rows of the table, the processor time of a process, repetitions."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parents[2]
SHARDFW = Path(sys.executable).with_name("shardfw")
TABLE = ROOT / "build" / "bench.md"
REPEATS = int(os.environ.get("SHARDFW_BENCH_REPEATS", "5"))
"""Runs of everything that the machine's other work can disturb."""


@dataclass(frozen=True)
class Row:
    """One figure.

    Attributes:
        figure: What was measured.
        value: The value with its unit.
        command: What prints it.
    """

    figure: str
    value: str
    command: str


def table(rows: Sequence[Row]) -> str:
    """Return the figures as a Markdown table."""
    lines = ["| figure | value | command |", "|---|---|---|"]
    lines += [f"| {row.figure} | {row.value} | `{row.command}` |" for row in rows]
    return "\n".join(lines) + "\n"


def spread(values: Sequence[float], unit: str, digits: int = 0) -> str:
    """Return minimum, median and maximum of repeated measurements, in words."""
    marks = min(values), statistics.median(values), max(values)
    low, middle, high = (f"{mark:,.{digits}f}" for mark in marks)
    return f"median {middle} {unit}, min {low}, max {high}, of {len(values)}"


def machine() -> str:
    """Return the machine, and how busy it is with other work."""
    cpu = next(
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        if line.startswith("model name")
    )
    words = _output(["qemu-system-x86_64", "--version"]).split()
    version = words[words.index("version") + 1]
    python = ".".join(map(str, sys.version_info[:3]))
    load = os.getloadavg()[0]
    return (
        f"{os.cpu_count()} cores of {cpu}, QEMU {version} (TCG), Python {python}, "
        f"load average {load:.1f} at the end"
    )


def commit() -> str:
    """Return the commit measured, and whether the working copy differs from it."""
    changed = _output(["git", "status", "--porcelain", "--untracked-files=no"])
    return _output(["git", "rev-parse", "--short", "HEAD"]) + (" with changes" if changed else "")


def shardfw_json(*arguments: str) -> dict[str, Any]:
    """Return what a command of shardfw prints as JSON, whatever it thinks of it.

    Raises:
        RuntimeError: It printed nothing.
    """
    command = [str(SHARDFW), *arguments]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    if not done.stdout:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _output(command: list[str]) -> str:
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used, user and system, all threads."""
    # The name in parentheses may hold spaces; fields are counted from behind it.
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int) -> float:
    """Return the memory of a process that is in RAM, in MiB, shared libraries included."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"/proc/{pid}/status has no line VmRSS")
