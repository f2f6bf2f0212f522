"""Chains for a gateway over TLS: kinds, names, validity, and what is kept in a folder."""

import base64
import ssl
import warnings
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from pxe.gateway.certificates import KEY_FILE, KEYS, ROLES, Span, kept_chain, make_chain
from pxe.gateway.cli_support import names_of
from toolchain.trust import read_anchor, read_pem

NAMES = ("gateway.test", "10.0.2.2")
NOW = datetime.now(UTC)


def verified(chain, name="gateway.test"):
    """The path from the leaf to the root, as another library finds it under the rules of the web."""
    leaf, *others = x509.load_pem_x509_certificates(chain.chain)
    store = Store(x509.load_pem_x509_certificates(chain.root))
    verifier = PolicyBuilder().store(store).build_server_verifier(x509.DNSName(name))
    return verifier.verify(leaf, others)


def bits(certificate):
    key = certificate.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey | rsa.RSAPublicKey)
    return ("ec" if isinstance(key, ec.EllipticCurvePublicKey) else "rsa"), key.key_size


def test_the_chain_is_p256_p256_p384_unless_told_otherwise():
    assert [bits(one) for one in verified(make_chain(NAMES))] == [
        ("ec", 256), ("ec", 256), ("ec", 384)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("leaf", "intermediate", "root", "sizes"),
    [
        ("p384", "p384", "p256", [("ec", 384), ("ec", 384), ("ec", 256)]),
        ("p256", "rsa2048", "rsa3072", [("ec", 256), ("rsa", 2048), ("rsa", 3072)]),
        ("rsa2048", "p256", "rsa2048", [("rsa", 2048), ("ec", 256), ("rsa", 2048)]),
    ],
)
def test_keys_of_every_kind_sign_for_each_other(leaf, intermediate, root, sizes):
    chain = make_chain(NAMES, leaf=leaf, intermediate=intermediate, root=root)
    assert [bits(one) for one in verified(chain)] == sizes
    assert {leaf, intermediate, root} <= set(KEYS)


def test_the_leaf_has_the_names_and_no_other():
    (leaf, *_) = x509.load_pem_x509_certificates(make_chain(NAMES).chain)
    held = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(one.value) for one in held] == ["gateway.test", "10.0.2.2"]
    with pytest.raises(VerificationError):
        verified(make_chain(NAMES), "other.test")


def test_a_wildcard_is_the_whole_first_label():
    chain = make_chain(("*.gateway.test",))
    assert verified(chain, "any.gateway.test")
    for other in ("gateway.test", "a.b.gateway.test"):
        with pytest.raises(VerificationError):
            verified(chain, other)
    with pytest.raises(ValueError, match="neither a host name nor an address"):
        make_chain(("a*.gateway.test",))


@pytest.mark.parametrize("role", ["leaf", "intermediate", "root"])
@pytest.mark.parametrize("days", [(-20, -10), (10, 20)])
def test_each_certificate_counts_when_it_is_told_to(role, days):
    start, end = (NOW + timedelta(days=one) for one in days)
    chain = make_chain(NAMES, spans={role: Span(start, end)})
    made = x509.load_pem_x509_certificates(chain.chain + chain.root)
    for name, one in zip(ROLES, made, strict=True):
        first, last = one.not_valid_before_utc, one.not_valid_after_utc
        if name == role:
            assert (first, last) == (start.replace(microsecond=0), end.replace(microsecond=0))
        else:
            assert first <= NOW - timedelta(hours=12) < NOW + timedelta(days=300) < last
    with pytest.raises(VerificationError):
        verified(chain)


def test_the_root_can_be_an_anchor_of_a_node():
    chain = make_chain(NAMES)
    (encoded,) = read_pem(chain.root, "ca.pem")
    anchor = read_anchor(encoded)
    assert (anchor.label, anchor.path_length) == ("shardfw local gateway, root", None)


def test_private_keys_are_not_shown():
    chain = make_chain(NAMES)
    body = b"".join(chain.key.splitlines()[1:-1])
    assert len(base64.b64decode(body)) > 32
    assert body[:20].decode() not in repr(chain)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"names": ()}, "a leaf without a name serves nobody"),
        ({"names": ("a b",)}, "'a b' is neither a host name nor an address"),
        ({"leaf": "p521"}, "'p521' is no kind of key: give one of p256, p384, rsa2048"),
        ({"spans": {"middle": Span(NOW, NOW)}}, "'middle' is no certificate of a chain: give leaf"),
    ],
)
def test_what_makes_no_chain_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_chain(**{"names": NAMES} | arguments)


def test_a_folder_keeps_its_chain_and_hides_its_key(tmp_path):
    folder = tmp_path / "tls"
    first = kept_chain(folder, NAMES)
    assert (folder / KEY_FILE).stat().st_mode & 0o077 == 0
    assert kept_chain(folder, NAMES[:1]) == first
    assert (folder / "ca.pem").read_bytes() == first.root


@pytest.mark.parametrize("spoiled", ["another name", "ends soon", "no certificate", "no key"])
def test_a_folder_without_a_good_chain_gets_one(tmp_path, spoiled):
    names: tuple[str, ...] = NAMES
    ends = {"leaf": Span(NOW - timedelta(days=2), NOW + timedelta(hours=23))}
    first = make_chain(NAMES, spans=ends if spoiled == "ends soon" else None)
    first.write(tmp_path)
    if spoiled == "another name":
        names = ("new.test", *NAMES)
    elif spoiled == "no certificate":
        (tmp_path / "chain.pem").write_text("hello")
    elif spoiled == "no key":
        (tmp_path / KEY_FILE).unlink()
    second = kept_chain(tmp_path, names)
    assert second.root != first.root
    assert kept_chain(tmp_path, names) == second


def handshake(server, client, name):
    """Run a handshake in memory; return what the client's side became."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(3):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ends[0]


def test_a_server_speaks_tls_1_3_to_who_trusts_its_root():
    chain = make_chain(NAMES)
    for name in NAMES:
        end = handshake(chain.context(), chain.client_context(), name)
        assert end.version() == "TLSv1.3"
    with pytest.raises(ssl.SSLCertVerificationError, match=r"not valid for 'other.test'"):
        handshake(chain.context(), chain.client_context(), "other.test")
    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
        handshake(chain.context(), make_chain(NAMES).client_context(), "gateway.test")


def test_a_server_refuses_tls_1_2():
    chain = make_chain(NAMES)
    old = chain.client_context()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError, match="UNSUPPORTED_PROTOCOL"):
        handshake(chain.context(), old, "gateway.test")


@pytest.mark.parametrize(
    ("host", "more", "first"),
    [
        ("192.0.2.9", (), ("192.0.2.9",)),
        ("0.0.0.0", ("gw.lan",), ("gw.lan",)),  # noqa: S104 - no name of anybody
        ("gw.lan", ("gw.lan", "192.0.2.9"), ("gw.lan", "192.0.2.9")),
        ("127.0.0.1", (), ()),
    ],
)
def test_a_gateway_has_every_name_under_which_it_is_reached(host, more, first):
    names = names_of(host, more)
    assert names[: len(first)] == first
    assert sorted(names[len(first) :]) == ["10.0.2.2", "10.77.0.1", "127.0.0.1", "localhost"]
