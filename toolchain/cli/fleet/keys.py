"""`shardfw fleet nkey`: a key for a node's user."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path

import click

from toolchain.cli.fleet.common import json_option
from toolchain.config.nkey import nkey_of, seed_text

KEY_BYTES = 32


@click.command(
    "nkey",
    short_help="Make a key with which a node or you log in.",
    epilog="""\b
Examples:
  shardfw fleet nkey n7.nk                   seed in the file, public key U... on standard output""",
)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@json_option
def nkey(*, file: Path, as_json: bool) -> None:
    """Make a key for a node's user: the seed goes to FILE, which must be new; the public key is printed.

    The node's [fleet] has auth = "nkey" and nkey_file = FILE, the server's users have the public key.
    """
    made = nkey_of(secrets.token_bytes(KEY_BYTES))
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as new:
            new.write(seed_text(made.seed) + "\n")
    except OSError as error:
        raise click.ClickException(
            f"cannot write {file}: {error.strerror}. Name a file that does not exist yet"
        ) from error
    click.echo(json.dumps({"public": made.public}) if as_json else made.public)
