"""From a linked image to the files of a build: contents filled in, sizes judged, nothing by chance.

Knows nothing of what the image does: the linked image, the packer and the limits are handed in.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolchain.source import short_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
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
class Part:
    """A datum that every build fills.

    Attributes:
        name: Its symbol.
        at: Offset in the file.
        size: Bytes.
    """

    name: str
    at: int
    size: int


@dataclass(frozen=True)
class Template:
    """A packed image whose parts are still zero, and whose tail is missing.

    Attributes:
        packed: The file, up to the page where the tail begins.
        parts: What every build fills; the build id goes into the first.
    """

    packed: bytes
    parts: tuple[Part, ...]

    def filled(self, contents: Mapping[str, bytes | bytearray]) -> bytearray:
        """Return the file with contents in all of its parts.

        Args:
            contents: By symbol, each as long as its part.
        """
        whole = bytearray(self.packed)
        for part in self.parts:
            whole[part.at : part.at + part.size] = contents[part.name]
        return whole


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


def make_template(
    image: Image, names: Sequence[str], tail: str, pack: Callable[[Image], bytes]
) -> Template:
    """Pack an image and find where data lie in the file; their contents are zero afterwards.

    Args:
        image: The image.
        names: Symbols of the data that every build fills.
        tail: Symbol of the datum at the end, whose length each build chooses.
        pack: Makes the file; its length must not depend on the contents.

    Raises:
        BuildError: One does not lie in the file exactly once, or something lies behind the tail.
    """
    parts = tuple(Part(name, *_find(image, name, pack)) for name in names)
    end, _ = _find(image, tail, pack)
    packed = pack(image)
    if any(packed[end:]):
        raise BuildError(f"something lies behind {tail}. Give it the last section for itself")
    return Template(packed[:end], parts)


def finish(
    template: Template,
    contents: Mapping[str, bytes],
    tail: bytes,
    id_at: int,
    secrets: Mapping[str, slice],
) -> bytes:
    """Return the file with its contents and its tail, a build id among them.

    The id is the SHA-1 of the file with neither id nor secret in it: it tells images apart and
    gives nothing away.

    Args:
        template: The packed image.
        contents: The data that it lacks, by symbol.
        tail: What comes last; whole pages are made of it.
        id_at: Where in the first of them the id goes, BUILD_ID_BYTES long.
        secrets: Which of the contents the id must not depend on, by symbol.
    """
    public = {name: bytearray(datum) for name, datum in contents.items()}
    for name, secret in secrets.items():
        public[name][secret] = bytes(len(public[name][secret]))
    rest = tail + bytes(-len(tail) % PAGE)
    place = template.parts[0].at + id_at
    told, whole = template.filled(public), template.filled(contents)
    told[place : place + BUILD_ID_BYTES] = bytes(BUILD_ID_BYTES)
    build_id = hashlib.sha1(told + rest, usedforsecurity=False).digest()
    whole[place : place + BUILD_ID_BYTES] = build_id
    return bytes(whole) + rest


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
