"""Fuzz the parser routines: `make fuzz`, or python -m tests.fuzz --seconds 60 --only chain."""

from __future__ import annotations

import contextlib
import signal
import sys
from pathlib import Path

import click

from emulator.fuzz.campaign import Campaign, replay
from tests.fuzz.targets import TARGETS

FOLDER = Path("build/fuzz")


@click.command()
@click.option("--seconds", default=3600.0, show_default=True, help="All targets together.")
@click.option("--seed", default=1, show_default=True, help="Of the randomness.")
@click.option("--only", multiple=True, type=click.Choice(list(TARGETS)), help="These targets.")
@click.option("--repeat", type=click.Path(exists=True, path_type=Path), help="Run a saved input.")
def main(seconds: float, seed: int, only: tuple[str, ...], repeat: Path | None) -> None:
    """Fuzz the parser routines of TLS and X.509; end with 1 when something breaks."""
    if repeat is not None:
        name = repeat.name.rpartition("-")[0]
        broken = replay(TARGETS[name](), repeat.read_bytes())
        click.echo(broken or "nothing breaks")
        sys.exit(bool(broken))
    targets = [TARGETS[name]() for name in only or TARGETS]
    campaign = Campaign(targets, seed, FOLDER, click.echo)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):  # what was done until then counts
        campaign.run(seconds)
    for row in campaign.table():
        click.echo(row)
    for finding in campaign.findings:
        click.echo(f"repeat it: python -m tests.fuzz --repeat {FOLDER / finding.label}")
    sys.exit(bool(campaign.findings))


if __name__ == "__main__":
    main()
