"""The committed instruction methods are those that the generator writes."""

import subprocess
import sys
from pathlib import Path

from toolchain.asm import instructions
from toolchain.asm.generate import render


def test_instructions_are_up_to_date():
    path = Path(instructions.__file__)
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(path), "-"]
    done = subprocess.run(command, input=render(), capture_output=True, text=True, check=True)
    assert path.read_text(encoding="utf-8") == done.stdout, (
        "run `python -m toolchain.asm.generate` and `ruff format`"
    )


def test_vector_instructions_with_vex_are_left_out():
    names = {name for rows in instructions.FORMS.values() for name, _, _ in rows}
    vex = {name for name in names if name.startswith("VEX_")}
    assert vex
    assert not any("XMM" in name or "YMM" in name for name in vex)


def test_what_the_issue_asks_for_is_there():
    wanted = (
        "aesenc", "pclmulqdq", "sha256rnds2", "mulx", "adcx", "adox", "pshufb", "ptest", "movbe",
        "rdrand", "rdtsc", "cpuid", "lgdt", "lidt", "ltr", "wrmsr", "invlpg", "hlt", "cmpxchg16b",
    )  # fmt: skip
    assert set(wanted) <= set(instructions.FORMS)
