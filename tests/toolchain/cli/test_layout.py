"""`shardfw layout`: tables, JSON and NASM numbers of the declared structs."""

import json
import subprocess

import iced_x86
import pytest
from click.testing import CliRunner

from firmware.layouts.node import LEASE, Lease
from firmware.layouts.shard import ShardContext
from toolchain.cli.images import link
from toolchain.cli.layout import command, find_structs


def run(*argv):
    return CliRunner().invoke(command, list(argv))


def test_help_shows_examples():
    result = run("--help")
    assert result.exit_code == 0
    assert "shardfw layout ShardContext --nested" in result.output


def test_without_a_struct_all_are_listed():
    result = run()
    assert result.exit_code == 0
    for name, struct in find_structs().items():
        assert any(
            line.split()[:2] == [name, str(struct.SIZE)] for line in result.output.splitlines()
        )


def test_one_struct_shows_every_field_with_its_meaning():
    result = run("shardcontext")
    assert result.exit_code == 0
    assert "0x18      8  reconnect_deadline" in result.output
    assert "schedule the normal backoff now" in result.output
    assert "evidence.error" not in result.output
    assert "evidence.error" in run("ShardContext", "--nested").output


def test_json_has_the_same_fields():
    shown = json.loads(run("ShardContext", "--json").output)
    assert shown["struct"] == "ShardContext"
    assert shown["size"] == ShardContext.SIZE
    assert [row["name"] for row in shown["fields"]] == [f.name for f in ShardContext.fields()]
    everything = json.loads(run("--json").output)
    assert [row["struct"] for row in everything] == list(find_structs())


def test_nasm_of_one_struct_is_equs():
    output = run("Lease", "--format", "nasm").output
    assert any(line.split()[:3] == ["Lease.deadline", "equ", "0x0"] for line in output.splitlines())


@pytest.mark.parametrize(
    ("name", "hint"), [("ShrdContext", "Did you mean ShardContext?"), ("qqqq", "Known: ")]
)
def test_an_unknown_struct_names_known_ones(name, hint):
    result = run(name)
    assert result.exit_code == 1
    assert f"there is no struct {name!r}. {hint}" in result.output


def test_json_and_nasm_together_are_wrong_usage():
    result = run("Lease", "--json", "--format", "nasm")
    assert result.exit_code == 2
    assert "give one of them" in result.output


def test_the_include_file_has_the_names_of_the_lifecycle_notes(tmp_path):
    include = run("--format", "nasm")
    assert include.exit_code == 0, include.output
    (tmp_path / "shardfw.inc").write_text(include.output)
    # Ours to write by hand: the tick of a lease, against the image's addresses.
    (tmp_path / "hand.asm").write_text("""
bits 64
org 0x60000000
%include "shardfw.inc"
        cmp dword [rel shard_lease_expired], 1
        mov r8, [rel shard_lease_deadline]
        mov rax, [rel tsc_cycles_per_ms]
        imul rax, SHARD_RECONNECT_BACKOFF_MS
        mov dword [rbx + SHARD_OFF_STATE], SHARD_STATE_BACKOFF
        inc qword [rbx + SHARD_OFF_RECONNECTS]
        mov [rbx + SHARD_OFF_RECONNECT_DEADLINE], rax
        mov r12, [rbx + SHARD_OFF_SESSION_PTR]
        cmp dword [r12 + SSES_VALID], 1
        mov [rbx + SHARD_OFF_SEQUENCE], r14d
        or dword [rbx + SHARD_OFF_FLAGS], SHARD_FLAG_SEQ_VALID
""")
    made = subprocess.run(
        ["nasm", "-Werror", "-f", "bin", "-o", "hand.bin", "hand.asm"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    image = link("bios")
    first = iced_x86.Decoder(64, (tmp_path / "hand.bin").read_bytes(), ip=0x6000_0000).decode()
    assert first.ip_rel_memory_address == image.address(LEASE) + Lease.expired.offset


def test_the_lifecycle_is_printed_as_diagram_table_and_list():
    result = run("--machine")
    assert result.exit_code == 0, result.output
    assert "    BACKOFF --> STARTING: T21\n" in result.output
    assert "| T25 | BACKOFF | ASSIGNED | deadline 0 without a clock |" in result.output
    assert "- I10: heartbeats never wait behind other sends.\n" in result.output


def test_the_lifecycle_goes_with_nothing_else():
    result = run("ShardContext", "--machine")
    assert result.exit_code == 2
    assert "--machine goes with no other argument" in result.output
