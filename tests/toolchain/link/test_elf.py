"""The ELF file: lief and gdb read in it what was linked."""

import re
import shutil
import subprocess

import lief
import pytest

from tests.support.program import program
from toolchain.link.elf import write_elf
from toolchain.link.lines import read_lines
from toolchain.link.reader import ReadError, checked_elf, read_image, reloaded
from toolchain.source import ROOT, short_path

IMAGE = program()
ELF = write_elf(IMAGE)


def parsed():
    elf = lief.ELF.parse(list(ELF))
    assert elf is not None
    return elf


def test_lief_finds_no_fault_but_that_nothing_loads_the_headers():
    elf = parsed()
    _, message = lief.ELF.check_layout(elf)
    # The headers are for tools; no loader needs them in memory.
    assert message in ("", "Program header table is not wrapped by a PT_LOAD segment")
    assert elf.entrypoint == IMAGE.address("boot_entry")


def test_segments_map_each_section_with_its_rights():
    elf = parsed()
    wanted = [(s.address, s.size, s.writable, s.executable) for s in IMAGE.sections if s.size]
    flags = lief.ELF.Segment.FLAGS
    got = [
        (p.virtual_address, p.virtual_size, p.has(flags.W), p.has(flags.X)) for p in elf.segments
    ]
    assert got == wanted
    for segment, section in zip(elf.segments, [s for s in IMAGE.sections if s.size], strict=True):
        assert bytes(segment.content)[: len(section.contents)] == section.contents
        assert segment.file_offset % 4096 == section.address % 4096


def test_read_image_gives_back_what_was_linked():
    back = read_image(ELF)
    assert back.sections == IMAGE.sections
    assert back.entry == IMAGE.entry
    assert back.stack == IMAGE.stack
    assert {(p.name, p.address, p.size, p.section) for p in back.symbols.values()} == {
        (p.name, p.address, p.size, p.section) for p in IMAGE.symbols.values()
    }
    assert [p.name for p in back.routines()] == [p.name for p in IMAGE.routines()]
    assert back.lines == [(at, short_path(f), n, name) for at, f, n, name in IMAGE.lines]


def test_read_image_takes_the_things_of_the_caller():
    things = {name: placed.thing for name, placed in IMAGE.symbols.items()}
    back = read_image(ELF, things)
    assert back.symbols["main"] == IMAGE.symbols["main"]


def test_reloaded_image_is_the_image():
    back = reloaded(IMAGE)
    assert back is not IMAGE
    assert (back.sections, back.symbols, back.entry) == (
        IMAGE.sections,
        IMAGE.symbols,
        IMAGE.entry,
    )
    assert (back.lines, back.stack) == (IMAGE.lines, IMAGE.stack)


def test_checked_elf_refuses_a_file_that_reads_back_differently(monkeypatch):
    assert checked_elf(IMAGE) == ELF
    other = write_elf(IMAGE).replace(b"hello; 'x'", b"Hello; 'x'")
    monkeypatch.setattr("toolchain.link.reader.write_elf", lambda _image: other)
    with pytest.raises(ReadError) as caught:
        checked_elf(IMAGE)
    assert str(caught.value) == (
        "the ELF file does not read back as it was linked: section .rodata differs; "
        "report it as a defect of toolchain/link/elf.py"
    )


def test_read_image_refuses_other_files():
    with pytest.raises(ReadError, match="lief does not take this for an ELF file"):
        read_image(b"MZ" + bytes(100))
    renamed = ELF.replace(b".shardfw\0", b".strange\0")
    with pytest.raises(ReadError, match=re.escape("has no section .shardfw")):
        read_image(renamed)


def test_read_lines_refuses_what_the_linker_does_not_write():
    table = bytearray(read_section(".debug_line"))
    table[4:6] = b"\x05\0"
    with pytest.raises(ValueError, match="version 5, not 2"):
        read_lines(bytes(table))
    table[4:6] = b"\x02\0"
    table[-5] = 9
    with pytest.raises(ValueError, match="opcode 9 is not one"):
        read_lines(bytes(table))


def read_section(name):
    section = parsed().get_section(name)
    assert section is not None
    return bytes(section.content)


def gdb(tmp_path, *commands):
    """Run gdb on the file and return what it prints."""
    assert shutil.which("gdb"), "gdb is missing; `make setup` installs it"
    path = tmp_path / "program.elf"
    path.write_bytes(ELF)
    arguments = ["gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off"]
    for command in commands:
        arguments += ["-ex", command]
    done = subprocess.run(
        [*arguments, str(path)], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return done.stdout


def test_gdb_knows_symbols_and_the_generator_line_of_every_instruction(tmp_path):
    picked = IMAGE.lines[:: max(1, len(IMAGE.lines) // 40)]
    commands = [f"info line *{address:#x}" for address, *_ in picked]
    out = gdb(tmp_path, *commands).splitlines()
    assert len(out) == len(picked)
    for text, (address, file, lineno, routine) in zip(out, picked, strict=True):
        assert text.startswith(f'Line {lineno} of "{short_path(file)}"'), text
        where = f"{address:#x} <{routine}"
        assert where in text, text


def test_gdb_shows_symbols_and_source(tmp_path):
    address = IMAGE.address("checksum")
    out = gdb(tmp_path, f"info symbol {address + 2:#x}", "info symbol &engine", "list checksum")
    assert "checksum + 2 in section .text" in out
    assert "engine in section .bss" in out
    assert "def checksum(a: Asm" in out
