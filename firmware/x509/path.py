"""From a leaf to an anchor: depth first, anchors before the peer's certificates (RFC 5280 6.1).

A path is complete before any signature is looked at: those are for `step`.
"""

from firmware.abi import CALLER_SAVED
from firmware.layouts.trust import TRUST, TrustRecord
from firmware.layouts.x509 import BUDGET, PIN, UNKNOWN_ISSUER, Certificate, Slice
from firmware.layouts.x509_chain import ANCHOR, INTERMEDIATES_MAX, STEPS_MAX, Chain, ChainState
from firmware.x509.certificate import x509_same
from firmware.x509.chain import certificate_at, x509_note
from firmware.x509.constraints import x509_constrain
from firmware.x509.pins import x509_check_pins
from firmware.x509.roles import x509_check_anchor, x509_check_issuer
from firmware.x509.trust import x509_anchor_find
from toolchain.asm import (
    CF,
    DX,
    EAX,
    EBP,
    EBX,
    ECX,
    EDX,
    NC,
    NE,
    NS,
    NZ,
    R12,
    R13,
    R13D,
    R14,
    R14D,
    R15,
    R15B,
    R15D,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RSI,
    A,
    Asm,
    C,
    E,
    In,
    Label,
    Out,
    Reg32,
    S,
    Z,
    mem8,
    routine,
)


def _spend(a: Asm, kept: Chain, size: Reg32, used_up: Label) -> None:
    """Take the bytes of a comparison from the budget, or leave when it has no more."""
    a.cmp(kept.uncompared, size)
    a.jb(used_up)
    a.sub(kept.uncompared, size)


@routine(
    inputs=[
        In(RDI, Chain, "the chain"),
        In(RSI, Certificate, "one of its certificates"),
    ],
    outputs=[
        Out(CF, "1 = its subject is on the path with the same key, or `Chain.uncompared` is 0")
    ],
    clobbers=CALLER_SAVED,
    reads=[Chain.path, Chain.depth, Chain.uncompared, Slice.start, Slice.size],
    writes=[Chain.uncompared],
    calls=[x509_same],
    saves=[RBX, R12, R13, R14],
    source="RFC 5280 6.1: a certificate comes once in a path",
)
def x509_on_path(a: Asm, chain: Chain, certificate: Certificate) -> None:
    """Look whether a path would come back to where it was."""
    kept, candidate, other = Chain.at(R12), Certificate.at(R13), Certificate.at(R14)
    used_up, found = a.label("used_up"), a.label("found")
    a.mov(R12, RDI)
    a.mov(R13, RSI)
    a.mov(EBX, kept.depth)
    with a.loop() as each:
        a.mov(ECX, candidate.subject.size)
        a.add(ECX, candidate.spki.size)
        _spend(a, kept, ECX, used_up)
        a.movzx(EAX, kept.path.m8(index=RBX))
        certificate_at(a, R14, R12, RAX)
        with a.block() as different:
            for one, two in (  # unrolled: two parts
                (candidate.subject, other.subject),
                (candidate.spki, other.spki),
            ):
                a.mov(RSI, one.start)
                a.mov(ECX, one.size)
                a.mov(RDI, two.start)
                a.mov(EDX, two.size)
                a.call(x509_same)
                a.leave(NE, different)
            a.jmp(found)
        a.dec(EBX)
        a.again(NS, each)
    a.clc()
    a.ret()
    a.place(used_up)
    a.mov(kept.uncompared, 0)
    a.place(found)
    a.stc()
    a.ret()


