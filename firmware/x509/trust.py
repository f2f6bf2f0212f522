"""Trust anchors by their names."""

from firmware.layouts.der import DER_IN
from firmware.layouts.trust import FNV_BASIS, FNV_PRIME, TRUST, TrustEntry, TrustRecord, TrustStore
from firmware.x509.certificate import x509_same
from toolchain.asm import (
    CF,
    EAX,
    EBP,
    ECX,
    EDI,
    EDX,
    NE,
    NZ,
    R8,
    R12,
    R13,
    R13D,
    R14,
    R15,
    R15D,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    E,
    In,
    Out,
    Reg32,
    Reg64,
    mem8,
    routine,
)


@routine(
    inputs=[In(RSI, int, "a name with its header"), In(ECX, int, "its bytes, at least 1")],
    outputs=[Out(RAX, "its hash")],
    clobbers=[RCX, RDX, RSI, R8],
    reads=[DER_IN],
    source="RFC 9923 4: FNV-1a over 64 bits",
)
def x509_name_hash(a: Asm, name: Reg64, size: Reg32) -> None:
    """Hash a name as the index of the trust store does."""
    a.mov(RAX, FNV_BASIS)
    a.mov(R8, FNV_PRIME)
    with a.loop() as each:
        a.movzx(EDX, mem8(name, ref=DER_IN))
        a.xor(RAX, RDX)
        a.imul(RAX, R8)
        a.inc(name)
        a.dec(size)
        a.again(NZ, each)
    a.ret()


@routine(
    inputs=[
        In(RDI, TrustStore, "the trust store"),
        In(RSI, int, "the name that an anchor must have, with its header"),
        In(ECX, int, "its bytes, at least 1"),
        In(EDX, int, "number of the entry from which on is looked; 0 at first"),
    ],
    outputs=[
        Out(CF, "1 = there is none"),
        Out(RAX, "its TrustRecord; 0 when there is none"),
        Out(EDX, "number of the entry behind it; 0 when there is none"),
    ],
    clobbers=[RCX, RDI, RSI, R8],
    reads=[TrustStore.count, TrustEntry.hash, TrustEntry.offset, TrustRecord.subject_len],
    calls=[x509_name_hash, x509_same],
    saves=[RBX, RBP, R12, R13, R14, R15],
    source="firmware/docs/x509.md#anchors",
)
def x509_anchor_find(a: Asm, store: TrustStore, name: Reg64, size: Reg32, first: Reg32) -> None:
    """Find the next anchor of a name; the entries are in the order of their hashes."""
    kept, entry, record = TrustStore.at(RBX), TrustEntry.at(R15), TrustRecord.at(RDI)
    none = a.label("none")
    a.mov(RBX, RDI)
    a.mov(EBP, first)
    a.mov(R12, name)
    a.mov(R13D, size)
    a.call(x509_name_hash)
    a.mov(R14, RAX)
    a.mov(R15D, EBP)
    a.shl(R15, TrustEntry.SIZE.bit_length() - 1)
    a.lea(R15, mem8(RBX, TrustStore.SIZE, index=R15, ref=TRUST))
    with a.loop() as each:
        a.cmp(EBP, kept.count)
        a.jae(none)
        a.inc(EBP)
        with a.block() as other:
            a.cmp(entry.hash, R14)
            a.j(A, none)
            a.leave(NE, other)
            a.mov(EDI, entry.offset)
            a.add(RDI, RBX)
            a.mov(EDX, record.subject_len)
            a.add(RDI, TrustRecord.SIZE)
            a.mov(RSI, R12)
            a.mov(ECX, R13D)
            a.call(x509_same)
            a.leave(E, each)
        a.add(R15, TrustEntry.SIZE)
        a.jmp(each.top)
    a.mov(EAX, entry.offset)
    a.add(RAX, RBX)
    a.mov(EDX, EBP)
    a.clc()
    a.ret()
    a.place(none)
    a.xor(EAX, EAX)
    a.xor(EDX, EDX)
    a.stc()
    a.ret()
