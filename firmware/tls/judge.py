"""The server's chain: begun with its Certificate, then one signature in a turn (RFC 8446 4.4.2.4)."""

from firmware.abi import CALLER_SAVED
from firmware.cpu.date import date_now
from firmware.errors import Layer
from firmware.layouts.node import CoreState, core
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import MESSAGE_IN, TlsContext
from firmware.layouts.tls_arena import LEAF, TlsArena
from firmware.layouts.tls_pool import TLS_POOL, TlsPool
from firmware.layouts.x509 import X509_VERDICTS, Certificate, Slice
from firmware.layouts.x509_chain import Chain, ChainState
from firmware.tls.hellos import MESSAGE_INPUTS, MESSAGE_OUTPUTS
from firmware.tls.server_flight import tls_read_certificate
from firmware.x509.chain import x509_chain_begin
from firmware.x509.step import x509_chain_step
from firmware.x509.verify import x509_verify_signature
from toolchain.asm import (
    AL,
    CL,
    EAX,
    ECX,
    EDX,
    NE,
    NZ,
    R9D,
    R12,
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
    Reg32,
    Reg64,
    Z,
    mem8,
    routine,
)


@routine(
    inputs=[In(EAX, int, "why a chain does not count: a site of X.509 with its detail")],
    outputs=[
        Out(R9D, "the error of TLS; its detail: number of that site << 8 | low byte of its own")
    ],
    clobbers=[RAX, RCX, RDX],
    reads=[X509_VERDICTS],
    source="firmware/docs/tls.md#certificates",
)
def tls_verdict(a: Asm, reason: Reg32) -> None:
    """Say what a reason of X.509 is for the connection."""
    a.mov(ECX, reason)
    a.shr(ECX, 16)
    a.movzx(ECX, CL)
    a.lea(RDX, X509_VERDICTS.address)
    a.movzx(EDX, mem8(RDX, index=RCX, ref=X509_VERDICTS))
    a.or_(EDX, Layer.TLS << 8)
    a.shl(EDX, 8)
    a.or_(EDX, ECX)
    a.shl(EDX, 8)
    a.movzx(EAX, AL)
    a.or_(EDX, EAX)
    a.mov(R9D, EDX)
    a.ret()


@routine(
    inputs=MESSAGE_INPUTS,
    outputs=MESSAGE_OUTPUTS,
    clobbers=CALLER_SAVED,
    reads=[
        TlsContext.arena_ptr,
        TlsArena.host_len,
        TlsArena.chain_at,
        TlsArena.chain_len,
        TlsPool.trust,
        Chain.error,
        Slice.start,
        Slice.size,
    ],
    writes=[Chain.now, Chain.store, Chain.host, Chain.host_len, Slice.start],
    calls=[tls_read_certificate, date_now, x509_chain_begin, tls_verdict],
    saves=[R12],
    source="RFC 8446 4.4.2; firmware/docs/tls.md#certificates",
)
def tls_on_certificate(a: Asm, shard: ShardContext, body: Reg64, length: Reg32) -> None:
    """Judge the form of Certificate, its leaf and the leaf's name, and begin with its chain."""
    arena, out = TlsArena.at(R12), a.label("out")
    chain, leaf = arena.chain, Certificate.at(R12, LEAF)
    a.call(tls_read_certificate)
    a.test(R9D, R9D)
    a.j(NZ, out)
    a.mov(R12, shard.tls.arena_ptr)
    a.call(date_now)
    a.mov(chain.now, RAX)
    a.mov(RAX, TLS_POOL.it.trust)
    a.mov(chain.store, RAX)
    a.lea(RAX, arena.host.address)
    a.mov(chain.host, RAX)
    a.mov(EAX, arena.host_len)
    a.mov(chain.host_len, EAX)
    a.mov(ECX, arena.chain_at)
    a.lea(RSI, mem8(R12, index=RCX, ref=MESSAGE_IN))
    a.mov(ECX, arena.chain_len)
    a.lea(RDI, chain.now)
    a.call(x509_chain_begin)
    a.test(EAX, EAX)
    with a.if_(Z):
        a.mov(EAX, chain.error)
        a.call(tls_verdict)
        a.ret()
    # CertificateVerify will lie where this message lies now. A leaf that counts has a key of ours.
    a.mov(RSI, leaf.key.value.start)
    a.mov(ECX, leaf.key.value.size)
    a.lea(RDI, arena.leaf_key.address)
    a.mov(leaf.key.value.start, RDI)
    a.rep_movsb()
    a.xor(R9D, R9D)
    a.place(out)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard whose chain is not DONE")],
    outputs=[Out(R9D, "why the chain does not count; 0 = nothing against it so far")],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.arena_ptr, TlsArena.good, Chain.error],
    writes=[TlsArena.good],
    calls=[x509_chain_step, x509_verify_signature, tls_verdict],
    saves=[R12],
    source="firmware/docs/tls.md#certificates",
)
def tls_judge(a: Asm, shard: ShardContext) -> None:
    """Go on with the chain by one signature."""
    arena, asked = TlsArena.at(R12), a.label("asked")
    a.mov(R12, shard.tls.arena_ptr)
    a.mov(EAX, arena.good)
    a.lea(RDI, arena.chain.now)
    a.call(x509_chain_step)
    a.cmp(EAX, ChainState.VERIFY)
    a.j(E, asked)
    a.xor(R9D, R9D)
    a.test(EAX, EAX)
    with a.if_(Z):
        a.mov(EAX, arena.chain.error)
        a.call(tls_verdict)
    a.ret()
    a.place(asked)
    a.lea(RDI, arena.chain.now)
    a.call(x509_verify_signature)
    a.mov(arena.good, EAX)
    a.xor(R9D, R9D)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    outputs=[Out(RAX, "TSC when its handshake next wants to run; all ones = there is none")],
    reads=[
        TlsContext.arena_ptr,
        TlsContext.deadline,
        TlsArena.paused_record,
        CoreState.now,
    ],
    source="firmware/docs/tls.md#certificates",
)
def tls_wakes(a: Asm, shard: ShardContext) -> None:
    """Tell when: at once while a chain is judged, else when the server has said more, or at the end."""
    a.mov(RAX, shard.tls.arena_ptr)
    a.test(RAX, RAX)
    with a.if_(Z):
        a.dec(RAX)
        a.ret()
    a.cmp(TlsArena.at(RAX).paused_record, 0)
    a.mov(RAX, shard.tls.deadline)
    a.cmov(NE, RAX, core.now)
    a.ret()
