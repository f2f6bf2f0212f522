"""A chain of certificates that is being judged, and the chains that were found good."""

from __future__ import annotations

import enum

from firmware.layouts.crypto import SHA256_DIGEST_BYTES, SHA512_DIGEST_BYTES, Hash
from firmware.layouts.x509 import P384_BYTES, Certificate, PublicKey
from toolchain.asm.operands import Region
from toolchain.layout import (
    Global,
    Struct,
    array,
    bytes_,
    enum32,
    nested,
    ptr,
    u32,
    u64,
)

CERTIFICATES_MAX = 10
"""Certificates of one message; six intermediates and some that are not needed."""
INTERMEDIATES_MAX = 6
"""Between anchor and leaf, as in rustls' webpki."""
SIGNATURES_MAX = 16
STEPS_MAX = 64
"""Times that the issuer of a certificate is looked for."""
COMPARED_MAX = 120_000
"""Bytes of names, keys and constraints that are compared for one chain; others count comparisons."""
CHAINS_KEPT = 8
ANCHOR = 0xFF
"""In the detail of an error, where the number of a certificate would be."""
LIST_IN = Region("a certificate list", "of a peer; every length is checked against its end")


class ChainState(enum.IntEnum):
    """What the chain needs next. VERIFY: its caller is asked to verify one signature."""

    FAILED = 0
    SEARCH = 1
    VERIFY = 2
    DONE = 3


class Chain(Struct):
    """The certificates of one message, and how far the search for a path to an anchor is."""

    SIZE = 0xCC0
    now = u64(0x00, "given: seconds since 1970")
    store = ptr(0x08, "given: the TrustStore")
    host = ptr(0x10, "given: the name that the leaf must have")
    host_len = u32(0x18, "given: its bytes")
    state = enum32(0x1C, ChainState, "see ChainState")
    error = u32(0x20, "the first reason against it; counts when FAILED")
    failed = u32(0x24, "number of the certificate that it is about, 0 = the leaf, or ANCHOR")
    count = u32(0x28, "certificates")
    depth = u32(0x2C, "intermediates on the path")
    verifying = u32(0x30, "place on the path of the certificate whose signature is looked at")
    steps = u32(0x34, "steps taken; at most STEPS_MAX")
    signatures = u32(0x38, "signatures asked for; at most SIGNATURES_MAX")
    uncompared = u32(0x3C, "of COMPARED_MAX: what is left")
    anchor = ptr(0x40, "the TrustRecord at the path's end; 0 = none")
    not_before = u64(0x48, "from when all of the path counts; seconds since 1970, signed")
    not_after = u64(0x50, "until when")
    anchor_key = nested(0x58, PublicKey, "of the anchor")
    path = bytes_(0x70, 8, "numbers of the certificates on the path, the leaf first")
    candidates = bytes_(0x78, 8, "by place: number of the next certificate that may be the issuer")
    anchors = bytes_(
        0x80, 16, "by place: entry of the store from which on is looked; words", align=2
    )
    digest = bytes_(0x90, SHA256_DIGEST_BYTES, "SHA-256 of the certificate list", align=8)
    hash = nested(0xB0, Hash, "work space for it")
    signed = bytes_(0x180, SHA512_DIGEST_BYTES, "digest of what a signature is over", align=8)
    numbers = bytes_(0x1C0, 2 * P384_BYTES, "r and s of a signature, big-endian", align=8)
    certificates = array(0x220, Certificate, CERTIFICATES_MAX, "in the order of the message")


class KnownChain(Struct):
    """A certificate list that led to an anchor."""

    SIZE = 0x40
    digest = bytes_(0x00, SHA256_DIGEST_BYTES, "SHA-256 of the list", align=8)
    not_before = u64(0x20, "from when all of its path counts; seconds since 1970, signed")
    not_after = u64(0x28, "until when")
    used = u64(0x30, "`turn` of the last use; 0 = the place is free")
    anchor = ptr(0x38, "the TrustRecord at the end of its path")


class KnownChains(Struct):
    """Chains whose signatures need not be verified again; the one unused for longest goes."""

    SIZE = 0x40 + CHAINS_KEPT * KnownChain.SIZE
    turn = u64(0x00, "uses so far")
    hits = u32(0x08, "chains that were known")
    misses = u32(0x0C, "chains that were not")
    chains = array(0x40, KnownChain, CHAINS_KEPT, "the chains")


KNOWN_CHAINS = Global("known_chains", KnownChains, "chains that led to an anchor", align=64)
