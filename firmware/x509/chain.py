"""The certificate list of one message: read, its leaf judged, and known again by its digest."""

from firmware.abi import CALLER_SAVED
from firmware.crypto.sha256 import sha256_finish, sha256_start, sha256_update
from firmware.layouts.trust import TrustRecord
from firmware.layouts.x509 import LIST, NAME, TOO_MANY, Certificate
from firmware.layouts.x509_chain import (
    CERTIFICATES_MAX,
    CHAINS_KEPT,
    COMPARED_MAX,
    KNOWN_CHAINS,
    LIST_IN,
    Chain,
    ChainState,
    KnownChain,
    KnownChains,
)
from firmware.x509.certificate import x509_parse
from firmware.x509.names import x509_match_host
from firmware.x509.roles import x509_check_leaf
from toolchain.asm import (
    CF,
    CX,
    EAX,
    EBP,
    ECX,
    NC,
    NE,
    NS,
    NZ,
    R8,
    R9,
    R12,
    R13,
    R14,
    R15,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    B,
    C,
    E,
    G,
    In,
    L,
    Out,
    Reg32,
    Reg64,
    mem8,
    mem16,
    routine,
)

LENGTH_BYTES = 3
"""Of a certificate in the list (RFC 8446 4.4.2)."""
EXTENSIONS_BYTES = 2
KNOWN = KNOWN_CHAINS.it


def certificate_at(a: Asm, target: Reg64, chain: Reg64, number: Reg64) -> None:
    """Target := the address of a certificate by its number; the number is lost."""
    a.imul(number, number, Certificate.SIZE)
    a.lea(target, Chain.at(chain, index=number).certificates.address)


@routine(
    inputs=[
        In(RDI, Chain, "the chain"),
        In(EAX, int, "a reason against it, with its detail"),
        In(ECX, int, "number of the certificate that it is about, or ANCHOR"),
    ],
    reads=[Chain.error],
    writes=[Chain.error, Chain.failed],
    source="firmware/docs/x509.md#path",
)
def x509_note(a: Asm, chain: Chain, error: Reg32, number: Reg32) -> None:
    """Note why a path does not count; the first reason stays."""
    a.cmp(chain.error, 0)
    with a.if_(E):
        a.mov(chain.error, error)
        a.mov(chain.failed, number)
    a.ret()


@routine(
    inputs=[
        In(RDI, Chain, "the chain; `count` is 0"),
        In(RSI, int, "the certificate list"),
        In(ECX, int, "its bytes"),
    ],
    outputs=[Out(EAX, "0 = the leaf was read and some more; else why not")],
    clobbers=CALLER_SAVED,
    reads=[LIST_IN, Chain.count],
    writes=[Chain.count],
    calls=[x509_parse, x509_note],
    saves=[RBX, R12, R13, R14, R15],
    source="RFC 8446 4.4.2",
)
def x509_chain_read(a: Asm, chain: Chain, listed: Reg64, length: Reg32) -> None:
    """Read every certificate of a list; what is wrong with any but the leaf is only noted."""
    kept = Chain.at(R12)
    bad, fatal, good = a.label("bad"), a.label("fatal"), a.label("good")
    a.mov(R12, RDI)
    a.mov(R13, listed)
    a.mov(ECX, length)
    a.lea(R14, mem8(R13, index=RCX, ref=LIST_IN))
    a.lea(RBX, kept.certificates.address)
    with a.loop() as each:
        a.mov(RAX, R14)
        a.sub(RAX, R13)
        a.sub(RAX, LENGTH_BYTES)
        a.jb(bad)
        a.cmp(mem8(R13, ref=LIST_IN), 0)
        a.jne(bad)
        a.movzx(ECX, mem16(R13, 1, ref=LIST_IN))
        a.rol(CX, 8)
        a.add(R13, LENGTH_BYTES)
        a.sub(RAX, RCX)
        a.jb(bad)
        a.cmp(RAX, EXTENSIONS_BYTES)
        a.jb(bad)
        a.cmp(kept.count, CERTIFICATES_MAX)
        with a.if_(E):
            a.mov(EAX, TOO_MANY.code)
            a.jmp(fatal)
        a.lea(R15, mem8(R13, index=RCX, ref=LIST_IN))
        a.mov(RSI, R13)
        a.mov(RDI, RBX)
        a.call(x509_parse)
        a.test(EAX, EAX)
        with a.if_(NZ):
            a.cmp(kept.count, 0)
            a.je(fatal)
            a.mov(RDI, R12)
            a.mov(ECX, kept.count)
            a.call(x509_note)
        a.inc(kept.count)
        a.add(RBX, Certificate.SIZE)
        a.movzx(ECX, mem16(R15, ref=LIST_IN))
        a.rol(CX, 8)
        a.add(RCX, EXTENSIONS_BYTES)
        a.lea(R13, mem8(R15, index=RCX, ref=LIST_IN))
        a.cmp(R13, R14)
        a.again(B, each)
    a.je(good)
    a.place(bad)
    a.mov(EAX, LIST.code)
    a.place(fatal)
    a.ret()
    a.place(good)
    a.xor(EAX, EAX)
    a.ret()


