"""The `shardfw` command group. A command's module is imported only when it runs."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Entry:
    """Where a command lives.

    Attributes:
        module: The module; its attribute `command` is the click command.
        summary: One line for `shardfw --help`, so that help imports nothing.
    """

    module: str
    summary: str


# In the order of `shardfw --help`: make it, look at it, run it, prove it.
COMMANDS = {
    "build": Entry("toolchain.cli.build", "Build the boot image, ELF, map and listing."),
    "layout": Entry("toolchain.cli.layout", "Show how the structs lie in memory."),
    "listing": Entry("toolchain.cli.listing", "Print routines as NASM source."),
    "run": Entry("toolchain.cli.run", "Boot a QEMU node against a local gateway."),
    "gateway": Entry("toolchain.cli.gateway", "Serve a local gateway for nodes to connect to."),
    "status": Entry("toolchain.cli.status", "Ask a running node how its shards are."),
    "events": Entry("toolchain.cli.events", "Print dispatches and notices as they come."),
    "send": Entry("toolchain.cli.send", "Send a payload through one of its shards."),
    "lease": Entry("toolchain.cli.lease", "Arm, renew or expire a node's lease."),
    "plan": Entry("toolchain.cli.plan", "Show or change which shards a node holds."),
    "stop": Entry("toolchain.cli.stop", "Stop a node: close its shards, then switch it off."),
    "release": Entry("toolchain.cli.release", "Let a node go that crashed again and again."),
    "check": Entry("toolchain.cli.check", "Prove the routines against their models."),
    "fleet": Entry("toolchain.cli.fleet", "Look after nodes that share shards over NATS."),
    "sim": Entry("toolchain.cli.sim", "Simulate whole nodes in virtual time, seed by seed."),
}


class LazyGroup(click.Group):
    """A group over a table of modules."""

    def __init__(self, table: dict[str, Entry], **settings: object) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]  # click's own keywords, passed on
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands that this checkout has."""
        return [n for n, e in self.table.items() if importlib.util.find_spec(e.module)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; None when there is none of that name."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command = importlib.import_module(self.table[cmd_name].module).command
        if not isinstance(command, click.Command):
            raise TypeError(f"{self.table[cmd_name].module}.command is no click command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: Sequence[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; an unknown name lists the known ones."""
        name = args[0]
        if not name.startswith("-") and name not in self.list_commands(ctx):
            known = ", ".join(self.list_commands(ctx))
            ctx.fail(f"there is no command {name!r}; the commands are {known}")
        return super().resolve_command(ctx, list(args))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table without importing a module."""
        with formatter.section("Commands"):
            formatter.write_dl([(n, self.table[n].summary) for n in self.list_commands(ctx)])


@click.command(
    cls=LazyGroup,
    table=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
Examples:
  shardfw check                     prove every routine
  shardfw check schedule_backoff    prove one
  shardfw check --coverage --json   prove all of it, figures for a program
  shardfw COMMAND --help            what a command takes

\b
Exit codes: 0 done, 1 failed (the message says what), 2 wrong usage.""",
)
@click.version_option(package_name="shardfw", prog_name="shardfw")
def main() -> None:
    """Build, run and prove a bare-metal node that holds chat-gateway shards."""
