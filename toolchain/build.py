"""From a linked image to the files of a build: contents filled in, sizes judged, nothing by chance.

Knows nothing of what the image does: the linked image, the packer and the limits are handed in.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolchain.source import short_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from toolchain.link import Image

BUILD_ID_BYTES = 20
PAGE = 4096


class BuildError(Exception):
    """The image cannot be used; the message says why and what to do."""


@dataclass(frozen=True)
class Limit:
    """A bound of the image's size.

    Args:
        size: Bytes that are still good.
        fatal: Whether a larger image is refused; else it is only noted.
        text: What happens beyond, and what to do.
    """

    size: int
    fatal: bool
    text: str


@dataclass(frozen=True)
class Template:
    """A packed image whose page of contents is still zero, and whose tail is missing.

    Attributes:
        packed: The file, up to the page where the tail begins.
        at: Offset of that page in it.
        size: Bytes of the page.
    """

    packed: bytes
    at: int
    size: int


def fill(image: Image, name: str, contents: bytes) -> None:
    """Write contents over a datum of a linked image.

    Args:
        image: The image; changed in place.
        name: Symbol of the datum.
        contents: Exactly as many bytes as it has.

    Raises:
        BuildError: The image lacks it, or the size differs.
    """
    placed = image.symbols.get(name)
    if placed is None:
        raise BuildError(f"the image has no {name}. Keep it in the linker's `keep`")
    if placed.size != len(contents):
        raise BuildError(f"{name} has {placed.size} bytes; {len(contents)} were given")
    section = image.section(placed.section)
    at = placed.address - section.address
    section.contents = section.contents[:at] + contents + section.contents[at + placed.size :]


def _find(image: Image, name: str, pack: Callable[[Image], bytes]) -> tuple[int, int]:
    """Return where a datum lies in the file, and its size; its contents are zero afterwards."""
    size = image.symbols[name].size if name in image.symbols else 0
    marker = hashlib.shake_256(name.encode()).digest(size)
    fill(image, name, marker)
    packed = pack(image)
    if packed.count(marker) != 1:
        raise BuildError(f"{name} does not lie in the image file exactly once")
    fill(image, name, bytes(size))
    return packed.index(marker), size


def make_template(image: Image, name: str, tail: str, pack: Callable[[Image], bytes]) -> Template:
    """Pack an image and find where two data lie in the file; their contents are zero afterwards.

    Args:
        image: The image.
        name: Symbol of the datum that every build fills.
        tail: Symbol of the datum at the end, whose length each build chooses.
        pack: Makes the file; its length must not depend on the contents.

    Raises:
        BuildError: One does not lie in the file exactly once, or something lies behind the tail.
    """
    at, size = _find(image, name, pack)
    end, _ = _find(image, tail, pack)
    packed = pack(image)
    if any(packed[end:]):
        raise BuildError(f"something lies behind {tail}. Give it the last section for itself")
    return Template(packed[:end], at, size)


def finish(template: Template, contents: bytes, tail: bytes, id_at: int, secret: slice) -> bytes:
    """Return the file with its contents and its tail, a build id among them.

    The id is the SHA-1 of the file with neither id nor secret in it: it tells images apart and
    gives nothing away.

    Args:
        template: The packed image.
        contents: The datum that it lacks.
        tail: What comes last; whole pages are made of it.
        id_at: Where in the contents the id goes, BUILD_ID_BYTES long.
        secret: Which of the contents the id must not depend on.
    """
    public = bytearray(contents)
    public[id_at : id_at + BUILD_ID_BYTES] = bytes(BUILD_ID_BYTES)
    public[secret] = bytes(len(public[secret]))
    end = template.at + template.size
    head = template.packed[: template.at]
    rest = template.packed[end:] + tail + bytes(-len(tail) % PAGE)
    build_id = hashlib.sha1(head + public + rest, usedforsecurity=False).digest()
    whole = bytearray(contents)
    whole[id_at : id_at + BUILD_ID_BYTES] = build_id
    return head + bytes(whole) + rest


def judge_size(size: int, limits: Sequence[Limit]) -> list[str]:
    """Return a note for every bound that is passed and not fatal.

    Raises:
        BuildError: A fatal one is passed.
    """
    passed = [
        (limit.fatal, f"the image has {size} bytes, more than {limit.size}: {limit.text}")
        for limit in limits
        if size > limit.size
    ]
    fatal = [text for is_fatal, text in passed if is_fatal]
    if fatal:
        raise BuildError(fatal[-1])
    return [text for _, text in passed]


def deepest_stack(image: Image, limit: int) -> tuple[str, int]:
    """Return the routine that with all it calls needs the most stack, and the bytes.

    Raises:
        BuildError: More than the stack has.
    """
    name, size = max(image.stack.items(), key=lambda item: (item[1], item[0]))
    if size > limit:
        raise BuildError(
            f"{name} and what it calls need {size} bytes of stack; the node has {limit}. Call less "
            "deeply, or use fewer locals"
        )
    return name, size


def refuse_parts(image: Image, folders: Iterable[str]) -> None:
    """Refuse an image that holds routines from folders that must not be shipped.

    Args:
        image: The image.
        folders: Names of folders, such as that of the tests.

    Raises:
        BuildError: It holds one; names the first.
    """
    banned = set(folders)
    for placed in image.routines():
        file = short_path(placed.thing.where.rpartition(":")[0])
        found = [folder for folder in file.split("/")[:-1] if folder in banned]
        if found:
            raise BuildError(
                f"{placed.name} comes from {found[0]}/, which is for tests only. Link a release "
                "from firmware alone"
            )


def write_files(folder: Path, files: dict[str, bytes], private: str) -> dict[str, Path]:
    """Write files into a folder, each whole or not at all.

    Args:
        folder: Made when it is missing.
        files: Name to contents.
        private: The name of the one that only its owner may read.

    Raises:
        BuildError: It cannot be written.
    """
    written = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, contents in files.items():
            path, part = folder / name, folder / f".{name}.part"
            part.touch(mode=0o600 if name == private else 0o644)
            part.write_bytes(contents)
            part.replace(path)
            written[name] = path
    except OSError as error:
        raise BuildError(f"cannot write {error.filename}: {error.strerror}") from error
    return written
