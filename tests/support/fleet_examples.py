"""The example readers and senders of pxe/examples, run as a user runs them."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.npm import NODE, install

if TYPE_CHECKING:
    from collections.abc import Sequence

EXAMPLES = Path(__file__).parents[2] / "pxe" / "examples"
LANGUAGES = ("python", "javascript")
PATIENCE_S = 60.0


def program(language: str, name: str) -> list[str]:
    """Return the words that start an example; its packages are installed."""
    if language == "python":
        return [sys.executable, str(EXAMPLES / language / f"{name}.py")]
    folder = install("fleet-examples")
    return [NODE, str(shutil.copy(EXAMPLES / language / f"{name}.mjs", folder))]


async def run(words: Sequence[str]) -> tuple[int | None, str, str]:
    """Run a program to its end; return exit code, output and errors."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*words, stdout=pipe, stderr=pipe)
    try:
        async with asyncio.timeout(PATIENCE_S):
            output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, output.decode(), errors.decode()


async def consume(language: str, url: str, bot: str, count: int, *more: str) -> list[Any]:
    """Let a reader take so many messages; return its lines."""
    words = [*program(language, "consumer"), "--server", url, "--bot", bot, *more]
    code, output, errors = await run([*words, "--count", str(count)])
    assert (code, errors) == (0, "")
    # JSON may hold line separators of Unicode, where `splitlines` would cut.
    return [json.loads(line) for line in output.split("\n")[:-1]]


async def command(
    language: str, url: str, bot: str, shard: int, text: str
) -> tuple[int | None, str]:
    """Send a command; return exit code and what was said."""
    words = [*program(language, "command"), "--server", url, "--bot", bot]
    code, output, errors = await run([*words, "--shard", str(shard), text])
    return code, (output + errors).strip()
