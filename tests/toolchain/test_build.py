"""The parts of a build that know nothing of firmware: contents, ids, sizes, files."""

import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain import build
from toolchain.build import BuildError, Limit, Part, Template, finish, judge_size
from toolchain.link import Image, Placed, Section
from toolchain.source import ROOT


def image_of(contents=bytes(64), symbols=("page",)):
    section = Section(".rodata", 0x1000, contents, len(contents), executable=False, writable=False)
    made = Image([section], {})
    for n, name in enumerate(symbols):
        made.symbols[name] = Placed(name, 0x1010 + 16 * n, 16, None, ".rodata")
    return made


def pack_all(image):
    return b"head" + image.sections[0].contents + b"tail"


def test_fill_replaces_the_datum_and_nothing_else():
    image = image_of(bytes(range(64)))
    build.fill(image, "page", b"x" * 16)
    assert image.sections[0].contents == bytes(range(16)) + b"x" * 16 + bytes(range(32, 64))


@pytest.mark.parametrize(
    ("name", "contents", "message"),
    [
        ("other", bytes(16), "the image has no other. Keep it in the linker's `keep`"),
        ("page", bytes(15), "page has 16 bytes; 15 were given"),
    ],
)
def test_fill_refuses_what_is_not_there(name, contents, message):
    with pytest.raises(BuildError, match=message):
        build.fill(image_of(), name, contents)


def with_tail(image):
    return b"head" + image.sections[0].contents + bytes(10)


def test_template_knows_where_the_datum_lies_and_ends_before_the_tail():
    image = image_of(b"\xff" * 48 + bytes(16), ("page", "store"))
    template = build.make_template(image, ["page"], "store", with_tail)
    assert template == Template(b"head" + b"\xff" * 16 + bytes(16), (Part("page", 4 + 16, 16),))


def test_template_refuses_a_datum_that_is_not_in_the_file():
    with pytest.raises(BuildError, match="page does not lie in the image file exactly once"):
        build.make_template(image_of(), ["page"], "page", lambda _: bytes(100))


def test_template_refuses_what_lies_behind_the_tail():
    image = image_of(symbols=("page", "store"))
    with pytest.raises(BuildError, match=r"something lies behind store. Give it the last"):
        build.make_template(image, ["page"], "store", pack_all)


TEMPLATE = Template(
    b"h" * 8 + bytes(64) + b"t" * 8 + bytes(16) + b"e" * 8,
    (Part("page", 8, 64), Part("own", 80, 16)),
)
TAIL = b"anchors"
SECRETS = {"page": slice(40, 56), "own": slice(0, 8)}


def finished(contents, own, tail=TAIL):
    return finish(TEMPLATE, {"page": bytes(contents), "own": bytes(own)}, tail, 4, SECRETS)


@given(
    st.binary(min_size=64, max_size=64),
    st.binary(min_size=16, max_size=16),
    st.binary(min_size=16, max_size=16),
)
def test_the_id_depends_on_everything_but_the_secrets(contents, own, secret):
    made = finished(contents, own)
    other = bytearray(contents)
    other[40:56] = secret
    again = finished(other, secret[:8] + own[8:])
    assert made[12:32] == again[12:32]
    assert again[8 + 40 : 8 + 56] == secret
    assert again[80:96] == secret[:8] + own[8:]
    for part, at in (("page", 60), ("own", 8)):
        changed = {"page": bytearray(contents), "own": bytearray(own)}
        changed[part][at] ^= 1
        assert finished(changed["page"], changed["own"])[12:32] != made[12:32]
    assert finished(contents, own, b"others")[12:32] != made[12:32]
    # What stood in the id's place is irrelevant, and the rest is as it was given.
    assert finished(contents[:4] + bytes(20) + contents[24:], own) == made
    assert made[:12] == b"h" * 8 + contents[:4]
    rest = contents[24:] + b"t" * 8 + own + b"e" * 8 + TAIL
    assert made[32:] == rest + bytes(4096 - len(TAIL))


LIMITS = (
    Limit(64, fatal=False, text="some ROMs stop there"),
    Limit(96, fatal=True, text="the bound. Shrink it"),
    Limit(480, fatal=True, text="no room at all"),
)


@pytest.mark.parametrize(("size", "notes"), [(64, 0), (65, 1), (96, 1)])
def test_sizes_within_the_fatal_limits_are_noted(size, notes):
    assert len(judge_size(size, LIMITS)) == notes


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (97, "the image has 97 bytes, more than 96: the bound. Shrink it"),
        (481, "the image has 481 bytes, more than 480: no room at all"),
    ],
)
def test_sizes_beyond_are_refused(size, message):
    with pytest.raises(BuildError) as caught:
        judge_size(size, LIMITS)
    assert str(caught.value) == message


def test_the_deepest_stack_is_named_and_bounded():
    image = image_of()
    image.stack = {"a": 100, "b": 300}
    assert build.deepest_stack(image, 300) == ("b", 300)
    with pytest.raises(BuildError, match="b and what it calls need 300 bytes of stack"):
        build.deepest_stack(image, 299)


def test_routines_of_test_folders_are_refused():
    image = image_of()
    thing = types.SimpleNamespace(contract=None, where=f"{ROOT}/firmware/roles/echo.py:12")
    image.symbols["echo"] = Placed("echo", 0x1000, 4, thing, ".rodata")
    with pytest.raises(BuildError, match="echo comes from roles/, which is for tests only"):
        build.refuse_parts(image, ["tests", "roles"])
    build.refuse_parts(image, ["tests"])


def test_files_are_written_and_the_private_one_is_private(tmp_path):
    folder = tmp_path / "new" / "out"
    written = build.write_files(folder, {"image": b"1", "map": b"2"}, "image")
    assert written["image"].read_bytes() == b"1"
    assert written["image"].stat().st_mode & 0o077 == 0
    assert sorted(p.name for p in folder.iterdir()) == ["image", "map"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(BuildError, match=f"cannot write {tmp_path}/file"):
        build.write_files(tmp_path / "file" / "out", {"image": b""}, "image")