@routine(
    inputs=[In(RDI, Chain, "the chain; its path has an anchor")],
    outputs=[
        Out(EAX, "why not, with its detail: a constraint is broken, or the budget; 0 = fine"),
        Out(ECX, "number of that certificate"),
    ],
    clobbers=CALLER_SAVED,
    reads=[
        Chain.depth,
        Chain.path,
        Chain.anchor,
        Chain.uncompared,
        TrustRecord.subject_len,
        TrustRecord.spki_len,
        TrustRecord.constraints_len,
        Slice.start,
        Slice.size,
    ],
    writes=[Chain.uncompared],
    calls=[x509_constrain],
    saves=[RBX, RBP, R12, R13, R14],
    stack=8,
    source="RFC 5280 6.1.3 b and c",
)
def x509_constrain_path(a: Asm, chain: Chain) -> None:
    """Judge the names of each certificate by every CA above it, the anchor included."""
    kept, record, issuer = Chain.at(R12), TrustRecord.at(RAX), Certificate.at(R13)
    refuse = a.label("refuse")
    a.mov(R12, RDI)
    # EBX is the place of who constrains; the anchor's is behind the last.
    a.mov(EBX, kept.depth)
    a.inc(EBX)
    a.mov(RAX, kept.anchor)
    a.mov(R14D, record.subject_len)
    a.mov(ECX, record.spki_len)
    a.add(R14, RCX)
    a.mov(ECX, record.constraints_len)
    a.lea(R14, mem8(RAX, TrustRecord.SIZE, index=R14, ref=TRUST))
    with a.loop() as each:
        a.mov(a.local(4), ECX)
        a.mov(EBP, EBX)
        with a.block() as free:
            a.test(ECX, ECX)
            a.leave(Z, free)
            with a.loop() as below:
                a.dec(EBP)
                a.leave(S, below)
                a.movzx(EAX, kept.path.m8(index=RBP))
                certificate_at(a, RDI, R12, RAX)
                a.mov(RSI, R14)
                a.mov(ECX, a.local(4))
                a.mov(EDX, kept.uncompared)
                a.call(x509_constrain)
                a.mov(kept.uncompared, EDX)
                a.test(EAX, EAX)
                a.jnz(refuse)
                a.jmp(below.top)
        a.dec(EBX)
        a.leave(Z, each)
        a.movzx(EAX, kept.path.m8(index=RBX))
        certificate_at(a, R13, R12, RAX)
        a.mov(R14, issuer.constraints.start)
        a.mov(ECX, issuer.constraints.size)
        a.jmp(each.top)
    a.xor(EAX, EAX)
    a.xor(ECX, ECX)
    a.ret()
    a.place(refuse)
    a.movzx(ECX, kept.path.m8(index=RBP))
    a.or_(EAX, ECX)
    a.ret()


