"""What code and documentation cite exists: numbered decisions, pages and their sections."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DECISIONS = ROOT / "firmware" / "docs" / "decisions.md"
DECISION = re.compile(r"\b[Dd]ecisions? (\d+)(?: and (\d+))?")
PAGE = re.compile(r"\b((?:firmware|toolchain|emulator|pxe)/docs/[\w/.-]+\.md)(?:#([\w-]+))?")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
LINK = re.compile(r"\]\(([^)#:]*)(?:#([\w-]+))?\)")


def tracked(*patterns):
    command = ["git", "ls-files", "--", *patterns]
    return [ROOT / name for name in subprocess.check_output(command, cwd=ROOT, text=True).split()]


def sections(page):
    """Return the anchors of a page's headings, spelled as GitHub does."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def missing(page, anchor):
    return not page.exists() or bool(anchor and anchor not in sections(page))


def test_cited_decisions_are_written_down():
    written = set(re.findall(r"^\*\*(\d+)\.\*\*", DECISIONS.read_text(), re.MULTILINE))
    cited = {
        number
        for path in tracked("*.py", "*.md")
        for numbers in DECISION.findall(path.read_text())
        for number in numbers
        if number
    }
    assert cited - written == set()
    assert written - cited == set(), "decisions.md lists what nothing cites"


def test_cited_pages_and_sections_exist():
    dangling = {
        f"{path.relative_to(ROOT)}: {page}#{anchor}"
        for path in tracked("*.py")
        for page, anchor in PAGE.findall(path.read_text())
        if missing(ROOT / page, anchor)
    }
    assert dangling == set()


def test_cited_tests_exist():
    cited = {
        found
        for path in tracked("*.md")
        for found in TEST.findall(path.read_text(encoding="utf-8"))
    }
    assert cited
    lost = {
        f"{file}::{name}"
        for file, name in cited
        if not (ROOT / file).exists() or f"def {name}(" not in (ROOT / file).read_text()
    }
    assert lost == set()


@pytest.mark.parametrize("path", tracked("*.md"), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(path):
    dangling = [
        f"{target}#{anchor}"
        for target, anchor in LINK.findall(path.read_text())
        if missing((path.parent / target) if target else path, anchor)
    ]
    assert dangling == []
