"""Boot images made here, so that the node runner is tested without the project's own image."""

import subprocess
from pathlib import Path

import pytest

from pxe.qemu import require_program

SOURCES = Path(__file__).parent / "images"


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with nbp.bin (network boot) and direct.bin (multiboot)."""
    folder = tmp_path_factory.mktemp("images")
    # TFTP servers serve what everybody may read.
    folder.chmod(0o755)
    for name in ("nbp", "direct"):
        nasm = require_program("nasm", "nasm")
        source, image = str(SOURCES / f"{name}.asm"), str(folder / f"{name}.bin")
        subprocess.run([nasm, "-f", "bin", "-o", image, source], check=True)
    return folder
