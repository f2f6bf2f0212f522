"""TLS servers of other people that are programs, each serving one connection to an echo node."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pxe.qemu import require_program
from tests.support.tls_servers import PATIENCE_S, turned

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.support.tls_echo import Verdict
    from tests.support.tls_peer import Identity

_LISTEN = "0A"
"""LISTEN in /proc/net/tcp."""
_SPLIT = "-----BEGIN CERTIFICATE-----"
GO_SOURCE = Path(__file__).with_name("tls_server.go")


def listening_port(process: subprocess.Popen[bytes]) -> int:
    """Return the TCP port on which a process listens, as soon as it does.

    Raises:
        AssertionError: It ended, or does not listen in time.
    """
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        assert process.poll() is None, f"{process.args!r} ended with {process.returncode}"
        own = {
            target.removeprefix("socket:[").removesuffix("]")
            for fd in Path(f"/proc/{process.pid}/fd").iterdir()
            if (target := _link(fd)).startswith("socket:")
        }
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == _LISTEN and words[9] in own:
                return int(words[1].partition(":")[2], 16)
        time.sleep(0.02)
    raise AssertionError(f"{process.args!r} does not listen")


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:  # it was closed meanwhile
        return ""


class Program:
    """A server that is a program.

    Args:
        folder: For its files.
    """

    command: tuple[str, ...] = ()

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ask: dict[str, Any] = {}
        self.said = ""

    def start(self, command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start it, its output in a file."""
        self._out = (self.folder / "out.txt").open("w+b")
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=self._out, stderr=subprocess.STDOUT, **options
        )
        return self.process

    def output(self) -> bytes:
        """Return all that it wrote so far."""
        return (self.folder / "out.txt").read_bytes()

    def told(self) -> str:
        """Return the end of what it wrote, for people."""
        return "".join(c for c in self.output().decode(errors="replace") if c >= "\t")[-2000:]

    def wait_output(self, enough: Callable[[bytes], bool]) -> bytes:
        """Wait until the output is enough; return it."""
        deadline = time.monotonic() + PATIENCE_S
        while not enough(output := self.output()):
            assert time.monotonic() < deadline, self.told()
            time.sleep(0.01)
        return output

    def __exit__(self, *_: object) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.kill()
        self.process.wait()
        self._out.close()

    def drive(self) -> None:
        """It needs nobody."""

    def check(self, verdict: Verdict) -> None:
        """The node says that all went well, and the program what was expected."""
        assert verdict.why == "ok", (verdict, self.told())


