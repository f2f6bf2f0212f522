"""The shim for third-party TLS runners against servers in a thread; once as a process of its own."""

import contextlib
import io
import os
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from emulator.tls_shim.__main__ import main
from emulator.tls_shim.errand import Errand, Outcome
from emulator.tls_shim.settings import NotImplementedHereError, read_flags
from firmware.layouts.tls import Suite
from firmware.layouts.tls_sites import BAD_RECORD_MAC, TRUNCATED
from firmware.layouts.trust import TrustStore
from firmware.tls.prepare import YEAR_S
from tests.support.tls import DATE
from tests.support.tls_peer import identity, server_context
from tests.support.tls_runner import PATIENCE_S, TEXT, Runner, echo
from toolchain.layout.pack import unpack

ROOT = Path(__file__).parents[2]
HOST = "gateway.example"


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


def answering(line, talk=None):
    """Return a keeper's port, what it was asked, and its thread.

    Args:
        line: What it says at the end.
        talk: What its node does with its connection; it makes none without.
    """
    asked = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        with listener, listener.accept()[0] as shim_side, shim_side.makefile("rb") as lines:
            asked.append(lines.readline())
            if talk is not None:
                port = Errand.model_validate_json(asked[0]).port
                with socket.create_connection(("127.0.0.1", port)) as node:
                    talk(node)
            shim_side.sendall(line)

    thread = threading.Thread(target=serve)
    thread.start()
    return listener.getsockname()[1], asked, thread


def test_a_node_that_hangs_up_early_does_not_take_its_words_from_the_runner():
    """What the runner still says then is read by the relay: a reset would come before the alert."""
    alert = b"\x15\3\3\0\2\2\x14"

    def talk(node):
        node.recv(1)
        node.sendall(alert)

    port, _, thread = answering(Outcome(error=BAD_RECORD_MAC.code).line(), talk)
    heard = []

    def play(listener):
        wire, _ = listener.accept()
        with wire:
            wire.recv(8, socket.MSG_WAITALL)
            wire.sendall(b"\x16" * (1 << 25))
            while part := wire.recv(1 << 10):
                heard.append(part)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        runner = threading.Thread(target=play, args=(listener,))
        runner.start()
        code, said = shim("-node", str(port), "-port", str(listener.getsockname()[1]))
        runner.join()
    thread.join()
    assert (code, said) == (1, ":tls.bad_record_mac:\n")
    assert b"".join(heard) == alert


def test_a_node_is_told_what_the_runner_asks_for(root_file):
    port, asked, thread = answering(Outcome(error=TRUNCATED.code, stage="tls").line())
    with socket.create_server(("127.0.0.1", 0)) as runner:
        code, said = shim(
            *("-node", str(port), "-port", str(runner.getsockname()[1]), "-trust-cert", root_file),
            *("-shim-writes-first", "-clock", "7"),
        )
    thread.join()
    assert (code, said) == (1, ":tls.truncated:\n")
    errand = Errand.model_validate_json(asked[0])
    assert (errand.name, errand.named, errand.date, errand.say) == (b"test", False, 7, b"hello")
    assert unpack(TrustStore, errand.store)["count"] == 3
    assert errand.port > 0


@pytest.mark.parametrize("line", [b"", b"{}?\n", b'{"error": "no"}\n'])
def test_a_keeper_without_a_word_is_no_good_end(line):
    port, _, thread = answering(line)
    with socket.create_server(("127.0.0.1", 0)) as runner:
        code, said = shim("-node", str(port), "-port", str(runner.getsockname()[1]))
    thread.join()
    assert code == 1
    assert said == f":NODE: its keeper says {line!r}; its own terminal says why\n"


def test_a_keeper_that_is_not_there():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
    code, said = shim("-node", port, "-port", port)
    assert code == 1
    assert said.startswith(":TRANSPORT: ")


@pytest.mark.parametrize(
    ("flags", "what"),
    [
        (
            ["-shim-shuts-down"],
            "-shim-shuts-down together with -node",
        ),
        (["-key-update"], "-key-update together with -node"),
        (["-expect-curve-id", "29"], "-expect-cipher or -expect-curve-id together with -node"),
        (
            ["-shim-initial-write", "x" * 99, "-repeat-shim-initial-write", "2"],
            "first words of 198 bytes: one datagram tells the node 128",
        ),
    ],
)
def test_what_a_node_does_not_do_is_not_implemented(flags, what):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        place = str(listener.getsockname()[1])
        assert shim("-node", place, "-port", place, *flags) == (89, f"not implemented: {what}\n")
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_roots_that_fit_in_no_datagram_are_not_implemented(tmp_path):
    file = tmp_path / "roots.pem"
    roots = [identity(kind).root for kind in ("p256", "p384", "rsa2048", "rsa4096")]
    file.write_text("".join(map(ssl.DER_cert_to_PEM_cert, roots)), encoding="ascii")
    code, said = shim("-node", "1", "-port", "1", "-trust-cert", str(file), "-clock", str(DATE))
    assert code == 89
    assert said.startswith("not implemented: roots of ")
    assert said.endswith(" bytes: one datagram tells the node 1280\n")
