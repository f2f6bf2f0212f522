"""The signatures of a complete path, one after the other, from the anchor downwards.

Each takes long, so the caller verifies it, and a turn may end in between. A wrong one sends the search
of `path` on.
"""

from firmware.abi import CALLER_SAVED
from firmware.layouts.x509 import ALGORITHM, BUDGET, SIGNATURE, Certificate, SignatureAlgorithm
from firmware.layouts.x509_chain import SIGNATURES_MAX, Chain, ChainState
from firmware.x509.chain import certificate_at, x509_known_keep, x509_note
from firmware.x509.path import x509_chain_next
from toolchain.asm import (
    EAX,
    ECX,
    EDX,
    ESI,
    NC,
    NE,
    R12,
    R13,
    R13D,
    R14,
    RAX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    In,
    Out,
    Reg32,
    routine,
)


@routine(
    inputs=[
        In(RDI, Chain, "the chain"),
        In(EAX, int, "1 = the signature that was asked for is good; else it is wrong"),
    ],
    outputs=[
        Out(EAX, "ChainState; SEARCH = call again, VERIFY = with the verdict on a signature"),
        Out(RSI, "when VERIFY: the PublicKey that must have signed; else 0"),
        Out(RDX, "when VERIFY: the Certificate that it must have signed; else 0"),
    ],
    clobbers=CALLER_SAVED,
    reads=[
        Chain.state,
        Chain.depth,
        Chain.path,
        Chain.verifying,
        Chain.signatures,
        Certificate.signature_algorithm,
    ],
    writes=[Chain.state, Chain.verifying, Chain.signatures],
    calls=[x509_chain_next, x509_known_keep, x509_note],
    saves=[R12, R13, R14],
    source="firmware/docs/x509.md#path",
)
def x509_chain_step(a: Asm, chain: Chain, good: Reg32) -> None:
    """Go on to the next signature that must be verified, to the anchor's end, or to a reason."""
    kept = Chain.at(R12)
    search, ask, wrong, nothing, budget = map(
        a.label, ("search", "ask", "wrong", "nothing", "budget")
    )
    a.mov(R12, RDI)
    a.cmp(kept.state, ChainState.SEARCH)
    a.je(search)
    a.cmp(kept.state, ChainState.VERIFY)
    a.jne(nothing)
    a.cmp(good, 1)
    with a.if_(NE):
        a.mov(EDX, SIGNATURE.code)
        a.jmp(wrong)
    a.sub(kept.verifying, 1)
    a.j(NC, ask)
    a.mov(kept.state, ChainState.DONE)
    a.mov(RDI, R12)
    a.call(x509_known_keep)
    a.jmp(nothing)

    a.place(wrong)
    a.mov(ECX, kept.verifying)
    a.movzx(ECX, kept.path.m8(index=RCX))
    a.mov(EAX, EDX)
    a.or_(EAX, ECX)
    a.mov(RDI, R12)
    a.call(x509_note)
    a.place(search)
    a.mov(RDI, R12)
    a.call(x509_chain_next)
    a.cmp(EAX, ChainState.VERIFY)
    a.jne(nothing)

    # Who signed stands one place further up.
    a.place(ask)
    a.mov(R13D, kept.verifying)
    a.movzx(EAX, kept.path.m8(index=R13))
    certificate_at(a, R14, R12, RAX)
    a.mov(EDX, ALGORITHM.code)
    a.cmp(Certificate.at(R14).signature_algorithm, SignatureAlgorithm.UNSUPPORTED)
    a.je(wrong)
    a.cmp(kept.signatures, SIGNATURES_MAX)
    a.je(budget)
    a.inc(kept.signatures)
    a.lea(RSI, kept.anchor_key.kind)
    a.cmp(R13D, kept.depth)
    with a.if_(NE):
        a.movzx(EAX, kept.path.m8(1, index=R13))
        certificate_at(a, RSI, R12, RAX)
        a.add(RSI, Certificate.key.offset)
    a.mov(RDX, R14)
    a.mov(EAX, ChainState.VERIFY)
    a.ret()

    a.place(budget)
    a.mov(RDI, R12)
    a.mov(EAX, BUDGET.code)
    a.xor(ECX, ECX)
    a.call(x509_note)
    a.mov(kept.state, ChainState.FAILED)
    a.place(nothing)
    a.mov(EAX, kept.state)
    a.xor(ESI, ESI)
    a.xor(EDX, EDX)
    a.ret()
