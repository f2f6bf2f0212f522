"""Where a running node can be found: a Unix socket per node in a private folder.

`shardfw run` listens there; `status` and the commands ask there where the node is. One request is one line of JSON with
the key "ask"; the answer is one line of JSON, with the key "error" when it was refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import socket
import stat
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from types import TracebackType

DEFAULT_NAME = "node"
# sun_path of the kernel, less its terminator.
PATH_MAX = 107


class RunnerError(RuntimeError):
    """The node cannot be found or does not answer; the text says what to do."""


def runtime_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the sockets, made when it is missing: private to this user.

    Raises:
        RunnerError: It belongs to somebody else.
    """
    base = environ.get("XDG_RUNTIME_DIR")
    # The temporary folder is shared, so the name there holds the user's number.
    parent = Path(base) if base and Path(base).is_dir() else None
    folder = (
        parent / "shardfw"
        if parent is not None
        else Path(tempfile.gettempdir()) / f"shardfw-{os.getuid()}"
    )
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise RunnerError(
            f"{folder} does not belong to you. Set XDG_RUNTIME_DIR to a folder that does"
        )
    return folder


def socket_path(name: str, folder: Path | None = None) -> Path:
    """Return the socket of a node.

    Raises:
        RunnerError: The name cannot be part of a path, or the path is too long for a socket.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}", name):
        raise RunnerError(
            f"{name!r} is no name for a node. Write letters, digits, dots and dashes, at most 32"
        )
    path = (folder or runtime_folder()) / f"{name}.sock"
    if len(os.fsencode(path)) > PATH_MAX:
        raise RunnerError(f"{path} is too long for a socket. Set XDG_RUNTIME_DIR to a shorter path")
    return path


def ask(name: str, request: Mapping[str, object], timeout: float = 10.0) -> dict[str, Any]:
    """Ask the runner of a node and return its answer.

    Args:
        name: The node.
        request: What to ask; "ask" names the question.
        timeout: Seconds.

    Raises:
        RunnerError: No such node runs, or it refused.
    """
    path = socket_path(name)
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(timeout)
            connection.connect(str(path))
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile() as stream:
                line = stream.readline()
    except TimeoutError:
        raise RunnerError(f"node {name!r} did not answer within {timeout:g} s") from None
    except OSError:
        raise RunnerError(
            f"no node {name!r} runs here. Start one with `shardfw run`, or name a running one with "
            "--name"
        ) from None
    if not line:
        raise RunnerError(f"node {name!r} ended while it was asked. See the terminal it ran in")
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        raise RunnerError(str(answer["error"]))
    return answer


def wait_gone(name: str, timeout: float) -> None:
    """Wait until the runner of a node has ended.

    Args:
        name: The node.
        timeout: Seconds.

    Raises:
        RunnerError: It still runs.
    """
    path, deadline = socket_path(name), time.monotonic() + timeout
    while path.exists():
        if time.monotonic() >= deadline:
            raise RunnerError(
                f"node {name!r} has stopped, but its runner still runs after {timeout:g} s. End it "
                "with Ctrl-C"
            )
        time.sleep(0.05)


class ControlServer:
    """Answers other commands for as long as a node runs.

    Args:
        name: The node.
        handlers: What each question calls, by the value of "ask".
    """

    def __init__(
        self,
        name: str,
        handlers: Mapping[str, Callable[[dict[str, Any]], Awaitable[dict[str, object]]]],
    ) -> None:
        self.name = name
        self.path = socket_path(name)
        self._handlers = handlers
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def __aenter__(self) -> Self:
        """Start to listen.

        Raises:
            RunnerError: A node of that name runs already.
        """
        if self.path.exists():
            with socket.socket(socket.AF_UNIX) as probe:
                if probe.connect_ex(str(self.path)) == 0:
                    raise RunnerError(
                        f"a node {self.name!r} runs already. End it, or give this one a --name"
                    )
            # Left behind by a runner that was killed.
            self.path.unlink()
        self._server = await asyncio.start_unix_server(self._accept, path=self.path)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop: hang up on whoever still asks, and take the socket away. Safe to call twice."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        still = dict(self._open)
        for task in still:
            task.cancel()
        await asyncio.gather(*still, return_exceptions=True)
        # One that was cancelled before it began has not hung up by itself.
        await asyncio.gather(*map(_hang_up, still.values()))
        self.path.unlink(missing_ok=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None:
            # Accepted while the end had begun.
            writer.close()
            return
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._open[task] = writer
        task.add_done_callback(lambda done: self._open.pop(done, None))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await reader.readline()
            if line:
                writer.write(json.dumps(await self._answer(line)).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError):
            # Whoever asked is gone, or sent a line without end: there is nobody to tell.
            return
        finally:
            await _hang_up(writer)

    async def _answer(self, line: bytes) -> dict[str, object]:
        try:
            request = json.loads(line)
            handler = self._handlers[request["ask"]]
        except (ValueError, KeyError, TypeError):
            return {"error": f"ask one of: {', '.join(self._handlers)}"}
        try:
            return await handler(request)
        except RuntimeError as error:
            return {"error": str(error)}


async def _hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
