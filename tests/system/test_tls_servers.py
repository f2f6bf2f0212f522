"""A QEMU node over TLS against other people's servers: chains, suites, groups, records, key changes.

One node serves the whole file. Every server says bytes that the node sends back turned, or answers a
request whose bytes the node counts.
"""

import socket
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from firmware.layouts.tls import Hybrid
from tests.support.tls_echo import DATE, EchoNode, echo_image
from tests.support.tls_liar import liar_on
from tests.support.tls_lies import LIES
from tests.support.tls_peer import identity
from tests.support.tls_programs import GnuTls, Go, Nginx, OpenSsl, build_go
from tests.support.tls_servers import (
    NAME,
    Echo,
    Served,
    python_ssl,
    refused_by_node,
    tlslite_server,
)
from toolchain.cli.images import cache_folder

pytestmark = pytest.mark.system

LARGE = 1 << 18
OTHER = "other.test"
CHAINS = {
    "p256": ("p256", None),
    "p384": ("p384", None),
    "rsa2048": ("rsa2048", None),
    "rsa4096": ("rsa4096", None),
    "rsa2048 by p384": ("rsa2048", ("p384", "p384")),
}
"""The leaf's key, and those of its issuers when they are of another kind."""
AES128, AES256, CHACHA = (
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
)


def chain_of(name):
    """Return the chain that a server shows; made when it is first wanted."""
    return identity(*CHAINS[name], host=NAME)


@pytest.fixture(scope="module")
def going(tmp_path_factory):
    """The build of the Go server, begun before the first test."""
    program = tmp_path_factory.mktemp("go") / "server"
    build = build_go(cache_folder() / "go", program)
    yield build, program
    build.kill()
    build.wait()


@pytest.fixture(scope="module")
def node(tmp_path_factory, going):
    roots = [shown.root for shown in (*map(chain_of, CHAINS), identity(host=OTHER))]
    with EchoNode(echo_image(tmp_path_factory.mktemp("image"), *roots)) as booted:
        yield booted


def served(node, server, **options):
    """Let a server serve the node; both say that all went well."""
    with server as running:
        node.connect(running.port, **running.ask, **options)
        running.drive()
        verdict = node.verdict()
        running.check(verdict)
        return verdict


@pytest.mark.parametrize(
    ("chain", "options", "prints"),
    [
        ("p256", ["-ciphersuites", AES128, "-num_tickets", "9"], f"CIPHER is {AES128}"),
        ("p384", ["-ciphersuites", AES256, "-num_tickets", "0"], f"CIPHER is {AES256}"),
        ("rsa2048", ["-ciphersuites", CHACHA], f"CIPHER is {CHACHA}"),
        ("rsa4096", [], "CIPHER is TLS"),
        ("rsa2048 by p384", [], "CIPHER is TLS"),
        ("rsa2048", ["-sigalgs", "rsa_pss_rsae_sha512"], "CIPHER is TLS"),
        ("p256", ["-groups", "P-256", "-msg"], r"(?s)ServerHello.*ClientHello.*ServerHello"),
        ("p256", ["-record_padding", "4096"], "CIPHER is TLS"),
        ("p256", ["-max_send_frag", "512"], "CIPHER is TLS"),
        ("p256", ["-verify", "1"], "CIPHER is TLS"),
    ],
)
def test_openssl(node, tmp_path, chain, options, prints):
    served(node, OpenSsl(tmp_path, chain_of(chain), *options, prints=prints))


@pytest.mark.parametrize("suite", [AES128, AES256, CHACHA])
def test_openssl_changes_keys_and_asks_for_ours(node, tmp_path, suite):
    ours = r"(?s)(<<< TLS 1\.3, Handshake [^\n]*KeyUpdate.*){3}"
    options = ("-ciphersuites", suite, "-msg")
    commands = ["", "k", "K", "k", "K", "K"]
    served(node, OpenSsl(tmp_path, chain_of("p256"), *options, commands=commands, prints=ours))


def test_openssl_much_data(node, tmp_path):
    served(node, OpenSsl(tmp_path, chain_of("p256"), pieces=16, commands=[""] * 4))


def test_python_tiny_records(node):
    served(
        node,
        python_ssl(chain_of("p256"), Echo([bytes([n & 0xFF]) for n in range(300)], wait=False)),
    )


def test_python_longest_records(node):
    pieces = [bytes(n * 3 & 0xFF for n in range(1 << 14))] * 16
    verdict = served(node, python_ssl(chain_of("p256"), Echo(pieces, wait=False), tickets=20))
    assert verdict.received == LARGE


@pytest.mark.parametrize("hybrid", [Hybrid.OFF, Hybrid.SHARE])
@pytest.mark.parametrize("curve", ["prime256v1", "X25519"])
def test_python_groups(node, curve, hybrid):
    served(node, python_ssl(chain_of("p384"), curve=curve), hybrid=hybrid)


@pytest.mark.parametrize(
    ("chain", "settings", "over"),
    [
        ("p256", [], r"^TLSv1\.3 TLS_\w+ X25519$"),
        ("rsa2048", [f"ssl_conf_command Ciphersuites {CHACHA};"], f"{CHACHA} X25519"),
        ("p384", ["ssl_ecdh_curve prime256v1;"], "prime256v1"),
    ],
)
def test_nginx(node, tmp_path, chain, settings, over):
    served(node, Nginx(tmp_path, chain_of(chain), *settings, size=LARGE, over=over))


