"""Every build check refuses something, with its exact message, at the exact line.

Each file of `tests/reject` holds `refused()`, which must raise, and `MESSAGE`, what it says. In a
message `{here}` stands for the file and the line that carries the comment `# refused`.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from toolchain.asm import AsmError
from toolchain.link import LinkError

if TYPE_CHECKING:
    from types import ModuleType

HERE = Path(__file__).parent / "reject"
ROOT = HERE.parents[1]
FILES = sorted(HERE.glob("*.py"))
CHECKED = ("toolchain/asm", "toolchain/layout", "toolchain/link")
_ERRORS = ("AsmError", "LinkError", "TypeError", "error")


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"reject_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def refusal(path: Path) -> BaseException:
    with pytest.raises((AsmError, LinkError, TypeError)) as caught:
        load(path).refused()
    return caught.value


@pytest.mark.parametrize("path", FILES, ids=[p.stem for p in FILES])
def test_refused_with_its_exact_message(path):
    marked = [n for n, row in enumerate(path.read_text().splitlines(), 1) if "# refused" in row]
    assert len(marked) <= 1
    here = f"{path}:{marked[0]}" if marked else ""
    assert str(refusal(path)) == load(path).MESSAGE.replace("{here}", here)


def raise_sites() -> set[tuple[str, int, int]]:
    """Return file, first and last line of every `raise` of a build check."""
    found = set()
    for folder in CHECKED:
        for file in sorted((ROOT / folder).glob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                if not isinstance(node, ast.Raise) or not isinstance(node.exc, ast.Call):
                    continue
                name = node.exc.func
                called = name.attr if isinstance(name, ast.Attribute) else ast.unparse(name)
                if called in _ERRORS:
                    found.add((str(file), node.lineno, node.end_lineno or node.lineno))
    return found


def sites_of(error: BaseException | None) -> set[tuple[str, int]]:
    """Return the lines that raised an error and those that it replaced."""
    lines = set()
    while error is not None:
        frame = error.__traceback__
        while frame is not None and frame.tb_next is not None:
            frame = frame.tb_next
        if frame is not None:
            lines.add((frame.tb_frame.f_code.co_filename, frame.tb_lineno))
        error = error.__context__
    return lines


def test_every_raise_of_a_check_is_refused_by_some_file():
    reached = set().union(*(sites_of(refusal(path)) for path in FILES))
    missing = [
        f"{file}:{first}"
        for file, first, last in sorted(raise_sites())
        if not any(f == file and first <= n <= last for f, n in reached)
    ]
    assert missing == []


def test_every_message_says_what_to_do_instead():
    for path in FILES:
        assert re.search(r"[;:] ?\S", load(path).MESSAGE), path.name
