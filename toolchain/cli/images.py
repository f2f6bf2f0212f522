"""The images that can be built: which firmware, packed how, with whose configuration."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from toolchain.build import (
    Limit,
    Part,
    Template,
    finish,
    judge_size,
    make_template,
    refuse_parts,
)
from toolchain.source import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolchain.config import NodeConfig
    from toolchain.link import Image

KIB = 1024
LIMITS = (
    Limit(64 * KIB, fatal=False, text="some old boot ROMs stop at 64 KB"),
    Limit(308 * KIB, fatal=True, text="the bound of this version. Look for what grew in the map"),
)
"""Without the trust store, in the order of their sizes (decision 11)."""
FILE_LIMITS = (
    Limit(480 * KIB, fatal=True, text="a BIOS boot ROM has no room for it below 512 KB"),
)
"""With it; `firmware.limits` has the same numbers."""
TEST_FOLDERS = ("tests", "roles", "test_roles")
"""Where routines live that a release must not hold."""
SOURCES = ("firmware", "toolchain")
KEPT_TEMPLATES = 8


@dataclass(frozen=True)
class Target:
    """A way to boot.

    Attributes:
        stem: Name of the files without suffix.
        suffix: Suffix of the image file.
        link: Name of the function in `firmware.image` that links it.
    """

    stem: str
    suffix: str
    link: str


TARGETS = {
    "bios": Target("shardfw", ".nbp", "link_bios"),
    "direct": Target("shardfw-direct", ".bin", "link_direct"),
}


def link(target: str = "bios", store: bytes | None = None) -> Image:
    """Return the linked image of a target, its configuration page zero.

    Args:
        target: A key of TARGETS.
        store: The trust store; None for an empty one.
    """
    from firmware import image  # noqa: PLC0415 - a cached template needs none of it
    from firmware.layouts.trust import TRUST_STORE  # noqa: PLC0415

    made: Callable[..., tuple[Image, bytes]] = getattr(image, TARGETS[target].link)
    return made(overrides={} if store is None else {TRUST_STORE.name: store})[0]


def link_with_spinner(target: str = "bios") -> Image:
    """Return what `link` returns; a terminal shows meanwhile that work is done."""
    from rich.console import Console  # noqa: PLC0415

    with Console(stderr=True).status("linking the image"):
        return link(target)


def pack(image: Image) -> bytes:
    """Return the file of a linked image."""
    from firmware.image import pack as pack_image  # noqa: PLC0415

    return pack_image(image)


def template_of(image: Image, *, release: bool = True) -> Template:
    """Return the packed file of an image and where configuration, fleet and trust store go.

    Args:
        image: The linked image.
        release: Whether routines of tests are refused.

    Raises:
        BuildError: It holds test routines, or no configuration page.
    """
    from firmware.layouts.config import CONFIG  # noqa: PLC0415
    from firmware.layouts.fleet_config import FLEET_CONFIG  # noqa: PLC0415
    from firmware.layouts.trust import TRUST_STORE  # noqa: PLC0415

    if release:
        refuse_parts(image, TEST_FOLDERS)
    return make_template(image, (CONFIG.name, FLEET_CONFIG.name), TRUST_STORE.name, pack)


def complete(template: Template, config: NodeConfig, store: bytes | None = None) -> bytes:
    """Return the bootable file: the template with a configuration, the token included.

    Args:
        template: The packed image.
        config: The node.
        store: Its trust store; None makes that of the configuration.
    """
    from firmware.layouts.config import CONFIG  # noqa: PLC0415
    from firmware.layouts.fleet_config import FLEET_CONFIG  # noqa: PLC0415
    from toolchain.cli.blob import ID_AT, config_blob  # noqa: PLC0415
    from toolchain.cli.fleet_blob import fleet_blob  # noqa: PLC0415
    from toolchain.cli.trust import store_of, trust_of  # noqa: PLC0415

    tail = store_of(trust_of(config, datetime.now(UTC))) if store is None else store
    contents = {CONFIG.name: config_blob(config), FLEET_CONFIG.name: fleet_blob(config)}
    return finish(template, contents, tail, ID_AT, secrets())


def secrets() -> dict[str, slice]:
    """Return where in each part the secrets lie, by symbol."""
    from firmware.layouts.config import CONFIG  # noqa: PLC0415
    from firmware.layouts.fleet_config import FLEET_CONFIG  # noqa: PLC0415
    from toolchain.cli.blob import SECRET  # noqa: PLC0415
    from toolchain.cli.fleet_blob import FLEET_SECRET  # noqa: PLC0415

    return {CONFIG.name: SECRET, FLEET_CONFIG.name: FLEET_SECRET}


def judge(template: Template, packed: bytes) -> list[str]:
    """Return a note for every bound that a file passes and that is not fatal.

    Raises:
        BuildError: A fatal one is passed.
    """
    return judge_size(len(template.packed), LIMITS) + judge_size(len(packed), FILE_LIMITS)


def sources_digest(root: Path = ROOT) -> str:
    """Return a digest of everything that a template depends on: sources, Python, encoder."""
    digest = hashlib.sha256()
    digest.update(repr((sys.version_info[:2], metadata.version("iced-x86"))).encode())
    for package in SOURCES:
        for path in sorted((root / package).rglob("*.py")):
            contents = path.read_bytes()
            name = path.relative_to(root).as_posix()
            digest.update(f"{name}\0{len(contents)}\0".encode() + contents)
    return digest.hexdigest()


def cache_folder() -> Path:
    """Return where templates are kept; they hold neither configuration nor token."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "shardfw"


def cached_template(target: str) -> Template | None:
    """Return the template that these very sources gave before; None when there is none."""
    path = _cache_path(target)
    try:
        head, _, packed = path.read_bytes().partition(b"\n")
        facts = json.loads(head)
        if hashlib.sha256(packed).hexdigest() != facts["sha256"]:
            return None
        return Template(packed, tuple(Part(*part) for part in facts["parts"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def fresh_template(target: str) -> Template:
    """Link a template and keep it for the next time."""
    template = template_of(link(target))
    facts = {"parts": [(part.name, part.at, part.size) for part in template.parts]}
    facts_line = json.dumps(facts | {"sha256": hashlib.sha256(template.packed).hexdigest()})
    path = _cache_path(target)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_bytes(facts_line.encode() + b"\n" + template.packed)
        part.replace(path)
        kept = sorted(path.parent.glob("*.template"), key=lambda p: p.stat().st_mtime)
        for old in kept[:-KEPT_TEMPLATES]:
            old.unlink(missing_ok=True)
    except OSError:
        # A home that cannot be written costs the next start a second, no more.
        return template
    return template


def _cache_path(target: str) -> Path:
    return cache_folder() / f"{target}-{sources_digest()[:32]}.template"
