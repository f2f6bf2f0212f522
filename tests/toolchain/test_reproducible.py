"""The same inputs give the same bytes, whatever the path and the hash seed."""

import hashlib
import os
import shutil
import subprocess
import sys

import pytest

from tests.support.program import program
from toolchain.link.elf import write_elf
from toolchain.link.flat import flat
from toolchain.link.map import map_text
from toolchain.listing import image_listing
from toolchain.source import ROOT

SCRIPT = """
import hashlib
from tests.support.program import program
from toolchain.link.elf import write_elf
from toolchain.link.flat import flat
from toolchain.link.map import map_text
from toolchain.listing import image_listing
import toolchain
image = program()
print(toolchain.__file__)
for part in (flat(image), write_elf(image), map_text(image).encode(), image_listing(image).encode()):
    print(hashlib.sha256(part).hexdigest())
"""


def digests():
    image = program()
    parts = (flat(image), write_elf(image), map_text(image).encode(), image_listing(image).encode())
    return [hashlib.sha256(part).hexdigest() for part in parts]


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """A copy of the sources under another path."""
    folder = tmp_path_factory.mktemp("another place")
    for name in ("toolchain", "tests/support"):
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / name, ignore=ignore)
    return folder


@pytest.mark.parametrize("seed", ["0", "1", "4242"])
def test_image_elf_map_and_listing_are_the_same_elsewhere(elsewhere, seed):
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(elsewhere)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        check=True,
        cwd=elsewhere,
        env=environment,
    )
    where, *found = done.stdout.splitlines()
    assert where.startswith(str(elsewhere))
    assert found == digests()
