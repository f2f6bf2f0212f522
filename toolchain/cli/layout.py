"""`shardfw layout`: the structs of the firmware, for readers and for hand-written NASM."""

from __future__ import annotations

import difflib
import importlib
import json
import pkgutil
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from toolchain.layout import Struct


def find_structs() -> dict[str, type[Struct]]:
    """Return every struct that the firmware declares, by name, in the order of their modules."""
    from firmware import layouts  # noqa: PLC0415 - --help needs no firmware
    from toolchain.layout import Struct  # noqa: PLC0415

    found: dict[str, type[Struct]] = {}
    for info in pkgutil.iter_modules(layouts.__path__, f"{layouts.__name__}."):
        module = importlib.import_module(info.name)
        for name, thing in vars(module).items():
            if (
                isinstance(thing, type)
                and issubclass(thing, Struct)
                and thing.__module__ == module.__name__
            ):
                found[name] = thing
    return found


def _choose(name: str, structs: dict[str, type[Struct]]) -> type[Struct]:
    folded = {known.lower(): struct for known, struct in structs.items()}
    if name.lower() in folded:
        return folded[name.lower()]
    close = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.5)
    hint = f"Did you mean {folded[close[0]].__name__}?" if close else f"Known: {', '.join(structs)}"
    raise click.ClickException(
        f"there is no struct {name!r}. {hint} `shardfw layout` lists all with their sizes"
    )


def _overview(structs: dict[str, type[Struct]]) -> str:
    width = max(map(len, structs))
    rows = [f"{'struct':{width}}  {'bytes':>6}  meaning"]
    for name, struct in structs.items():
        title = (struct.__doc__ or "").strip().split("\n")[0]
        rows.append(f"{name:{width}}  {struct.SIZE:6}  {title}".rstrip())
    return "\n".join(rows) + "\n"


def _as_json(struct: type[Struct], *, nested: bool) -> dict[str, object]:
    from toolchain.layout.render import struct_rows  # noqa: PLC0415

    return {
        "struct": struct.__name__,
        "size": struct.SIZE,
        "fields": [vars(row) for row in struct_rows(struct, nested=nested)],
    }


def _machine() -> str:
    """Return the lifecycle as the documentation shows it."""
    from firmware.layouts import machine  # noqa: PLC0415 - --help needs no firmware

    return f"```mermaid\n{machine.diagram()}```\n\n{machine.table()}\n{machine.invariants()}"


def _include() -> str:
    """Return the include file with the names of the lifecycle notes."""
    from firmware.layouts.nasm import ALIASES, EQUS  # noqa: PLC0415
    from toolchain.asm.errors import AsmError  # noqa: PLC0415
    from toolchain.cli.images import link_with_spinner  # noqa: PLC0415
    from toolchain.layout.render import nasm_include  # noqa: PLC0415

    try:
        return nasm_include(EQUS, ALIASES, link_with_spinner())
    except AsmError as error:
        raise click.ClickException(str(error)) from error


@click.command(
    epilog="""\b
Examples:
  shardfw layout                                     all structs with their sizes
  shardfw layout ShardContext --nested               one struct, inner fields too
  shardfw layout --machine                           the lifecycle: diagram, transitions, invariants
  shardfw layout --format nasm > shardfw.inc         the include file for hand-written NASM
  shardfw layout ShardContext --format nasm          one struct as ShardContext.field equ ..."""
)
@click.argument("struct", required=False)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "nasm"]),
    default="table",
    show_default=True,
    help="A table to read, or a NASM include file.",
)
@click.option("--nested", is_flag=True, help="Show the fields of structs inside the struct too.")
@click.option("--machine", is_flag=True, help="Show the lifecycle's table instead.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: struct, size, fields.")
def command(struct: str | None, *, form: str, nested: bool, machine: bool, as_json: bool) -> None:
    """Show how a STRUCT lies in memory; without one, list all.

    Exit codes: 0 done, 1 no such struct, 2 wrong usage.
    """
    from toolchain.layout.render import nasm_include, struct_equs, struct_table  # noqa: PLC0415

    if as_json and form == "nasm":
        raise click.UsageError("--json and --format nasm are both given; give one of them")
    if machine:
        if struct is not None or as_json or form != "table":
            raise click.UsageError("--machine goes with no other argument; leave the others out")
        click.echo(_machine(), nl=False)
        return
    structs = find_structs()
    if struct is None and form == "nasm":
        click.echo(_include(), nl=False)
    elif struct is None and as_json:
        click.echo(json.dumps([_as_json(s, nested=nested) for s in structs.values()]))
    elif struct is None:
        click.echo(_overview(structs), nl=False)
    else:
        chosen = _choose(struct, structs)
        if as_json:
            click.echo(json.dumps(_as_json(chosen, nested=nested)))
        elif form == "nasm":
            click.echo(nasm_include(struct_equs(chosen)), nl=False)
        else:
            click.echo(struct_table(chosen, nested=nested), nl=False)
