"""Pins: keys of which an operator wants one on every path."""

from firmware.abi import CALLER_SAVED
from firmware.crypto.sha256 import sha256_finish, sha256_start, sha256_update
from firmware.layouts.trust import PIN_BYTES, TRUST, TrustRecord, TrustStore
from firmware.layouts.x509 import Certificate, Slice
from firmware.layouts.x509_chain import Chain
from firmware.x509.certificate import x509_same
from firmware.x509.chain import certificate_at
from toolchain.asm import (
    CF,
    EBX,
    ECX,
    EDX,
    NZ,
    R12,
    R13,
    R13D,
    R14,
    R14D,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    E,
    In,
    Out,
    S,
    mem8,
    routine,
)


@routine(
    inputs=[In(RDI, Chain, "the chain; its path has an anchor, no signature is looked at")],
    outputs=[Out(CF, "1 = there are pins, and none is of a key on the path")],
    clobbers=CALLER_SAVED,
    reads=[
        Chain.store,
        Chain.depth,
        Chain.path,
        Chain.anchor,
        TrustStore.pins,
        TrustStore.size,
        TrustRecord.subject_len,
        TrustRecord.spki_len,
        Slice.start,
        Slice.size,
    ],
    calls=[sha256_start, sha256_update, sha256_finish, x509_same],
    saves=[RBX, R12, R13, R14],
    stack=8,
    source="RFC 7469 2.4 and 2.6",
)
def x509_check_pins(a: Asm, chain: Chain) -> None:
    """Look for a pinned key on the path: the anchor's, then those below it, the leaf's last."""
    kept, store, record = Chain.at(R12), TrustStore.at(RAX), TrustRecord.at(RAX)
    key, digest = Certificate.at(RDX).spki, kept.signed.address
    a.mov(R12, RDI)
    a.mov(RAX, kept.store)
    a.cmp(store.pins, 0)
    with a.if_(E):
        a.clc()
        a.ret()
    a.mov(EBX, kept.depth)
    a.mov(RAX, kept.anchor)
    a.mov(EDX, record.subject_len)
    a.lea(R13, mem8(RAX, TrustRecord.SIZE, index=RDX, ref=TRUST))
    a.mov(R14D, record.spki_len)
    with a.loop() as each:
        a.lea(RDI, kept.hash.state.address)
        a.call(sha256_start)
        a.lea(RDI, kept.hash.state.address)
        a.mov(RSI, R13)
        a.mov(ECX, R14D)
        a.call(sha256_update)
        a.lea(RDI, kept.hash.state.address)
        a.lea(RSI, digest)
        a.call(sha256_finish)
        # The pins lie at the end of the store.
        a.mov(RAX, kept.store)
        a.mov(R14D, store.pins)
        a.mov(R13D, store.size)
        a.add(R13, RAX)
        with a.loop() as pin:
            a.sub(R13, PIN_BYTES)
            a.lea(RSI, digest)
            a.mov(ECX, PIN_BYTES)
            a.mov(RDI, R13)
            a.mov(EDX, PIN_BYTES)
            a.call(x509_same)
            with a.if_(E):
                a.clc()
                a.ret()
            a.dec(R14D)
            a.again(NZ, pin)
        a.test(EBX, EBX)
        a.leave(S, each)
        a.movzx(ECX, kept.path.m8(index=RBX))
        certificate_at(a, RDX, R12, RCX)
        a.mov(R13, key.start)
        a.mov(R14D, key.size)
        a.dec(EBX)
        a.jmp(each.top)
    a.stc()
    a.ret()
