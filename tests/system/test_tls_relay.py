"""The TLS shim in front of a QEMU node: handshakes with a runner, whose roots no image knows.

One node serves the whole file; each test shows a server that plays the runner, and a root of its own.
"""

import os
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from emulator.tls_shim.__main__ import main
from firmware.tls.prepare import YEAR_S
from tests.support.tls_echo import DATE, EchoNode, echo_image
from tests.support.tls_peer import identity, server_context
from tests.support.tls_runner import TEXT, Runner, echo
from tests.tls_node import Keeper

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]
HOST = "runner.test"
FLIPPED = bytes(byte ^ 0xFF for byte in TEXT)


@pytest.fixture(scope="module")
def keeper(tmp_path_factory):
    """A node whose image trusts nobody, and who takes the shim's errands for it."""
    image = echo_image(tmp_path_factory.mktemp("image"))
    with EchoNode(image) as node, Keeper(node) as kept:
        serving = threading.Thread(target=kept.serve_forever)
        serving.start()
        yield kept
        kept.shutdown()
        serving.join()


@pytest.fixture
def run(keeper, tmp_path, capsys):
    """Let the node meet a runner; return exit code, stderr and the runner."""

    def meet(shown, *flags, play=echo, context=None, root=None, family=socket.AF_INET, known=7):
        file = tmp_path / "root.pem"
        file.write_text(ssl.DER_cert_to_PEM_cert(root or shown.root), encoding="ascii")
        with Runner(play, context or server_context(shown), family=family, known=known) as runner:
            code = main(
                ["-node", str(keeper.port), "-port", str(runner.port), "-shim-id", "7",
                 "-host-name", HOST, "-trust-cert", str(file), "-clock", str(DATE), *flags]
            )  # fmt: skip
        return code, capsys.readouterr().err, runner

    return meet


@pytest.mark.parametrize("kind", ["p256", "p384", "rsa2048", "rsa4096"])
def test_each_byte_comes_back_flipped_whatever_the_root(run, kind):
    code, said, runner = run(identity(kind, host=HOST), "-expect-version", "772")
    assert (code, said, runner.errors) == (0, "", [])
    text, version, _ = runner.result
    assert (text, version) == (FLIPPED, "TLSv1.3")


def test_a_root_of_the_runner_before_is_not_believed(run):
    """Not even for a chain that the node has seen lead to it; the new one has the same name."""
    first, second = identity(host=HOST), identity("p384", host=HOST)
    assert run(first)[0] == 0
    code, said, runner = run(first, root=second.root)
    assert (code, said.partition("(")[0]) == (1, ":tls.certificate_bad")
    assert ["BAD_CERTIFICATE" in one for one in runner.errors] == [True]


@pytest.mark.parametrize(
    ("flags", "reason", "alert"),
    [
        (("-clock", str(DATE + YEAR_S)), ":tls.certificate_expired", "EXPIRED"),
        (("-host-name", "other.test"), ":tls.certificate_name", "CERTIFICATE_UNKNOWN"),
        (("-verify-fail",), ":tls.certificate_unknown", "UNKNOWN_CA"),
    ],
    ids=["expired", "name", "untrusted"],
)
def test_a_chain_that_does_not_count_fails_with_its_reason(run, flags, reason, alert):
    code, said, runner = run(identity(host=HOST, days=600), *flags)
    assert code == 1
    assert said.startswith(reason)
    assert said.endswith(":\n")
    assert [alert in one for one in runner.errors] == [True]


def test_a_server_of_tls_1_2_is_not_implemented_unless_the_runner_rules_it_out(run):
    shown = identity(host=HOST)
    old = server_context(shown, version=ssl.TLSVersion.TLSv1_2)
    code, said, _ = run(shown, context=old)
    assert (code, said.split(":")[0]) == (89, "not implemented")
    code, said, _ = run(shown, "-min-version", "772", context=old)
    assert (code, said) == (1, ":tls.alert_received(70):\n")


def test_a_runner_on_ipv6_that_is_read_in_small_pieces(run):
    code, said, runner = run(identity(host=HOST), "-ipv6", "-async", family=socket.AF_INET6)
    assert (code, said) == (0, "")
    assert runner.result[0] == FLIPPED


def test_the_node_speaks_first(run):
    def listen(tls):
        said = tls.recv(5)
        return said, *echo(tls)

    code, said, runner = run(identity(host=HOST), "-shim-writes-first", play=listen)
    assert (code, said) == (0, "")
    assert runner.result[:2] == (b"hello", FLIPPED)


def test_without_a_name_the_server_is_told_none(run):
    named: list[str | None] = []
    shown = identity(host="test")
    context = server_context(shown)
    context.sni_callback = lambda _tls, name, _context: named.append(name)
    code, said, _ = run(shown, "-host-name", "", context=context)
    assert (code, said, named) == (0, "", [None])


def test_a_server_that_ends_without_close_notify(run):
    def drop(tls):
        tls.sendall(TEXT)
        tls.recv(1 << 14)
        os.close(tls.detach())

    shown = identity(host=HOST)
    assert run(shown, play=drop)[:2] == (0, "")
    assert run(shown, "-check-close-notify", play=drop)[:2] == (1, ":tls.truncated:\n")


def test_a_runner_that_does_not_know_the_id_hangs_up(run):
    code, said, runner = run(identity(host=HOST), known=8)
    assert (code, said) == (1, ":tls.truncated:\n")
    assert runner.errors == ["unknown id 7"]


def test_a_node_that_does_not_connect_says_why(run, keeper, capsys):
    """The clock is before the image was built; the runner has been dialled already."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        flags = ["-node", str(keeper.port), "-port", str(listener.getsockname()[1])]
        assert main([*flags, "-clock", "1"]) == 1
    assert capsys.readouterr().err == ":tls.clock_impossible:\n"


def test_the_shim_as_a_process_of_its_own(keeper, tmp_path):
    shown, file = identity(host=HOST), tmp_path / "root.pem"
    file.write_text(ssl.DER_cert_to_PEM_cert(shown.root), encoding="ascii")
    with Runner(echo, server_context(shown)) as runner:
        done = subprocess.run(
            [sys.executable, "-m", "emulator.tls_shim", "-node", str(keeper.port),
             "-port", str(runner.port), "-shim-id", "7", "-host-name", HOST,
             "-trust-cert", str(file), "-clock", str(DATE)],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert runner.result[0] == FLIPPED
