"""Chains of certificates whose signatures a test can tell right from wrong without arithmetic.

A "signature" is SHA-256 over the signer's key and what is signed. The search for a path never looks
into one: it asks for it to be verified.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from emulator.compare import width
from emulator.memory import Region
from firmware.errors import describe
from firmware.layouts.x509 import Certificate, PublicKey
from firmware.layouts.x509_chain import KNOWN_CHAINS, Chain, ChainState
from firmware.x509.chain import x509_chain_begin
from firmware.x509.step import x509_chain_step
from tests.support import certificates as c
from toolchain.cli.trust import trust_store
from toolchain.trust import Anchor, Trust, read_anchor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.lab import Lab

HOST = "gateway.test"
CHAIN, STORE = 0x6B00_0000, 0x6B10_0000
REGIONS = (
    Region("chain", CHAIN, -(-Chain.SIZE // 4096) * 4096),
    Region("store", STORE, 0x1_0000, foreign=True),
)
NOW = int(datetime(2024, 6, 1, tzinfo=UTC).timestamp())
CA = c.extension(19, c.der(c.SEQUENCE, c.der(c.BOOLEAN, b"\xff")), critical=True)
SIGNS = c.extension(15, c.der(c.BITS, b"\2\4"), critical=True)


def ca(path_length: int) -> bytes:
    """Return basicConstraints of a CA with a limit."""
    flag = c.der(c.BOOLEAN, b"\xff")
    return c.extension(19, c.der(c.SEQUENCE, flag, c.integer(path_length)), critical=True)


def names(*hosts: str) -> bytes:
    """Return subjectAltName with host names."""
    return c.extension(17, c.der(c.SEQUENCE, *(c.der(0x82, host.encode()) for host in hosts)))


def validity(start: str, end: str) -> bytes:
    """Return a validity from texts as UTCTime has them, without the Z."""
    return c.der(c.SEQUENCE, *(c.der(0x17, f"{text}Z".encode()) for text in (start, end)))


@functools.cache
def key_of(label: str) -> bytes:
    """Return a SubjectPublicKeyInfo that belongs to a label."""
    digest = hashlib.sha512(label.encode()).digest()
    return c.spki(c.P256, b"\4" + digest)


def signature(spki: bytes, tbs: bytes) -> bytes:
    """Return the stand-in for a signature."""
    point = spki[-65:]
    return hashlib.sha256(point + tbs).digest()


def issue(
    subject: str,
    issuer: str,
    *extensions: bytes,
    key: str = "",
    issuer_key: str = "",
    **fields: bytes,
) -> bytes:
    """Return a certificate; keys are named after their owners unless told otherwise."""
    made = c.Fields(
        issuer=c.name(issuer),
        subject=c.name(subject),
        key=key_of(key or subject),
        extensions=list(extensions),
    )
    for name, value in fields.items():
        setattr(made, name, value)
    sealed = signature(key_of(issuer_key or issuer), made.tbs())
    made.signature = c.der(c.BITS, b"\0", sealed)
    return made.encode()


def leaf(issuer: str, *extensions: bytes, **fields: Any) -> bytes:
    """Return a server's certificate for HOST."""
    return issue("a server", issuer, names(HOST), *extensions, **fields)


def unsigned(encoded: bytes) -> bytes:
    """Return a certificate with a wrong signature."""
    return encoded[:-1] + bytes([encoded[-1] ^ 1])


def root(subject: str = "root", *extensions: bytes, **fields: Any) -> bytes:
    """Return a root's certificate."""
    return issue(subject, subject, CA, *extensions, **fields)


def listed(*encoded: bytes) -> bytes:
    """Return the certificate list of a message."""
    return b"".join(len(one).to_bytes(3, "big") + one + bytes(2) for one in encoded)


def store_of(*roots: bytes | Anchor, pins: tuple[bytes, ...] = ()) -> bytes:
    """Return a trust store."""
    anchors = tuple(one if isinstance(one, Anchor) else read_anchor(one) for one in roots)
    return trust_store(Trust(anchors, "test", bytes(32), (), pins))


@dataclass
class Verdict:
    """How a chain was judged.

    Attributes:
        reason: "none", or the reason as people see it.
        failed: Number of the certificate that it is about.
        signatures: Certificates whose signatures were asked for, in order.
        view: The chain as it is afterwards.
    """

    reason: str
    failed: int
    view: Any
    signatures: list[int] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether it leads to an anchor."""
        return self.reason == "none"


class Bench:
    """Judges chains in lockstep with the models, or freely.

    Args:
        lab: Where the routines are linked; it has REGIONS.
        lockstep: Call the models too.
    """

    def __init__(self, lab: Lab, *, lockstep: bool = True) -> None:
        self.lab, self.lockstep = lab, lockstep
        self.fresh()

    def fresh(self) -> None:
        """Forget everything, the known chains too."""
        self.lab.reset()
        self.lab.g(KNOWN_CHAINS).wipe()

    def judge(
        self,
        certificates: Sequence[bytes] | bytes,
        store: bytes,
        *,
        host: str = HOST,
        now: int = NOW,
    ) -> Verdict:
        """Judge a certificate list, or certificates that make one."""
        machine = self.lab.machine
        machine.write(STORE, store)
        name = machine.alloc(len(host) + 1)
        machine.write(name, host.encode() + b"\0")
        chain = self.lab.view(Chain, CHAIN)
        chain.now, chain.store, chain.host, chain.host_len = now, STORE, name, len(host)
        raw = certificates if isinstance(certificates, bytes) else listed(*certificates)
        at = machine.alloc(len(raw) + 1, align=1)
        machine.write(at, raw or b"\0")
        self.call(x509_chain_begin, chain=CHAIN, listed=at, length=len(raw))
        verdict = Verdict("", 0, chain)
        good = 0
        while chain.state in {ChainState.SEARCH, ChainState.VERIFY}:
            _, key, certificate = self.call(x509_chain_step, chain=CHAIN, good=good)
            if chain.state == ChainState.VERIFY:
                number = (certificate - CHAIN - Chain.certificates.offset) // Certificate.SIZE
                verdict.signatures.append(number)
                good = int(self.verify(key, certificate))
        done = chain.state == ChainState.DONE
        verdict.reason = "none" if done else describe(chain.error)
        verdict.failed = chain.failed
        return verdict

    def call(self, routine: Any, **inputs: int) -> tuple[int, ...]:
        """Call a routine; return its outputs."""
        if self.lockstep:
            return tuple(self.lab.call(routine, **inputs).outputs.values())
        registers = {
            i.reg.full: inputs[name]
            for i, name in zip(routine.contract.inputs, routine.parameters, strict=True)
        }
        after = self.lab.machine.call(routine.name, registers, limit=20_000_000)
        return tuple(
            after[out.reg.full] & (1 << width(out.reg)) - 1 for out in routine.contract.outputs
        )

    def verify(self, key: int, certificate: int) -> bool:
        """Tell whether a key has signed a certificate."""
        read = self.lab.machine.read
        signer = self.lab.view(PublicKey, key).value
        signed = self.lab.view(Certificate, certificate)
        point, tbs = read(signer.start, signer.size), read(signed.tbs.start, signed.tbs.size)
        return read(signed.signature.start, signed.signature.size) == signature(point, tbs)
