"""Reading a DNS answer: matched to its question, every offset checked, chains bounded."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.dns import (
    CLASS_IN,
    DNS,
    DNS_ANSWERS_MAX,
    DNS_ENTRIES,
    DNS_FAILED_MS,
    DNS_PASSES_MAX,
    DNS_PORT,
    DNS_TTL_MAX_S,
    DNS_TTL_MIN_S,
    MESSAGE,
    RCODE_NAME_ERROR,
    TYPE_A,
    TYPE_CNAME,
    Dns,
    DnsEntry,
    DnsHeader,
    DnsState,
)
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.net.dns_name import dns_expand, dns_same_name
from toolchain.asm import (
    AX,
    BP,
    CF,
    EAX,
    EBP,
    EBX,
    ECX,
    EDI,
    EDX,
    NE,
    NZ,
    R8D,
    R9D,
    R9W,
    R12,
    R13,
    R13D,
    R14,
    R14D,
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
    B,
    C,
    E,
    In,
    Out,
    Reg32,
    Reg64,
    S,
    Z,
    mem8,
    mem16,
    mem32,
    routine,
)

HEADER = DnsHeader.SIZE
RECORD_FIXED = 10
"""Type, class, TTL and length behind a record's name (RFC 1035 4.1.3)."""
RESPONSE, RESPONSE_MASK, RCODE_MASK = 0x8000, 0xF800, 0x000F
"""QR = 1 with opcode 0 (RFC 1035 4.1.1)."""


@routine(
    inputs=[
        In(EDX, int, "source address, as on the wire"),
        In(R8D, int, "source port"),
        In(R9D, int, "destination port"),
        In(EAX, int, "message id, as on the wire"),
    ],
    outputs=[Out(CF, "1 = nobody asked this"), Out(RDI, "the DnsEntry whose question it answers")],
    clobbers=[RCX],
    reads=[DnsEntry.state, DnsEntry.port, DnsEntry.id, DnsEntry.server],
    source="RFC 5452 9.1",
)
def dns_match(a: Asm, source: Reg32, port: Reg32, own_port: Reg32, id_: Reg32) -> None:
    """Find the pending question by server, both ports and id."""
    found, none = a.label("found"), a.label("none")
    entry = DnsEntry.at(RDI)
    a.cmp(port, DNS_PORT)
    a.j(NE, none)
    a.lea(RDI, DNS.it.entries.address)
    a.mov(ECX, DNS_ENTRIES)
    with a.loop() as top:
        with a.block() as other:
            a.cmp(entry.state, DnsState.PENDING)
            a.leave(NE, other)
            a.cmp(entry.server, source)
            a.leave(NE, other)
            a.cmp(entry.port, R9W)
            a.leave(NE, other)
            a.cmp(entry.id, AX)
            a.j(E, found)
        a.add(RDI, DnsEntry.SIZE)
        a.dec(ECX)
        a.again(NZ, top)
    a.place(none)
    a.xor(EDI, EDI)
    a.stc()
    a.ret()
    a.place(found)
    a.clc()
    a.ret()


