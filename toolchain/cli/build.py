"""`shardfw build`: the boot image with its ELF, map and listing."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolchain.cli.images import LIMITS, TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolchain.config import NodeConfig
    from toolchain.trust import Trust

STEPS = ("configuration", "link", "pack", "ELF", "map", "listing", "write")


def read_config(
    path: Path | None, overrides: dict[str, object] | None = None, *, makes_key: bool = False
) -> NodeConfig:
    """Return a checked configuration.

    Args:
        path: The file; None for all defaults.
        overrides: Dotted keys that win over the file.
        makes_key: Whether the caller makes a key for commands when none is configured.

    Raises:
        click.ClickException: Every problem, one a line.
    """
    from toolchain.config import ConfigError, load_config  # noqa: PLC0415 - --help needs none

    try:
        return load_config(path, os.environ, overrides, makes_key=makes_key)
    except ConfigError as error:
        raise click.ClickException(str(error)) from error


IS_INSIDE = (
    "the bot's token is in the image of a fleet's node: whoever reads the image, over TFTP for "
    "example, has it. That is for one node of your own; otherwise leave enrol = false out of [fleet] "
    "and release the token with shardfw fleet approve"
)


def build(
    config: NodeConfig, target: str, folder: Path, on_step: Callable[[str], None]
) -> dict[str, Any]:
    """Build one target and return the report that `--json` prints.

    Raises:
        BuildError, LinkError, AsmError, ReadError: The image cannot be made or used.
    """
    from firmware.layouts.config import CONFIG  # noqa: PLC0415
    from firmware.layouts.trust import TRUST_STORE  # noqa: PLC0415
    from firmware.limits import STACK_BYTES  # noqa: PLC0415
    from toolchain import build as tool  # noqa: PLC0415
    from toolchain.cli import blob, images  # noqa: PLC0415
    from toolchain.cli.trust import store_of, trust_of  # noqa: PLC0415
    from toolchain.link.map import map_text  # noqa: PLC0415
    from toolchain.link.reader import checked_elf  # noqa: PLC0415
    from toolchain.listing import image_listing  # noqa: PLC0415

    chosen, trust = TARGETS[target], trust_of(config, datetime.now(UTC))
    store = store_of(trust)
    on_step("link")
    image = images.link(target, store)
    on_step("pack")
    template = images.template_of(image)
    packed = images.complete(template, config, store)
    notes = images.judge(template, packed) + list(trust.notes if trust is not None else ())
    if config.fleet.enabled and not config.fleet.enrol:
        notes.append(IS_INSIDE)
    deepest, stack = tool.deepest_stack(image, STACK_BYTES)
    # What people open, copy and send around holds the configuration without its secrets.
    pages = {part.name: bytearray(packed[part.at : part.at + part.size]) for part in template.parts}
    build_id = bytes(pages[CONFIG.name][blob.ID_AT : blob.ID_AT + tool.BUILD_ID_BYTES]).hex()
    for name, secret in images.secrets().items():
        pages[name][secret] = bytes(len(pages[name][secret]))
        tool.fill(image, name, bytes(pages[name]))
    tool.fill(image, TRUST_STORE.name, store)
    on_step("ELF")
    files = {chosen.stem + chosen.suffix: packed, f"{chosen.stem}.elf": checked_elf(image)}
    on_step("map")
    files[f"{chosen.stem}.map"] = map_text(image).encode()
    on_step("listing")
    files[f"{chosen.stem}.asm"] = image_listing(image).encode()
    on_step("write")
    written = tool.write_files(folder, files, chosen.stem + chosen.suffix)
    names = ("image", "elf", "map", "listing")
    return {
        "target": target,
        "files": dict(zip(names, map(str, written.values()), strict=True)),
        "image_bytes": len(packed),
        "bounded_bytes": len(template.packed),
        "limit_bytes": next(limit.size for limit in LIMITS if limit.fatal),
        "sections": {section.name: section.size for section in image.sections},
        "routines": len(image.routines()),
        "stack_bytes": stack,
        "stack_limit_bytes": STACK_BYTES,
        "stack_deepest": deepest,
        "build_id": build_id,
        "build_time": blob.image_time(config),
        "trust": None if trust is None else _trust_report(trust, store),
        "notes": notes,
    }


def _trust_report(trust: Trust, store: bytes) -> dict[str, Any]:
    """Return what the image says of its anchors, and how many they are."""
    return {
        "anchors": len(trust.anchors),
        "pins": len(trust.pins),
        "bytes": len(store),
        "version": trust.version,
        "sha256": trust.digest.hex(),
    }


def _print(report: dict[str, Any]) -> None:
    size, limit, trust = report["bounded_bytes"], report["limit_bytes"], report["trust"]
    click.echo(
        f"{report['files']['image']}: {size} bytes, {100 * size / limit:.1f} % of {limit}; "
        f"{report['image_bytes']} bytes with the trust store"
    )
    parts = ", ".join(f"{name} {count}" for name, count in report["sections"].items())
    click.echo(f"  sections  {parts}")
    click.echo(
        f"  stack     {report['stack_bytes']} bytes of {report['stack_limit_bytes']} at most, "
        f"from {report['stack_deepest']}"
    )
    click.echo(f"  build id  {report['build_id']}, time {report['build_time']}")
    if trust is not None:
        pins = f" and {trust['pins']} pins" if trust["pins"] else ""
        click.echo(
            f"  trust     {trust['anchors']} anchors{pins} in {trust['bytes']} bytes, "
            f"{trust['version']}, SHA-256 {trust['sha256']}"
        )
    for name in ("elf", "map", "listing"):
        click.echo(f"  {name:9} {report['files'][name]}")
    for note in report["notes"]:
        click.echo(f"  note      {note}")


@click.command(
    epilog="""\b
Examples:
  shardfw build                            all defaults, into build/
  shardfw build -c node.toml -o out        with a configuration
  shardfw build --target direct --json     for qemu -kernel; the report for a program

\b
The same inputs give the same bytes. Times come from [build] time or SOURCE_DATE_EPOCH. The token is
in the image file alone, which only you may read; ELF, map and listing have zeros in its place."""
)
@click.option(
    "-c",
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="node.toml; without it all defaults. pxe/templates/node.toml shows every key.",
)
@click.option(
    "-o",
    "--output",
    default=Path("build"),
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the files.",
)
@click.option(
    "--target",
    type=click.Choice(list(TARGETS)),
    default="bios",
    show_default=True,
    help="bios: for a PXE boot ROM; direct: for qemu -kernel.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON object.")
def command(*, config: Path | None, output: Path, target: str, as_json: bool) -> None:
    """Build the boot image, an ELF for gdb, a map and the listing.

    Exit codes: 0 built, 1 the configuration or the image is refused, 2 wrong usage.
    """
    checked = read_config(config)
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress  # noqa: PLC0415

    from toolchain.asm.errors import AsmError  # noqa: PLC0415
    from toolchain.build import BuildError  # noqa: PLC0415
    from toolchain.link import LinkError  # noqa: PLC0415
    from toolchain.link.reader import ReadError  # noqa: PLC0415

    try:
        with Progress(console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task(STEPS[0], total=len(STEPS))
            report = build(
                checked,
                target,
                output,
                lambda step: progress.update(
                    task, completed=STEPS.index(step), description=f"{step:13}"
                ),
            )
    except (AsmError, BuildError, LinkError, ReadError) as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        click.echo(json.dumps(report))
    else:
        _print(report)