@routine(
    inputs=[In(RDI, Chain, "the chain; the search goes on where it was")],
    outputs=[
        Out(EAX, "ChainState: VERIFY when a path counts, SEARCH when one does not, or FAILED")
    ],
    clobbers=CALLER_SAVED,
    reads=[
        Chain.store,
        Chain.now,
        Chain.count,
        Chain.depth,
        Chain.path,
        Chain.candidates,
        Chain.anchors,
        Chain.steps,
        Chain.uncompared,
        Certificate.error,
        Slice.start,
        Slice.size,
    ],
    writes=[
        Chain.steps,
        Chain.uncompared,
        Chain.depth,
        Chain.path,
        Chain.candidates,
        Chain.anchors,
        Chain.anchor,
        Chain.verifying,
        Chain.state,
    ],
    calls=[
        x509_anchor_find,
        x509_check_anchor,
        x509_constrain_path,
        x509_check_pins,
        x509_note,
        x509_same,
        x509_on_path,
        x509_check_issuer,
    ],
    saves=[RBX, R12, R13, R14, R15],
    source="firmware/docs/x509.md#path",
)
def x509_chain_next(a: Asm, chain: Chain) -> None:
    """Search on until a path is complete: anchors first, then the certificates of the message."""
    kept, subject, issuer = Chain.at(R12), Certificate.at(R14), Certificate.at(RBX)
    look, candidates, back, end = map(a.label, ("look", "candidates", "back", "end"))
    noted, used_up, out_of_budget, failed = map(
        a.label, ("noted", "used_up", "out_of_budget", "failed")
    )
    a.mov(R12, RDI)

    a.place(look)
    a.inc(kept.steps)
    a.cmp(kept.steps, STEPS_MAX)
    a.j(A, out_of_budget)
    a.mov(R13D, kept.depth)
    a.movzx(EAX, kept.path.m8(index=R13))
    certificate_at(a, R14, R12, RAX)

    # An anchor ends the path here.
    a.mov(ECX, subject.issuer.size)
    _spend(a, kept, ECX, used_up)
    a.mov(RDI, kept.store)
    a.mov(RSI, subject.issuer.start)
    a.movzx(EDX, kept.anchors.m16(index=R13, scale=2))
    a.call(x509_anchor_find)
    a.j(C, candidates)
    a.mov(kept.anchors.m16(index=R13, scale=2), DX)
    a.mov(kept.anchor, RAX)
    a.mov(RSI, RAX)
    a.mov(RAX, kept.now)
    a.mov(ECX, R13D)
    a.lea(RDI, kept.anchor_key.kind)
    a.call(x509_check_anchor)
    a.test(EAX, EAX)
    with a.if_(NZ):
        a.mov(ECX, ANCHOR)
        a.or_(EAX, ECX)
        a.jmp(noted)
    a.mov(RDI, R12)
    a.call(x509_constrain_path)
    a.test(EAX, EAX)
    with a.if_(NZ):
        a.place(noted)
        a.mov(RDI, R12)
        a.call(x509_note)
        # Names and pins of a path take long; the next turn goes on.
        a.mov(EAX, ChainState.SEARCH)
        a.jmp(end)
    a.mov(RDI, R12)
    a.call(x509_check_pins)
    with a.if_(C):
        a.mov(EAX, PIN.code)
        a.xor(ECX, ECX)
        a.jmp(noted)
    a.mov(kept.verifying, R13D)
    a.mov(EAX, ChainState.VERIFY)
    a.jmp(end)

    # Else one of the peer's certificates goes on.
    a.place(candidates)
    with a.loop() as each:
        a.movzx(R15D, kept.candidates.m8(index=R13))
        a.cmp(R15D, kept.count)
        a.jae(back)
        a.inc(kept.candidates.m8(index=R13))
        a.mov(EAX, R15D)
        certificate_at(a, RBX, R12, RAX)
        a.cmp(issuer.error, 0)
        a.jne(each.top)
        a.mov(ECX, subject.issuer.size)
        _spend(a, kept, ECX, used_up)
        a.mov(RSI, subject.issuer.start)
        a.mov(RDI, issuer.subject.start)
        a.mov(EDX, issuer.subject.size)
        a.call(x509_same)
        a.jne(each.top)
        a.mov(RDI, R12)
        a.mov(RSI, RBX)
        a.call(x509_on_path)
        with a.if_(C):
            a.cmp(kept.uncompared, 0)
            a.je(out_of_budget)
            a.jmp(each.top)
        with a.block() as wrong:
            a.mov(EAX, BUDGET.code)
            a.cmp(R13D, INTERMEDIATES_MAX)
            a.leave(E, wrong)
            a.mov(RDI, RBX)
            a.mov(RAX, kept.now)
            a.mov(ECX, R13D)
            a.call(x509_check_issuer)
            a.test(EAX, EAX)
            a.leave(Z, each)
        a.or_(EAX, R15D)
        a.mov(ECX, R15D)
        a.mov(RDI, R12)
        a.call(x509_note)
        a.jmp(each.top)
    a.inc(R13D)
    a.mov(kept.depth, R13D)
    a.mov(kept.path.m8(index=R13), R15B)
    a.mov(kept.candidates.m8(index=R13), 1)
    a.mov(kept.anchors.m16(index=R13, scale=2), 0)
    a.jmp(look)

    # Nobody else: another issuer of the one before.
    a.place(back)
    a.sub(kept.depth, 1)
    a.j(NC, look)
    a.mov(EAX, UNKNOWN_ISSUER.code)
    a.jmp(failed)
    a.place(used_up)
    a.mov(kept.uncompared, 0)
    a.place(out_of_budget)
    a.mov(EAX, BUDGET.code)
    a.place(failed)
    a.mov(RDI, R12)
    a.xor(ECX, ECX)
    a.call(x509_note)
    a.xor(EAX, EAX)
    a.place(end)
    a.mov(kept.state, EAX)
    a.ret()
