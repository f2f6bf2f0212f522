"""Secrets are never keys of `node.toml`: it names the variable or the file that holds one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from toolchain.config.control_key import KEY_ENV
from toolchain.config.endpoint import refuse
from toolchain.config.nkey import NKEY_ENV

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from toolchain.config.section import Section

PASSWORD_ENV = "SHARDFW_FLEET_PASSWORD"  # noqa: S105 - the name of a variable
SECRET_KEYS = ("token", "bot_token", "secret", "password")
SECRETS = {
    "bot": SECRET_KEYS,
    "control": ("key", "control_key", "secret", "password"),
    "fleet": ("password", "nkey", "seed", "nkey_seed", "secret", "token"),
}
"""Section -> keys under which a secret would be written by mistake."""
ADVICE_ON_SECRETS = {
    "bot": "a token does not belong in this file: images and files get copied. Write "
    'token_env = "SHARDFW_TOKEN" and put the token into that variable, or token_file = "path"',
    "control": "a key does not belong in this file: images and files get copied. Write "
    f'key_env = "{KEY_ENV}" and put the key into that variable, or key_file = "path"',
    "fleet": "a secret does not belong in this file: images and files get copied. Write "
    f'password_env = "{PASSWORD_ENV}" or nkey_env = "{NKEY_ENV}" and put it into that variable, '
    'or password_file = "path" or nkey_file = "path"',
}


class SecretError(Exception):
    """A secret cannot be read.

    Attributes:
        key: Which key of its section is to blame.
    """

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


def check_variable(value: str | None, example: str, what: str) -> str | None:
    """Return the name of a variable that holds a secret."""
    # The value is not repeated: a secret pasted here by mistake must not reach a terminal or log.
    if value is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,127}", value):
        raise refuse(
            "this is not the name of an environment variable. Write a name such as "
            f'"{example}" and put the {what} into that variable'
        )
    return value


def read_secret(
    section: Section,
    stem: str,
    what: str,
    default_env: str,
    environ: Mapping[str, str],
    base: Path,
) -> str | None:
    """Return a secret's text from the file or variable that is named, else from the default's.

    Args:
        section: The checked section.
        stem: Its keys, `_file` and `_env` left out.
        what: The secret, for messages.
        default_env: The variable that is read when neither key is given.
        environ: The environment.
        base: Where relative paths begin.

    Raises:
        SecretError: It cannot be read.
    """
    file, variable = getattr(section, f"{stem}_file"), getattr(section, f"{stem}_env")
    if file is not None:
        try:
            return (base / str(file)).expanduser().read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            # The path is not repeated, in case it is a secret in the wrong place.
            reason = error.strerror if isinstance(error, OSError) else "not ASCII text"
            raise SecretError(
                f"{stem}_file",
                f"cannot read that file: {reason}. Write the path of a file that holds the {what} "
                "alone; a relative path begins at this file",
            ) from None
    if variable is not None and variable not in environ:
        raise SecretError(
            f"{stem}_env",
            f"the environment has no {variable}. Set it (export {variable}=...), or write "
            f"{stem}_file",
        )
    found = environ.get(variable or default_env)
    return None if found is None else found.strip()
