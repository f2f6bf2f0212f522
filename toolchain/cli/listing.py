"""`shardfw listing`: routines of the image as NASM source or as bytes."""

from __future__ import annotations

import difflib

import click


@click.command(
    epilog="""\b
Examples:
  shardfw listing schedule_backoff                one routine with its contract
  shardfw listing schedule_backoff --format hex   its bytes and nothing else
  shardfw listing --all > shardfw.asm             the whole image; nasm -f bin gives its bytes"""
)
@click.argument("routine", required=False)
@click.option("--all", "whole", is_flag=True, help="The whole image instead of one routine.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["nasm", "hex"]),
    default="nasm",
    show_default=True,
    help="NASM source, or the linked bytes alone.",
)
@click.option(
    "--target",
    type=click.Choice(["bios", "direct"]),
    default="bios",
    show_default=True,
    help="Of which image.",
)
def command(routine: str | None, *, whole: bool, form: str, target: str) -> None:
    """Print a ROUTINE of the image.

    Exit codes: 0 done, 1 no such routine, 2 wrong usage.
    """
    if whole == (routine is not None):
        raise click.UsageError("name one routine, or give --all for the whole image")
    from toolchain import listing  # noqa: PLC0415 - --help needs no firmware
    from toolchain.cli.images import link_with_spinner  # noqa: PLC0415

    image = link_with_spinner(target)
    if routine is None:
        text = listing.image_listing(image) if form == "nasm" else listing.image_hex(image)
        click.echo(text, nl=False)
        return
    names = [placed.name for placed in image.routines()]
    if routine not in names:
        close = difflib.get_close_matches(routine, names, n=3)
        hint = f"Did you mean {', '.join(close)}?" if close else "`shardfw build` writes their list"
        raise click.ClickException(f"the image has no routine {routine!r}. {hint}")
    made = listing.routine_listing if form == "nasm" else listing.routine_hex
    click.echo(made(image, routine), nl=False)