@routine(
    inputs=[In(RDI, Chain, "the chain; its digest is there")],
    outputs=[Out(CF, "1 = it is known, and all of its path counts now")],
    clobbers=[RAX, RCX, RDX],
    reads=[Chain.digest, Chain.now, KnownChains.turn, KnownChain],
    writes=[
        KnownChains.turn,
        KnownChains.hits,
        KnownChains.misses,
        KnownChain.used,
        Chain.anchor,
    ],
    source="firmware/docs/x509.md#known-chains",
)
def x509_known_find(a: Asm, chain: Chain) -> None:
    """Look for a chain that led to an anchor before."""
    known = KnownChain.at(RDX)
    a.lea(RDX, KNOWN.chains.address)
    a.mov(ECX, CHAINS_KEPT)
    with a.loop() as each:
        with a.block() as other:
            a.cmp(known.used, 0)
            a.leave(E, other)
            for at in range(0, Chain.digest.size, 8):  # unrolled: four quadwords
                a.mov(RAX, chain.digest.m64(at))
                a.cmp(RAX, known.digest.m64(at))
                a.leave(NE, other)
            a.mov(RAX, chain.now)
            a.cmp(RAX, known.not_before)
            a.leave(L, other)
            a.cmp(RAX, known.not_after)
            a.leave(G, other)
            a.inc(KNOWN.turn)
            a.mov(RAX, KNOWN.turn)
            a.mov(known.used, RAX)
            a.mov(RAX, known.anchor)
            a.mov(chain.anchor, RAX)
            a.inc(KNOWN.hits)
            a.stc()
            a.ret()
        a.add(RDX, KnownChain.SIZE)
        a.dec(ECX)
        a.again(NZ, each)
    a.inc(KNOWN.misses)
    a.clc()
    a.ret()


@routine(
    inputs=[In(RDI, Chain, "a chain that is DONE, by way of its signatures")],
    clobbers=[RAX, RCX, RDX, RSI, R8, R9],
    reads=[
        Chain.digest,
        Chain.depth,
        Chain.path,
        Chain.anchor,
        Certificate.not_before,
        Certificate.not_after,
        TrustRecord.not_after,
        KnownChains.turn,
        KnownChain.used,
    ],
    writes=[Chain.not_before, Chain.not_after, KnownChains.turn, KnownChain],
    source="firmware/docs/x509.md#known-chains",
)
def x509_known_keep(a: Asm, chain: Chain) -> None:
    """Note from when to when all of the path counts, and keep that by the digest."""
    known, anchor, certificate = KnownChain.at(RDX), TrustRecord.at(RAX), Certificate.at(RSI)
    start, end = R8, R9
    a.mov(RAX, chain.anchor)
    a.mov(end, anchor.not_after)
    a.mov(start, 1 << 63)
    a.mov(ECX, chain.depth)
    with a.loop() as each:
        a.movzx(EAX, chain.path.m8(index=RCX))
        certificate_at(a, RSI, RDI, RAX)
        a.cmp(start, certificate.not_before)
        a.cmov(L, start, certificate.not_before)
        a.cmp(end, certificate.not_after)
        a.cmov(G, end, certificate.not_after)
        a.dec(ECX)
        a.again(NS, each)
    a.mov(chain.not_before, start)
    a.mov(chain.not_after, end)

    # The place that was not used for longest; a free one was never.
    a.lea(RDX, KNOWN.chains.address)
    a.mov(RSI, RDX)
    a.mov(ECX, CHAINS_KEPT - 1)
    with a.loop() as place:
        a.add(RSI, KnownChain.SIZE)
        a.mov(RAX, KnownChain.at(RSI).used)
        a.cmp(RAX, known.used)
        a.cmov(B, RDX, RSI)
        a.dec(ECX)
        a.again(NZ, place)
    for at in range(0, Chain.digest.size, 8):  # unrolled: four quadwords
        a.mov(RAX, chain.digest.m64(at))
        a.mov(known.digest.m64(at), RAX)
    a.mov(known.not_before, start)
    a.mov(known.not_after, end)
    a.mov(RAX, chain.anchor)
    a.mov(known.anchor, RAX)
    a.inc(KNOWN.turn)
    a.mov(RAX, KNOWN.turn)
    a.mov(known.used, RAX)
    a.ret()


