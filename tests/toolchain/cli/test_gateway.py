"""`shardfw gateway`: one line per event, the token from outside, a clean end."""

import json
import os
import signal
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography import x509
from websockets.sync.client import connect

from pxe.gateway.events import GatewayEvent
from toolchain.cli.gateway import command, event_json


def test_help_shows_examples_and_exit_codes():
    result = CliRunner().invoke(command, ["--help"])
    assert result.exit_code == 0
    assert "shardfw gateway --shards 16 --max-concurrency 16" in result.output
    assert "Exit codes: 0 stopped" in " ".join(result.output.split())


def test_an_event_is_one_json_object():
    line = event_json(GatewayEvent(1500, "close", 2, 7, {"code": 4000}))
    assert json.loads(line) == {
        "t_ms": 1500,
        "event": "close",
        "connection": 2,
        "shard": 7,
        "code": 4000,
    }


def test_a_missing_token_variable_says_how_to_set_it():
    result = CliRunner(env={"NO_SUCH": None}).invoke(command, ["--token-env", "NO_SUCH"])
    assert result.exit_code == 1
    assert "the environment has no NO_SUCH. Set it: export NO_SUCH=..." in result.output


def test_two_token_sources_are_wrong_usage(tmp_path):
    file = tmp_path / "token"
    file.write_text("x")
    result = CliRunner().invoke(command, ["--token-env", "A", "--token-file", str(file)])
    assert result.exit_code == 2
    assert "both given; give one of them" in result.output


def test_a_bad_script_names_file_and_fault(tmp_path):
    script = tmp_path / "trouble.toml"
    script.write_text('[[step]]\non = "never"\ndo = "kick"\n')
    result = CliRunner().invoke(command, ["--script", str(script)])
    assert result.exit_code == 1
    assert str(script) in result.output
    assert "never" in result.output


def test_a_taken_port_says_what_to_do(unused_listener):
    port = unused_listener.getsockname()[1]
    result = CliRunner().invoke(command, ["--port", str(port)])
    assert result.exit_code == 1
    assert f"cannot listen on 127.0.0.1:{port}" in result.output
    assert "0 takes a free one" in result.output


START = "from toolchain.cli.main import main; main()"


def started(*argv, **environ):
    """Start `shardfw gateway` on a free port."""
    return subprocess.Popen(
        [sys.executable, "-c", START, "gateway", "--port", "0", "--json", *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environ,
    )


@pytest.mark.parametrize(("profile", "version"), [("discord", 10), ("fluxer", 1)])
def test_serves_and_ends_clean_on_sigint(profile, version):
    argv = ["--token-env", "NAME_FOR_TEST", "--profile", profile]
    with started(*argv, NAME_FOR_TEST="hunter-2-hunter") as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        assert first["event"] == "listening"
        with connect(f"{first['url']}/?v={version}&encoding=json") as client:
            assert json.loads(client.recv())["op"] == 10
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        rows = [json.loads(line) for line in out.splitlines()]
    assert process.returncode == 0, err
    assert rows[0]["event"] == "connect"
    assert rows[-1]["event"] == "stopped"
    assert rows[-1]["stats"]["connections"] == 1
    assert "hunter-2" not in out + err


@pytest.mark.parametrize("argv", [["--name", "gw.lan"], ["--tls-dir", "tls"], ["--ca", "ca.pem"]])
def test_what_is_about_certificates_needs_tls(argv):
    result = CliRunner().invoke(command, argv)
    assert result.exit_code == 2
    assert "--name, --tls-dir and --ca are about certificates; add --tls" in result.output


def test_json_and_the_certificate_do_not_share_standard_output():
    result = CliRunner().invoke(command, ["--tls", "--json", "--ca", "-"])
    assert result.exit_code == 2
    assert "--json and --ca - both want standard output; name a file" in result.output


def test_a_name_that_is_none_is_wrong_usage():
    result = CliRunner().invoke(command, ["--tls", "--name", "a b"])
    assert result.exit_code == 2
    assert "Invalid value for --name: 'a b' is neither a host name nor an address" in result.output


def test_a_certificate_that_cannot_be_written_is_told(tmp_path):
    result = CliRunner().invoke(command, ["--tls", "--ca", str(tmp_path / "no" / "ca.pem")])
    assert result.exit_code == 1
    assert f"cannot write {tmp_path}/no/ca.pem: No such file or directory" in result.output


def test_the_certificate_is_printed_before_it_listens(unused_listener):
    port = unused_listener.getsockname()[1]
    result = CliRunner().invoke(command, ["--tls", "--ca", "-", "--port", str(port)])
    assert result.exit_code == 1
    (certificate,) = x509.load_pem_x509_certificates(result.stdout.encode())
    assert certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


@pytest.mark.parametrize("kept", [False, True])
def test_serves_wss_with_a_ca_that_others_can_trust(tmp_path, kept):
    argv = ["--tls", "--name", "gw.lan", "--ca", str(tmp_path / "ca.pem")]
    roots = []
    for _ in range(2):
        with started(*argv, *(["--tls-dir", str(tmp_path / "tls")] if kept else [])) as process:
            assert process.stdout is not None
            first = json.loads(process.stdout.readline())
            assert first["ca"] == str(tmp_path / "ca.pem")
            assert first["url"].startswith("wss://127.0.0.1:")
            context = ssl.create_default_context(cafile=first["ca"])
            for name in ("127.0.0.1", "localhost", "10.0.2.2", "10.77.0.1", "gw.lan"):
                url = f"{first['url']}/?v=10&encoding=json"
                with connect(url, ssl=context, server_hostname=name) as client:
                    assert json.loads(client.recv())["op"] == 10
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert err == ""
        roots.append((tmp_path / "ca.pem").read_bytes())
    # A folder keeps the CA, so that an image which trusts it stays good.
    assert (roots[0] == roots[1]) == kept


def test_without_a_file_the_ca_lies_where_the_first_line_says():
    with started("--tls") as process:
        assert process.stdout is not None
        place = Path(json.loads(process.stdout.readline())["ca"])
        assert place.read_bytes().startswith(b"-----BEGIN CERTIFICATE-----")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 0
    assert not place.parent.exists()
