"""The command group: lazy, with help that imports nothing."""

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from toolchain.cli.main import COMMANDS, Entry, LazyGroup, main


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


def test_every_listed_command_shows_its_help():
    for name in main.list_commands(click.Context(main)):
        result = CliRunner().invoke(main, [name, "--help"])
        assert result.exit_code == 0, result.output
        assert f"Usage: main {name}" in result.output


def test_a_module_without_a_command_is_refused():
    group = LazyGroup({"fields": Entry("toolchain.layout", "no command")}, name="g")
    with pytest.raises(AttributeError, match="command"):
        CliRunner().invoke(group, ["fields"], catch_exceptions=False)