PRIORITY = "NORMAL:-VERS-ALL:+VERS-TLS1.3"


@pytest.mark.parametrize(
    ("chain", "priority", "prints"),
    [
        ("p256", "", r"Using curve: X25519"),
        ("p384", ":-CIPHER-ALL:+CHACHA20-POLY1305", "Cipher: CHACHA20-POLY1305"),
        ("rsa4096", ":-GROUP-ALL:+GROUP-SECP256R1", "Using curve: SECP256R1"),
    ],
)
def test_gnutls_asks_for_a_certificate(node, tmp_path, chain, priority, prints):
    options = ("--priority", PRIORITY + priority)
    served(node, GnuTls(tmp_path, chain_of(chain), *options, size=LARGE, prints=prints))


def test_tlslite_whole_flight_in_one_record(node):
    served(node, tlslite_server(chain_of("p256")))


def test_tlslite_retry_with_a_cookie(node):
    served(node, tlslite_server(chain_of("rsa2048"), group="secp256r1"))


def test_tlslite_asks_for_a_certificate_and_changes_keys(node):
    served(node, tlslite_server(chain_of("p384"), request=True, updates=True))


@pytest.mark.parametrize(
    ("chain", "options", "hybrid", "prints"),
    [
        ("p256", [], Hybrid.OFF, "group=X25519 retry=false"),
        ("rsa2048", ["-retry"], Hybrid.OFF, "group=CurveP256 retry=true"),
        ("p384", ["-request"], Hybrid.OFF, "certificates=0"),
        ("p256", [], Hybrid.SHARE, "group=X25519MLKEM768 retry=false"),
        ("p384", ["-hybrid"], Hybrid.OFFER, "group=X25519MLKEM768 retry=true"),
        ("rsa2048", ["-retry"], Hybrid.SHARE, "group=CurveP256 retry=true"),
    ],
)
def test_go(node, tmp_path, going, chain, options, hybrid, prints):
    build, program = going
    assert build.wait(120) == 0
    prints = f"^ok name={NAME} alpn=http/1.1 suite=TLS_.*{prints}"
    server = Go(tmp_path, chain_of(chain), program, *options, size=LARGE, prints=prints)
    served(node, server, hybrid=hybrid)


LATER = int(datetime(2036, 3, 1, tzinfo=UTC).timestamp())
"""The certificates are no longer valid; ten years behind the image's build it is not yet."""
REFUSALS = {
    # Its root has the name of the anchors, and a key of its own.
    "a false anchor": (("p384", ("p256", "p256"), NAME), DATE, "bad", "BAD_CERTIFICATE"),
    "another host": (("p256", None, OTHER), DATE, "name", "CERTIFICATE_UNKNOWN"),
    "expired": (("p256", None, NAME), LATER, "expired", "CERTIFICATE_EXPIRED"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_chain_that_does_not_count(node, case):
    shown, date, why, alert = REFUSALS[case]
    refused(node, identity(*shown), why, alert, date)


def test_a_leaf_without_its_issuer(node, tmp_path):
    shown, alone = chain_of("p256"), tmp_path / "leaf.pem"
    alone.write_text(Path(shown.chain).read_text().partition("-----END CERTIFICATE-----\n")[0])
    with alone.open("a") as file:
        file.write("-----END CERTIFICATE-----\n")
    refused(node, replace(shown, chain=str(alone)), "unknown", "UNKNOWN_CA")


def refused(node, shown, why, alert, date=DATE):
    """Let the node connect; it says why not, and so does what the server reads."""
    with refused_by_node(shown) as server:
        node.connect(server.port, date=date)
        server.drive()
        verdict = node.verdict()
    assert verdict.why.startswith(f"tls.certificate_{why}")
    assert server.ask["alert"].endswith(f"_ALERT_{alert}")


def test_no_connection_while_the_clock_is_impossible(node):
    with socket.create_server(("127.0.0.1", 0)) as server:
        node.connect(server.getsockname()[1], date=1)
        assert node.verdict().why == "tls.clock_impossible"
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize(
    "name",
    [
        "TLS 1.2 with the mark of a downgrade",
        "the share zero",
        "a second retry",
        "a point off P-256",
        "another protocol",
        "a signature with one bit wrong",
        "Finished with one bit wrong",
        "a wrong tag",
        "KeyUpdate that asks for what does not exist",
        "a request behind the handshake",
        "the end of TCP without close_notify",
    ],
)
def test_a_liar(node, name):
    """The simulation meets all lies; these show that a machine finds the same."""
    lie, liars = LIES[name], []
    shown = chain_of(lie.shown)
    with Served(lambda accepted: liars.append(liar_on(accepted, shown, lie.acts))) as server:
        node.connect(server.port)
        verdict = node.verdict()
        server.drive()
    assert verdict.why.partition("(")[0] == f"tls.{lie.site.name}"
    assert liars[0].alerts == ([] if lie.alert is None else [lie.alert])