@routine(
    inputs=[
        In(RSI, int, "the message"),
        In(ECX, int, "its bytes"),
        In(EDX, int, "where the records start"),
        In(R8D, int, "records; at most DNS_ANSWERS_MAX"),
    ],
    outputs=[
        Out(
            EAX,
            "0 = the address is in ECX, 1 = another name is wanted now, 2 = nothing, 3 = malformed",
        ),
        Out(ECX, "the address, as on the wire"),
    ],
    clobbers=CALLER_SAVED,
    reads=[MESSAGE, Dns.target_len, Dns.owner_len, Dns.ttl],
    writes=[Dns.target_len, Dns.owner_len, Dns.ttl],
    calls=[dns_expand, dns_same_name],
    saves=[RBX, RBP, R12, R13, R14, R15],
    source="RFC 1035 4.1.3, RFC 2181 8",
)
def dns_walk(a: Asm, message: Reg64, length: Reg32, start: Reg32, count: Reg32) -> None:
    """Look through the records once for the wanted name: its address, or its other name."""
    base, size, here, left, behind = R12, R13D, R14D, R15D, EBP
    bad, nothing, done = a.label("bad"), a.label("nothing"), a.label("done")
    a.mov(base, message)
    a.mov(size, length)
    a.mov(here, start)
    a.mov(left, count)
    with a.loop() as top:
        a.test(left, left)
        a.j(Z, nothing)
        a.dec(left)
        a.mov(RSI, base)
        a.mov(ECX, size)
        a.mov(EDX, here)
        a.lea(RDI, DNS.it.owner.address)
        a.call(dns_expand)
        a.j(C, bad)
        a.mov(DNS.it.owner_len, EAX)
        # The fixed part and the data must lie inside the message.
        a.mov(here, EDX)
        a.lea(EAX, mem8(RDX, RECORD_FIXED, ref=MESSAGE))
        a.cmp(EAX, size)
        a.j(A, bad)
        a.movzx(EBP, mem16(R12, 8, index=R14, ref=MESSAGE))
        a.rol(BP, 8)
        a.add(behind, EAX)
        a.cmp(behind, size)
        a.j(A, bad)
        with a.block() as skip:
            a.movzx(EAX, mem16(R12, 2, index=R14, ref=MESSAGE))
            a.cmp(EAX, CLASS_IN << 8)
            a.leave(NE, skip)
            a.lea(RSI, DNS.it.target.address)
            a.mov(ECX, DNS.it.target_len)
            a.lea(RDI, DNS.it.owner.address)
            a.mov(EDX, DNS.it.owner_len)
            a.call(dns_same_name)
            a.leave(NZ, skip)
            a.movzx(EBX, mem16(R12, 0, index=R14, ref=MESSAGE))
            # A TTL with the top bit set counts as zero (RFC 2181 8).
            a.mov(EAX, mem32(R12, 4, index=R14, ref=MESSAGE))
            a.bswap(EAX)
            a.xor(ECX, ECX)
            a.test(EAX, EAX)
            a.cmov(S, EAX, ECX)
            with a.block() as not_address:
                a.cmp(EBX, TYPE_A << 8)
                a.leave(NE, not_address)
                a.lea(ECX, mem8(R14, RECORD_FIXED + 4, ref=MESSAGE))
                a.cmp(ECX, behind)
                a.leave(NE, skip)
                _lower_ttl(a)
                a.mov(ECX, mem32(R12, RECORD_FIXED, index=R14, ref=MESSAGE))
                a.xor(EAX, EAX)
                a.ret()
            a.cmp(EBX, TYPE_CNAME << 8)
            a.leave(NE, skip)
            _lower_ttl(a)
            a.mov(RSI, base)
            a.mov(ECX, size)
            a.lea(EDX, mem8(R14, RECORD_FIXED, ref=MESSAGE))
            a.lea(RDI, DNS.it.target.address)
            a.call(dns_expand)
            a.j(C, bad)
            a.mov(DNS.it.target_len, EAX)
            a.mov(EAX, 1)
            a.jmp(done)
        a.mov(here, behind)
        a.jmp(top.top)
    a.place(nothing)
    a.mov(EAX, 2)
    a.jmp(done)
    a.place(bad)
    a.mov(EAX, 3)
    a.place(done)
    a.xor(ECX, ECX)
    a.ret()


def _lower_ttl(a: Asm) -> None:
    """Keep the smallest TTL of the chain; EAX is this record's."""
    a.cmp(EAX, DNS.it.ttl)
    with a.if_(B):
        a.mov(DNS.it.ttl, EAX)


@routine(
    inputs=[
        In(RDI, DnsEntry, "the name"),
        In(EAX, int, "DnsState: FOUND or FAILED"),
        In(RDX, int, "how long that counts; milliseconds"),
    ],
    clobbers=[RDX],
    reads=[Clock.tsc_cycles_per_ms, CoreState.now],
    writes=[DnsEntry.state, DnsEntry.expires],
    source="RFC 2308 5",
)
def dns_settle(a: Asm, entry: DnsEntry, state: Reg32, duration: Reg64) -> None:
    """End a question: with an address for its TTL, or with a failure for a moment."""
    a.mov(entry.state, state)
    a.imul(RDX, CLOCK.it.tsc_cycles_per_ms)
    a.add(RDX, core.now)
    a.mov(entry.expires, RDX)
    a.ret()