class OpenSsl(Program):
    """`openssl s_server`: what it reads from its input it says, what it hears it prints.

    Capitals and small letters at the start of what it reads are commands, so it says high bytes
    alone, and what comes back are control characters that it never prints of itself.

    Args:
        folder: For its files.
        shown: The certificate.
        options: More arguments.
        commands: Said between pieces: k and K change keys, K asks for the client's.
        pieces: How many pieces are said behind each command.
    """

    PIECE = bytes(range(0xF7, 0x100)) * 455
    """4,095 bytes."""

    def __init__(
        self,
        folder: Path,
        shown: Identity,
        *options: str,
        commands: Sequence[str] = ("",),
        pieces: int = 3,
        prints: str = "",
    ) -> None:
        super().__init__(folder)
        self._shown, self._options = shown, options
        self._commands, self._pieces, self._prints = commands, pieces, prints
        # Told to end, it would close TCP before it says close_notify: the node ends instead.
        self.ask = {"limit": len(commands) * pieces * len(self.PIECE)}

    def __enter__(self) -> Self:
        leaf, rest = Path(self._shown.chain).read_text().split(_SPLIT)[1:]
        middle = self.folder / "middle.pem"
        middle.write_text(_SPLIT + rest)
        assert leaf
        program = require_program("openssl", "openssl")
        command = [program, "s_server", "-accept", "127.0.0.1:0", "-naccept", "1", "-tls1_3"]
        command += ["-cert", self._shown.chain, "-key", self._shown.key]
        command += ["-cert_chain", str(middle), "-alpn", "http/1.1", *self._options]
        self.port = listening_port(self.start(command))
        return self

    def _say(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def _hear(self, count: int) -> None:
        """Wait until so many bytes came; the last ones are right."""
        out = self.wait_output(lambda out: len(_low(out)) >= count)
        assert _low(out)[-len(self.PIECE) :] == turned(self.PIECE)

    def drive(self) -> None:
        """Say pieces, wait for each to come back, change keys between."""
        heard = 0
        self.wait_output(lambda out: b"CIPHER is" in out)
        for command in self._commands:
            if command:
                self._say(command.encode() + b"\n")
                time.sleep(0.2)  # it reads commands at the start of a read alone
            self._say(self.PIECE * self._pieces)
            heard += len(self.PIECE) * self._pieces
            self._hear(heard)

    def check(self, verdict: Verdict) -> None:
        """All came, nothing more, and it printed what was expected."""
        super().check(verdict)
        assert verdict.received == self.ask["limit"]
        assert re.search(self._prints, self.output().decode(errors="replace")), self.told()


def _low(data: bytes) -> bytes:
    return bytes(byte for byte in data if byte <= 8)


class Nginx(Program):
    """nginx: the node asks for a file; the access log says what it got, and over what.

    Args:
        folder: For its files.
        shown: The certificate.
        settings: More lines of its server.
        size: Bytes of the file.
        over: What its log says of suite and group.
    """

    def __init__(
        self, folder: Path, shown: Identity, *settings: str, size: int = 100, over: str = ""
    ) -> None:
        super().__init__(folder)
        self._shown, self._settings, self._size, self._over = shown, settings, size, over
        self.ask = {"say": b"GET /file HTTP/1.0\r\n\r\n", "quiet": True}

    def __enter__(self) -> Self:
        (self.folder / "file").write_bytes(bytes(n & 0xFF for n in range(self._size)))
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        paths = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        lines = [
            "daemon off; master_process off; pid nginx.pid; error_log stderr;",
            "events {} http {",
            *(f"{path}_temp_path {path};" for path in paths),
            "log_format tls '$ssl_protocol $ssl_cipher $ssl_curve $status $bytes_sent';",
            "access_log access.log tls;",
            f"server {{ listen 127.0.0.1:{port} ssl; root .; ssl_protocols TLSv1.3;",
            f"ssl_certificate {self._shown.chain}; ssl_certificate_key {self._shown.key};",
            *self._settings,
            "}}",
        ]
        (self.folder / "nginx.conf").write_text("\n".join(lines))
        program = require_program("nginx", "nginx-light")
        self.port = listening_port(
            self.start([program, "-p", str(self.folder), "-c", "nginx.conf", "-e", "stderr"])
        )
        return self

    def check(self, verdict: Verdict) -> None:
        """The node counted as many bytes as nginx sent."""
        super().check(verdict)
        log = self.folder / "access.log"
        deadline = time.monotonic() + PATIENCE_S
        while not (log.exists() and log.read_text().endswith("\n")):
            assert time.monotonic() < deadline, self.output()
            time.sleep(0.01)
        *over, status, size = log.read_text().split()
        assert (status, int(size)) == ("200", verdict.received)
        assert int(size) > self._size
        assert re.search(self._over, " ".join(over)), over


class GnuTls(Program):
    """gnutls-serv: asks for a certificate, then answers a request with a file.

    Args:
        folder: For its files.
        shown: The certificate.
        options: More arguments.
        size: Bytes of the file.
        prints: What it prints of the connection.
    """

    def __init__(
        self, folder: Path, shown: Identity, *options: str, size: int = 100, prints: str = ""
    ) -> None:
        super().__init__(folder)
        self._shown, self._options, self._prints, self._size = shown, options, prints, size
        self.ask = {"say": b"GET / HTTP/1.0\r\n\r\n", "quiet": True}

    def __enter__(self) -> Self:
        file = self.folder / "file"
        file.write_bytes(b"x" * self._size)
        command = [require_program("gnutls-serv", "gnutls-bin"), "--port", "0", "--http"]
        command += ["--x509certfile", self._shown.chain, "--x509keyfile", self._shown.key]
        command += ["--httpdata", str(file), *self._options]
        self.port = listening_port(self.start(command))
        return self

    def check(self, verdict: Verdict) -> None:
        """The node counted the file, and the program printed what was expected."""
        super().check(verdict)
        assert verdict.received >= self._size
        found = self.wait_output(lambda out: b"- Version: TLS1.3" in out).decode(errors="replace")
        assert re.search(self._prints, found), found


class Go(Program):
    """Go's crypto/tls: `tls_server.go` beside this file.

    Args:
        folder: For its files.
        shown: The certificate.
        program: What `build_go` built.
        size: Bytes that it says.
        options: Flags of the program.
        prints: What it says of the connection.
    """

    def __init__(
        self,
        folder: Path,
        shown: Identity,
        program: Path,
        *options: str,
        size: int = 5000,
        prints: str = "",
    ) -> None:
        super().__init__(folder)
        self._shown, self._program, self._options = shown, program, options
        self._size, self._prints = size, prints

    def __enter__(self) -> Self:
        command = [str(self._program), "-chain", self._shown.chain, "-key", self._shown.key]
        self.port = listening_port(self.start([*command, "-size", str(self._size), *self._options]))
        return self

    def drive(self) -> None:
        """Wait until it has heard all that it said."""
        out = self.wait_output(lambda out: out.endswith(b"\n")).decode()
        assert out.startswith("ok "), out
        assert re.search(self._prints, out), out

    def check(self, verdict: Verdict) -> None:
        """All came."""
        super().check(verdict)
        assert verdict.received == self._size


def build_go(cache: Path, program: Path) -> subprocess.Popen[bytes]:
    """Begin to build the Go server: half a minute of a core the first time, later a second.

    Args:
        cache: Where Go keeps what it compiled; lives on from run to run.
        program: The file to write.
    """
    go = Path(sys.executable).with_name("go")
    environ = {
        "GOCACHE": str(cache),
        "GOPATH": str(cache / "path"),
        "GO111MODULE": "off",
        "GOTOOLCHAIN": "local",
        "GOFLAGS": "",
        "CGO_ENABLED": "0",
    }
    return subprocess.Popen(
        [str(go), "build", "-o", str(program), str(GO_SOURCE)],
        env=os.environ | environ,
        stdin=subprocess.DEVNULL,
    )
