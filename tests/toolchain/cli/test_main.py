"""The command group: lazy, with help that imports nothing."""

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from toolchain.cli.main import COMMANDS, Entry, LazyGroup, main

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md")] + sorted(
    path
    for folder in ("firmware", "emulator", "toolchain", "pxe")
    for path in ROOT.glob(f"{folder}/**/*.md")
)


def test_help_lists_commands_with_examples():
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    assert COMMANDS["check"].summary in result.output
    assert "shardfw check schedule_backoff" in result.output
    assert "Exit codes" in result.output


def test_help_imports_no_command_module():
    code = (
        "import sys\nfrom toolchain.cli.main import main\n"
        "main(['--help'], standalone_mode=False)\n"
        "assert not {m for m in sys.modules if m.split('.')[0] in ('firmware', 'emulator')}\n"
        "assert 'toolchain.cli.check' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_version_is_that_of_the_package():
    result = CliRunner().invoke(main, ["--version"])
    assert result.exit_code == 0
    assert result.output.startswith("shardfw, version ")


def test_unknown_command_names_the_known_ones():
    result = CliRunner().invoke(main, ["chekc"])
    assert result.exit_code == 2
    assert "there is no command 'chekc'; the commands are" in result.output
    assert "check" in result.output


def commands(group, words=()):
    """Return every command below a group, by the words that call it."""
    context, found = click.Context(group), {}
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        found[*words, name] = command
        if isinstance(command, click.Group):
            found |= commands(command, (*words, name))
    return found


ALL = commands(main)


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_every_command_shows_its_help_with_examples(words):
    result = CliRunner().invoke(main, [*words, "--help"])
    assert result.exit_code == 0, result.output
    assert f"Usage: main {' '.join(words)}" in result.output
    assert f"shardfw {' '.join(words)}" in result.output.partition("Example")[2]


CALL = re.compile(r"(?:^|bin/|&& )shardfw ((?:[\w.\\|=<>\"':+-]+ ?|\[[^]]*\] ?)+)")
NO_CALL = "enrol 1 "
"""Begins the info of HPKE."""


def called(text):
    """Return each call of shardfw in a document: in backquotes, or in a line that is set off."""
    quoted = re.findall(r"`([^`\n]+)`|^    (\S.*)$", text, re.MULTILINE)
    codes = ("".join(each).partition("#")[0] for each in quoted)
    found = [call for code in codes for call in CALL.findall(code)]
    return [call for call in found if not call.startswith(NO_CALL)]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_what_a_document_calls_exists(page):
    for call in called(page.read_text()):
        words = tuple(re.findall(r"^[a-z]+|(?<= )[a-z]+", call))
        command = next((ALL[words[:n]] for n in (2, 1) if words[:n] in ALL), None)
        assert command is not None, call
        known = {option for param in command.params for option in param.opts + param.secondary_opts}
        assert set(re.findall(r"(?<![\w-])--[a-z-]+", call)) <= known | {"--help"}, call


def test_documents_do_call_commands():
    assert sum(len(called(page.read_text())) for page in PAGES) > 50


def test_a_module_without_a_command_is_refused():
    group = LazyGroup({"fields": Entry("toolchain.layout", "no command")}, name="g")
    with pytest.raises(AttributeError, match="command"):
        CliRunner().invoke(group, ["fields"], catch_exceptions=False)
