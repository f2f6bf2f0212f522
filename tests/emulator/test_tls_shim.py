"""The shim for third-party TLS runners against servers in a thread; once as a process of its own."""

import contextlib
import io
import os
import socket
import ssl
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from emulator.tls_shim.__main__ import main
from emulator.tls_shim.settings import NotImplementedHereError, read_flags
from firmware.layouts.tls import Suite
from firmware.tls.prepare import YEAR_S
from tests.support.tls import DATE
from tests.support.tls_peer import identity, server_context

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0
HOST = "gateway.example"
TEXT = bytes(range(256)) * 5


def process(*flags):
    """Run the program by itself; return its exit code and what it said on stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "emulator.tls_shim", *flags],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        check=False,
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


def shim(*flags):
    """Do what the program does, in this process; here the client is linked once."""
    with contextlib.redirect_stderr(io.StringIO()) as said:
        return main(flags), said.getvalue()


class Runner:
    """The other end: a listener that takes one connection, looks at its id, and plays a part.

    Args:
        play: Given the TLS connection; what it returns is kept in `result`.
        context: How TLS is spoken.
        known: The id that the shim has to send.
    """

    def __init__(self, play, context, *, known=7, family=socket.AF_INET):
        self.result = None
        self.errors: list[str] = []
        self._play, self._context, self._known = play, context, known
        place = "::1" if family == socket.AF_INET6 else "127.0.0.1"
        self._listener = socket.create_server((place, 0), family=family)
        self._listener.settimeout(PATIENCE_S)
        self.port = self._listener.getsockname()[1]

    def __enter__(self):
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._thread.join(2 * PATIENCE_S)
        self._listener.close()
        assert not self._thread.is_alive()

    def _serve(self):
        wire, _ = self._listener.accept()
        wire.settimeout(PATIENCE_S)
        with wire:
            (given,) = struct.unpack("<Q", wire.recv(8, socket.MSG_WAITALL))
            if given != self._known:
                self.errors.append(f"unknown id {given}")
                return
            try:
                with self._context.wrap_socket(wire, server_side=True) as tls:
                    self.result = self._play(tls)
            except (ssl.SSLError, ConnectionError) as error:
                self.errors.append(getattr(error, "reason", None) or str(error))


def echo(tls):
    """Say something, read it back, close in order."""
    tls.sendall(TEXT)
    got = b""
    while len(got) < len(TEXT) and (part := tls.recv(1 << 14)):
        got += part
    agreed = tls.version(), tls.cipher()[0]
    with contextlib.suppress(OSError):
        tls.unwrap()
    return got, *agreed


@pytest.fixture
def root_file(tmp_path):
    path = tmp_path / "root.pem"
    roots = identity().root, identity(days=200).root, identity(host="test").root
    path.write_text("".join(map(ssl.DER_cert_to_PEM_cert, roots)), encoding="ascii")
    return str(path)


def run(root, *flags, play=echo, context=None, known=7, number="7", family=socket.AF_INET, by=shim):
    """Let both meet; return exit code, stderr and the runner."""
    with Runner(play, context or server_context(identity()), known=known, family=family) as runner:
        code, said = by(
            *("-port", str(runner.port), "-shim-id", number, "-host-name", HOST),
            *("-trust-cert", root, "-clock", str(DATE), *flags),
        )
    return code, said, runner


def test_each_byte_comes_back_flipped_and_the_program_ends_in_silence(root_file):
    flags = ("-expect-version", "772", "-expect-curve-id", "29")
    code, said, runner = run(root_file, *flags, by=process)
    assert (code, said, runner.errors) == (0, "", [])
    text, version, suite = runner.result
    assert text == bytes(b ^ 0xFF for b in TEXT)
    assert (version, suite) == ("TLSv1.3", f"TLS_{Suite.AES_256_GCM_SHA384.name}")


def test_a_runner_on_ipv6_that_is_read_in_small_pieces(root_file):
    code, said, runner = run(root_file, "-ipv6", "-async", family=socket.AF_INET6)
    assert (code, said) == (0, "")
    assert runner.result is not None


def test_a_client_that_speaks_first_and_ends_the_connection_itself(root_file):
    def listen(tls):
        got = b""
        with contextlib.suppress(OSError):
            while part := tls.recv(1 << 14):
                got += part
        return got

    flags = ("-shim-writes-first", "-shim-shuts-down")
    code, said, runner = run(root_file, *flags, play=listen)
    assert (code, said, runner.result) == (0, "", b"hello")


@pytest.mark.parametrize(
    ("flags", "reason", "alert"),
    [
        (("-clock", str(DATE + YEAR_S)), ":tls.certificate_expired", "EXPIRED"),
        (("-host-name", "other.example"), ":tls.certificate_name", "CERTIFICATE_UNKNOWN"),
        (("-verify-fail",), ":tls.certificate_unknown", "UNKNOWN_CA"),
    ],
    ids=["expired", "name", "untrusted"],
)
def test_a_chain_that_does_not_count_fails_with_its_reason(root_file, flags, reason, alert):
    shown = identity(days=200)
    code, said, runner = run(root_file, *flags, context=server_context(shown))
    assert code == 1
    assert said.startswith(reason)
    assert said.endswith(":\n")
    assert [alert in one for one in runner.errors] == [True]


def test_what_was_not_agreed_on_is_a_failure(root_file):
    code, said, _ = run(root_file, "-expect-cipher", str(int(Suite.AES_128_GCM_SHA256)))
    assert (code, said) == (1, ":UNEXPECTED_SUITE: 0x1302, not 0x1301\n")


def test_a_server_that_ends_without_close_notify(root_file):
    def drop(tls):
        tls.sendall(TEXT)
        tls.recv(1 << 14)
        os.close(tls.detach())

    assert run(root_file, play=drop)[:2] == (0, "")
    assert run(root_file, "-check-close-notify", play=drop)[:2] == (1, ":tls.truncated:\n")


def test_a_server_of_tls_1_2_is_not_implemented_unless_the_runner_rules_it_out(root_file):
    old = server_context(identity(), version=ssl.TLSVersion.TLSv1_2)
    code, said, _ = run(root_file, context=old)
    assert (code, said.split(":")[0]) == (89, "not implemented")
    code, said, _ = run(root_file, "-min-version", "772", context=old)
    assert (code, said) == (1, ":tls.alert_received(70):\n")


def test_a_runner_that_does_not_know_the_id_hangs_up(root_file):
    code, said, runner = run(root_file, number=str(2**64 - 1), by=process)
    assert (code, said) == (1, ":tls.truncated:\n")
    assert runner.errors == [f"unknown id {2**64 - 1}"]


def test_without_a_name_the_server_is_told_none(root_file):
    named = []

    def note(_tls, name, _context):
        named.append(name)

    context = server_context(identity(host="test"))
    context.sni_callback = note
    code, said, _ = run(root_file, "-host-name", "", context=context)
    assert (code, said, named) == (0, "", [None])


def test_nobody_listens(root_file):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    code, said = shim("-port", str(port), "-trust-cert", root_file)
    assert code == 1
    assert said.startswith(":TRANSPORT: ")


@pytest.mark.parametrize(
    "flags",
    [
        ["-server"],
        ["-no-such-flag"],
        ["-port"],
        ["-max-version", "771"],
        ["-min-version", "773"],
        ["-curves", "24"],
        ["-curves", "29", "-curves", "24"],
        ["-advertise-alpn", "\3foo"],
        ["-expect-version", "771"],
        ["-expect-total-renegotiations", "1"],
        ["-on-resume-verify-fail"],
    ],
)
def test_what_is_not_implemented(flags):
    with pytest.raises(NotImplementedHereError):
        read_flags(flags)


def test_unknown_flags_end_the_program_with_89():
    assert process("-no-such-flag") == (89, "not implemented: -no-such-flag\n")


def test_flags_that_a_runner_gives():
    given = read_flags(
        ["-port", "1234", "-shim-id", "18446744073709551615", "-on-initial-verify-fail",
         "-curves", "29", "-curves", "23", "-advertise-alpn", "\x08http/1.1", "-no-ticket"]
    )  # fmt: skip
    assert (given.port, given.shim_id, given.trusted) == (1234, 2**64 - 1, False)