@routine(
    inputs=[
        In(RSI, int, "UDP payload"),
        In(ECX, int, "its bytes"),
        In(EDX, int, "source address, as on the wire"),
        In(R8D, int, "source port"),
        In(R9D, int, "destination port"),
    ],
    clobbers=CALLER_SAVED,
    reads=[
        MESSAGE,
        DnsHeader.id,
        DnsHeader.flags,
        DnsHeader.questions,
        DnsHeader.answers,
        DnsEntry.name,
        DnsEntry.name_len,
        Dns.target_len,
        Dns.ttl,
        CoreState.now,
    ],
    writes=[
        Dns.strays,
        Dns.refused,
        Dns.answers,
        Dns.ttl,
        Dns.target_len,
        DnsEntry.address,
        DnsEntry.retry_at,
    ],
    calls=[dns_match, dns_expand, dns_same_name, dns_walk, dns_settle],
    saves=[RBX, RBP, R12, R13, R14, R15],
    source="RFC 1035 7.3, RFC 5452",
)
def dns_input(
    a: Asm, message: Reg64, length: Reg32, source: Reg32, port: Reg32, own_port: Reg32
) -> None:
    """Take an answer: believe it only when it fits a question that was asked."""
    stray, refused, other, failed = (
        a.label("stray"), a.label("refused"), a.label("other"), a.label("failed")
    )  # fmt: skip
    found = a.label("found")
    header, entry = DnsHeader.at(R12), DnsEntry.at(RBX)
    size, records, passes = R13D, R14D, R15D
    a.mov(R12, message)
    a.mov(size, length)
    a.cmp(size, HEADER)
    a.j(B, stray)
    a.movzx(EAX, header.id)
    a.call(dns_match)
    a.j(C, stray)
    a.mov(RBX, RDI)

    # The question must come back as it was asked.
    a.movzx(EBP, header.flags)
    a.rol(BP, 8)
    a.mov(EAX, EBP)
    a.and_(EAX, RESPONSE_MASK)
    a.cmp(EAX, RESPONSE)
    a.j(NE, refused)
    a.cmp(header.questions, 1 << 8)
    a.j(NE, refused)
    a.mov(RSI, R12)
    a.mov(ECX, size)
    a.mov(EDX, HEADER)
    a.lea(RDI, DNS.it.target.address)
    a.call(dns_expand)
    a.j(C, refused)
    a.mov(DNS.it.target_len, EAX)
    a.lea(records, mem8(RDX, 4, ref=MESSAGE))
    a.cmp(records, size)
    a.j(A, refused)
    a.cmp(mem32(R12, 0, index=RDX, ref=MESSAGE), TYPE_A << 8 | CLASS_IN << 24)
    a.j(NE, refused)
    a.lea(RSI, DNS.it.target.address)
    a.mov(ECX, EAX)
    a.lea(RDI, entry.name.address)
    a.mov(EDX, entry.name_len)
    a.call(dns_same_name)
    a.j(NZ, refused)
    a.inc(DNS.it.answers)

    # A name that does not exist has failed; any other refusal asks the next server.
    a.and_(EBP, RCODE_MASK)
    a.cmp(EBP, RCODE_NAME_ERROR)
    a.j(E, failed)
    a.test(EBP, EBP)
    a.jnz(other)
    a.movzx(EBP, header.answers)
    a.rol(BP, 8)
    a.cmp(EBP, DNS_ANSWERS_MAX)
    with a.if_(A):
        a.mov(EBP, DNS_ANSWERS_MAX)
    a.mov(DNS.it.ttl, 0xFFFF_FFFF)
    a.mov(passes, DNS_PASSES_MAX)
    with a.loop() as top:
        a.mov(RSI, R12)
        a.mov(ECX, size)
        a.mov(EDX, records)
        a.mov(R8D, EBP)
        a.call(dns_walk)
        a.test(EAX, EAX)
        a.jz(found)
        a.cmp(EAX, 1)
        a.leave(NE, top)
        a.dec(passes)
        a.again(NZ, top)
    a.cmp(EAX, 3)
    a.j(E, refused)
    a.place(failed)
    a.mov(RDI, RBX)
    a.mov(EAX, DnsState.FAILED)
    a.mov(EDX, DNS_FAILED_MS)
    a.jmp(dns_settle)

    a.place(found)
    a.mov(entry.address, ECX)
    a.mov(EDX, DNS.it.ttl)
    a.mov(ECX, DNS_TTL_MIN_S)
    a.cmp(EDX, ECX)
    a.cmov(B, EDX, ECX)
    a.mov(ECX, DNS_TTL_MAX_S)
    a.cmp(EDX, ECX)
    a.cmov(A, EDX, ECX)
    a.imul(EDX, EDX, 1000)
    a.mov(RDI, RBX)
    a.mov(EAX, DnsState.FOUND)
    a.jmp(dns_settle)

    a.place(other)
    a.mov(RAX, core.now)
    a.mov(entry.retry_at, RAX)
    a.ret()
    a.place(refused)
    a.inc(DNS.it.refused)
    a.ret()
    a.place(stray)
    a.inc(DNS.it.strays)
    a.ret()
