"""Hosts in namespaces reach each other and are cut apart; nothing of them stays. Needs root."""

import os
import socket
import subprocess
import sys

import pytest

from pxe.hosts import Hosts
from pxe.process import NodeError
from pxe.segment import HOST_ADDRESS, Segment

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root: run as root")
PORT = 7000
LISTEN = f"""
import socket, sys
with socket.create_server(("", {PORT})) as server:
    print("listens", flush=True)
    while True:
        server.accept()[0].close()
"""
CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=0.5).close()
except TimeoutError:
    sys.exit(3)
"""
CUT_APART = 3
SAY = """
import socket, sys
with socket.socket(type=socket.SOCK_DGRAM) as there:
    there.sendto(b"said", (sys.argv[1], int(sys.argv[2])))
"""


def reached(prefix: tuple[str, ...], address: str) -> int:
    words = [*prefix, sys.executable, "-c", CONNECT, address, str(PORT)]
    return subprocess.run(words, check=False).returncode


def spaces() -> str:
    return subprocess.run(["ip", "netns"], check=True, capture_output=True, text=True).stdout


def test_two_hosts_are_cut_apart_and_nobody_else_is() -> None:
    with Segment() as segment, Hosts(segment, 3) as hosts:
        one, two, three = hosts.prefixes
        command = [*two, sys.executable, "-c", LISTEN]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                assert server.stdout.readline() == "listens\n"
                address = hosts.addresses[1]
                assert reached(one, address) == 0
                with hosts.cut([hosts.addresses[0]], [address]):
                    assert reached(one, address) == CUT_APART
                    assert reached(three, address) == 0
                    with segment.inside():
                        socket.create_connection((address, PORT), timeout=5).close()
                assert reached(one, address) == 0
            finally:
                server.kill()
        assert segment.name in spaces()
    assert segment.name not in spaces()


def test_a_host_says_what_another_hears_and_hears_nothing_of_it() -> None:
    with Segment() as segment, Hosts(segment, 1) as hosts, segment.inside():
        (prefix,), (address,) = hosts.prefixes, hosts.addresses
        with socket.socket(type=socket.SOCK_DGRAM) as ours:
            ours.bind(("", PORT))
            ours.settimeout(5)
            with hosts.cut([HOST_ADDRESS], [address], back=False):
                assert reached(prefix, HOST_ADDRESS) == CUT_APART
                words = [*prefix, sys.executable, "-c", SAY, HOST_ADDRESS, str(PORT)]
                subprocess.run(words, check=True)
                assert ours.recv(16) == b"said"


def test_what_was_made_goes_when_a_host_cannot_be_made() -> None:
    with Segment() as segment:
        taken = f"{segment.name}-2"
        segment.ip("netns", "add", taken)
        with pytest.raises(NodeError, match=f"netns add {taken}: .*File exists"), Hosts(segment, 2):
            pass
        segment.ip("netns", "delete", taken)
        assert f"{segment.name}-1" not in spaces()


def test_a_segment_that_is_gone_cannot_be_entered() -> None:
    segment = Segment()
    with pytest.raises(NodeError, match=f"{segment.name} cannot be entered: "), segment.inside():
        pass
