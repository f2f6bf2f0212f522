"""The example readers and senders of pxe/examples, run as a user runs them."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.npm import NODE, install

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

EXAMPLES = Path(__file__).parents[2] / "pxe" / "examples"
LANGUAGES = ("python", "javascript")
PATIENCE_S = 60.0
ASYNCIO = "returning true from eof_received() has no effect when using ssl\n"
"""What asyncio says when nats-py ends over TLS."""


def program(language: str, name: str) -> list[str]:
    """Return the words that start an example; its packages are installed."""
    if language == "python":
        return [sys.executable, str(EXAMPLES / language / f"{name}.py")]
    folder = install("fleet-examples")
    shutil.copy(EXAMPLES / language / "login.mjs", folder)
    return [NODE, str(shutil.copy(EXAMPLES / language / f"{name}.mjs", folder))]


async def run(
    words: Sequence[str], environ: Mapping[str, str] | None = None
) -> tuple[int | None, str, str]:
    """Run a program to its end; return exit code, output and errors."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *words, stdout=pipe, stderr=pipe, env=os.environ | (environ or {})
    )
    try:
        async with asyncio.timeout(PATIENCE_S):
            output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, output.decode(), errors.decode().replace(ASYNCIO, "")


async def consume(
    language: str, url: str, bot: str, count: int, *more: str, **environ: str
) -> list[Any]:
    """Let a reader take so many messages; return its lines."""
    words = [*program(language, "consumer"), "--server", url, "--bot", bot, *more]
    code, output, errors = await run([*words, "--count", str(count)], environ)
    assert (code, errors) == (0, ""), errors
    # JSON may hold line separators of Unicode, where `splitlines` would cut.
    return [json.loads(line) for line in output.split("\n")[:-1]]


async def command(
    language: str, url: str, bot: str, shard: int, text: str, **environ: str
) -> tuple[int | None, str]:
    """Send a command; return exit code and what was said."""
    words = [*program(language, "command"), "--server", url, "--bot", bot]
    code, output, errors = await run([*words, "--shard", str(shard), text], environ)
    return code, (output + errors).strip()