@routine(
    inputs=[
        In(RDI, Chain, "the chain; what its fields call given is there"),
        In(RSI, int, "the certificate list of the message; it stays there"),
        In(ECX, int, "its bytes"),
    ],
    outputs=[Out(EAX, "ChainState: SEARCH, DONE when the list is known, or FAILED")],
    clobbers=CALLER_SAVED,
    reads=[Chain.host, Chain.host_len, Chain.now],
    writes=[
        Chain.state,
        Chain.error,
        Chain.failed,
        Chain.count,
        Chain.depth,
        Chain.steps,
        Chain.signatures,
        Chain.anchor,
        Chain.path,
        Chain.candidates,
        Chain.anchors,
        Chain.uncompared,
    ],
    calls=[
        x509_chain_read,
        x509_check_leaf,
        x509_match_host,
        sha256_start,
        sha256_update,
        sha256_finish,
        x509_known_find,
    ],
    saves=[RBX, RBP, R12],
    source="firmware/docs/x509.md#path",
)
def x509_chain_begin(a: Asm, chain: Chain, listed: Reg64, length: Reg32) -> None:
    """Read a list, judge its leaf and its name, and look whether the list is known."""
    kept, leaf = Chain.at(R12), Certificate.at(R12, Chain.certificates.offset)
    refuse, done = a.label("refuse"), a.label("done")
    a.mov(R12, RDI)
    a.mov(RBX, listed)
    a.mov(EBP, length)
    a.xor(EAX, EAX)
    for field in (
        *(kept.error, kept.failed, kept.count, kept.depth, kept.steps, kept.signatures),
        kept.path.m32(),
        kept.anchors.m32(),
    ):  # unrolled: eight fields
        a.mov(field, EAX)
    a.mov(kept.anchor, RAX)
    a.mov(kept.state, ChainState.FAILED)
    a.mov(kept.candidates.m8(), 1)
    a.mov(kept.uncompared, COMPARED_MAX)
    a.call(x509_chain_read)
    a.test(EAX, EAX)
    a.jnz(refuse)
    a.lea(RDI, leaf.der.start)
    a.mov(RAX, kept.now)
    a.call(x509_check_leaf)
    a.test(EAX, EAX)
    a.jnz(refuse)
    a.lea(RDI, leaf.der.start)
    a.mov(RSI, kept.host)
    a.mov(ECX, kept.host_len)
    a.call(x509_match_host)
    with a.if_(NC):
        a.mov(EAX, NAME.code)
        a.jmp(refuse)

    a.lea(RDI, kept.hash.state.address)
    a.call(sha256_start)
    a.lea(RDI, kept.hash.state.address)
    a.mov(RSI, RBX)
    a.mov(ECX, EBP)
    a.call(sha256_update)
    a.lea(RDI, kept.hash.state.address)
    a.lea(RSI, kept.digest.address)
    a.call(sha256_finish)
    a.mov(RDI, R12)
    a.call(x509_known_find)
    a.mov(EAX, ChainState.SEARCH)
    a.mov(ECX, ChainState.DONE)
    a.cmov(C, EAX, ECX)
    a.jmp(done)
    a.place(refuse)
    a.mov(kept.error, EAX)
    a.mov(kept.failed, 0)
    a.xor(EAX, EAX)
    a.place(done)
    a.mov(kept.state, EAX)
    a.ret()
