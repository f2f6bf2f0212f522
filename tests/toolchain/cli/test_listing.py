"""`shardfw listing`: one routine, the whole image, bytes alone; the printed source assembles."""

import shutil
import subprocess

import pytest
from click.testing import CliRunner

from toolchain.cli import images
from toolchain.cli.listing import command
from toolchain.link.flat import flat


def run(*argv):
    return CliRunner().invoke(command, list(argv))


def test_help_shows_examples():
    output = run("--help").output
    assert "shardfw listing schedule_backoff --format hex" in output


def test_a_routine_comes_with_its_contract():
    result = run("nbp_entry")
    assert result.exit_code == 0
    assert "nbp_entry:" in result.output
    assert ";   source:  " in result.output


def test_hex_is_the_linked_bytes_and_nothing_else():
    image = images.link("bios")
    placed = image.symbols["nbp_entry"]
    section = image.section(placed.section)
    start = placed.address - section.address
    output = run("nbp_entry", "--format", "hex").output
    assert bytes.fromhex(output) == section.contents[start : start + placed.size]


@pytest.mark.parametrize("target", images.TARGETS)
def test_the_whole_listing_assembles_to_the_image(tmp_path, target):
    source, made = tmp_path / "image.asm", tmp_path / "image.bin"
    source.write_text(run("--all", "--target", target).output)
    nasm = shutil.which("nasm")
    assert nasm is not None, "install nasm: make setup names the package"
    subprocess.run([nasm, "-f", "bin", "-o", made, source], check=True, capture_output=True)
    image = images.link(target)
    assert made.read_bytes() == flat(image)
    # The file that boots is this, filled up to a whole page.
    packed = images.pack(image)
    assert packed[: len(flat(image))] == flat(image)
    assert not any(packed[len(flat(image)) :])


@pytest.mark.parametrize("argv", [[], ["nbp_entry", "--all"]])
def test_one_routine_or_all_is_asked(argv):
    result = run(*argv)
    assert result.exit_code == 2
    assert "name one routine, or give --all for the whole image" in result.output


@pytest.mark.parametrize(
    ("name", "hint"),
    [("nbp_enrty", "Did you mean nbp_entry"), ("zzzz", "`shardfw build` writes their list")],
)
def test_an_unknown_routine_names_close_ones(name, hint):
    result = run(name)
    assert result.exit_code == 1
    assert f"the image has no routine {name!r}. {hint}" in result.output
