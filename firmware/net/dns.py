"""The DNS client: names to addresses, cached by TTL, asked again until they answer (RFC 1035)."""

from firmware.abi import CALLER_SAVED
from firmware.crypto.drbg import drbg_u64
from firmware.layouts.dns import (
    CLASS_IN,
    DNS,
    DNS_ENTRIES,
    DNS_FAILED_MS,
    DNS_NAME_MAX,
    DNS_PORT,
    DNS_RETRY_MS,
    DNS_TRIES,
    MESSAGE,
    NAME,
    TYPE_A,
    Dns,
    DnsEntry,
    DnsHeader,
    DnsState,
)
from firmware.layouts.net import FIRST_PORT
from firmware.layouts.node import CLOCK, NETWORK, Clock, CoreState, Network, core
from firmware.net.dns_message import dns_settle
from firmware.net.dns_name import dns_parse_quad
from firmware.net.udp import udp_begin, udp_finish
from toolchain.asm import (
    AE,
    AL,
    AX,
    CF,
    DL,
    EAX,
    ECX,
    EDI,
    EDX,
    NC,
    NE,
    NZ,
    R8,
    R8D,
    R9D,
    R12,
    R12D,
    R13,
    R13D,
    R14,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    B,
    C,
    E,
    In,
    Out,
    Reg32,
    Reg64,
    Z,
    mem8,
    mem32,
    routine,
)

RECURSION_DESIRED = 0x0001
"""Flags of a question, as on the wire: 0x0100."""
FOUND, PENDING, FAILED = 0, 1, 2


@routine(
    inputs=[In(RSI, int, "name"), In(ECX, int, "its bytes; 1..DNS_NAME_MAX")],
    outputs=[Out(CF, "1 = not in the cache"), Out(RDI, "its DnsEntry")],
    clobbers=[RAX, RCX, RDX, R8],
    reads=[DnsEntry.state, DnsEntry.name, DnsEntry.name_len, NAME],
    source="firmware/docs/network.md#dns",
)
def dns_find(a: Asm, name: Reg64, length: Reg32) -> None:
    """Look a name up in the cache."""
    entry, found = DnsEntry.at(RDI), a.label("found")
    a.mov(R8D, length)
    a.lea(RDI, DNS.it.entries.address)
    a.mov(EDX, DNS_ENTRIES)
    with a.loop() as top:
        with a.block() as other:
            a.cmp(entry.state, DnsState.EMPTY)
            a.leave(E, other)
            a.cmp(entry.name_len, R8D)
            a.leave(NE, other)
            # Names come from the configuration or from READY, byte for byte the same each time.
            a.mov(ECX, R8D)
            with a.loop() as byte:
                a.mov(AL, mem8(RSI, -1, index=RCX, ref=NAME))
                a.cmp(AL, DnsEntry.at(RDI, -1, index=RCX).name.m8())
                a.leave(NE, other)
                a.dec(ECX)
                a.again(NZ, byte)
            a.jmp(found)
        a.add(RDI, DnsEntry.SIZE)
        a.dec(EDX)
        a.again(NZ, top)
    a.xor(EDI, EDI)
    a.stc()
    a.ret()
    a.place(found)
    a.clc()
    a.ret()


@routine(
    outputs=[Out(CF, "1 = every entry waits for an answer"), Out(RDI, "an entry to use")],
    clobbers=[RAX, RCX, RDX],
    reads=[DnsEntry.state, Dns.next_victim],
    writes=[Dns.next_victim],
    source="firmware/docs/network.md#dns",
)
def dns_take(a: Asm) -> None:
    """Give up an entry that nobody waits for, in turn."""
    entry, found = DnsEntry.at(RDI), a.label("found")
    a.mov(ECX, DNS_ENTRIES)
    with a.loop() as top:
        a.mov(EAX, DNS.it.next_victim)
        a.inc(DNS.it.next_victim)
        a.and_(EAX, DNS_ENTRIES - 1)
        a.imul(EAX, EAX, DnsEntry.SIZE)
        a.lea(RDX, DNS.it.entries.address)
        a.lea(RDI, mem8(RDX, index=RAX, ref=NAME))
        a.cmp(entry.state, DnsState.PENDING)
        a.j(NE, found)
        a.dec(ECX)
        a.again(NZ, top)
    a.xor(EDI, EDI)
    a.stc()
    a.ret()
    a.place(found)
    a.clc()
    a.ret()


@routine(
    inputs=[In(RBX, DnsEntry, "the name to ask for")],
    clobbers=CALLER_SAVED,
    reads=[
        Network.dns1,
        Network.dns2,
        Clock.tsc_cycles_per_ms,
        CoreState.now,
        DnsEntry.tries,
        DnsEntry.name,
        DnsEntry.name_len,
        DnsEntry.id,
        DnsEntry.server,
        DnsEntry.port,
    ],
    writes=[
        MESSAGE,
        DnsEntry.state,
        DnsEntry.tries,
        DnsEntry.server,
        DnsEntry.id,
        DnsEntry.port,
        DnsEntry.retry_at,
        DnsHeader.id,
        DnsHeader.flags,
        DnsHeader.questions,
        DnsHeader.answers,
        DnsHeader.authorities,
        DnsHeader.additionals,
    ],
    calls=[drbg_u64, udp_begin, udp_finish],
    source="RFC 1035 4.1.2, RFC 5452 9.2",
)
def dns_ask(a: Asm, entry: DnsEntry) -> None:
    """Send one question to the next server with a fresh id and port."""
    header = DnsHeader.at(RDI)
    # Servers take turns: a dead first one costs one retry.
    a.mov(EAX, NETWORK.it.dns1)
    a.mov(EDX, NETWORK.it.dns2)
    a.test(EAX, EAX)
    a.cmov(Z, EAX, EDX)
    a.test(EDX, EDX)
    a.cmov(Z, EDX, EAX)
    a.test(entry.tries, 1)
    a.cmov(Z, EDX, EAX)
    a.mov(entry.server, EDX)
    a.inc(entry.tries)
    a.mov(entry.state, DnsState.PENDING)
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, DNS_RETRY_MS)
    a.add(RAX, core.now)
    a.mov(entry.retry_at, RAX)
    a.call(drbg_u64)
    a.mov(entry.id, AX)
    a.shr(RAX, 32)
    a.or_(EAX, FIRST_PORT)
    a.mov(entry.port, AX)
    a.mov(EDX, entry.server)
    a.call(udp_begin)
    with a.if_(C):
        a.ret()  # no frame or no neighbour yet; the retry asks again

    a.mov(AX, entry.id)
    a.mov(header.id, AX)
    a.mov(header.flags, RECURSION_DESIRED)
    a.mov(header.questions, 1 << 8)
    a.mov(header.answers, 0)
    a.mov(header.authorities, 0)
    a.mov(header.additionals, 0)
    # Labels are written backwards: each dot becomes the length of what follows it.
    a.mov(ECX, entry.name_len)
    a.lea(RSI, mem8(RDI, DnsHeader.SIZE, ref=MESSAGE))
    a.xor(EDX, EDX)
    a.mov(mem8(RSI, 1, index=RCX, ref=MESSAGE), DL)
    a.mov(mem32(RSI, 2, index=RCX, ref=MESSAGE), TYPE_A << 8 | CLASS_IN << 24)
    with a.loop() as top:
        a.mov(AL, DnsEntry.at(RBX, -1, index=RCX).name.m8())
        a.cmp(AL, ord("."))
        with a.if_(E):
            a.mov(EAX, EDX)
            a.or_(EDX, -1)
        a.inc(EDX)
        a.mov(mem8(RSI, index=RCX, ref=MESSAGE), AL)
        a.dec(ECX)
        a.again(NZ, top)
    a.mov(mem8(RSI, ref=MESSAGE), DL)

    a.mov(ECX, entry.name_len)
    a.add(ECX, DnsHeader.SIZE + 6)
    a.mov(EDX, entry.server)
    a.movzx(R8D, entry.port)
    a.mov(R9D, DNS_PORT)
    a.call(udp_finish)
    a.ret()


@routine(
    inputs=[In(RSI, int, "name or dotted quad"), In(ECX, int, "its bytes")],
    outputs=[
        Out(EAX, "0 = found, 1 = pending, 2 = failed"),
        Out(EDX, "the address, as on the wire, when found"),
    ],
    clobbers=CALLER_SAVED,
    reads=[
        NAME,
        DnsEntry.state,
        DnsEntry.expires,
        DnsEntry.address,
        CoreState.now,
        Network.dns1,
        Network.dns2,
    ],
    writes=[DnsEntry.name, DnsEntry.name_len, DnsEntry.tries],
    calls=[dns_parse_quad, dns_find, dns_take, dns_ask],
    saves=[RBX, R12, R13],
    source="firmware/docs/network.md#dns",
)
def dns_resolve(a: Asm, name: Reg64, length: Reg32) -> None:
    """Give a name's address; when it is not known or has run out, ask and say so."""
    text, size = R12, R13D
    ask, pending, failed, found = (
        a.label("ask"), a.label("pending"), a.label("failed"), a.label("found")
    )  # fmt: skip
    entry = DnsEntry.at(RBX)
    a.mov(text, name)
    a.mov(size, length)
    a.call(dns_parse_quad)
    with a.if_(NC):
        a.mov(EDX, EAX)
        a.xor(EAX, EAX)
        a.ret()
    a.lea(EAX, mem8(R13, -1, ref=NAME))
    a.cmp(EAX, DNS_NAME_MAX)
    a.j(AE, failed)
    a.mov(EAX, NETWORK.it.dns1)
    a.or_(EAX, NETWORK.it.dns2)
    a.jz(failed)

    a.mov(RSI, text)
    a.mov(ECX, size)
    a.call(dns_find)
    with a.if_(NC):
        a.mov(RBX, RDI)
        a.cmp(entry.state, DnsState.PENDING)
        a.j(E, pending)
        # An answer and a failure both count for their time; then the name is asked for anew.
        a.mov(RAX, core.now)
        a.cmp(RAX, entry.expires)
        a.j(AE, ask)
        a.cmp(entry.state, DnsState.FOUND)
        a.j(E, found)
        a.jmp(failed)
    a.call(dns_take)
    a.j(C, pending)
    a.mov(RBX, RDI)
    a.mov(entry.name_len, size)
    a.lea(RDI, entry.name.address)
    a.mov(RSI, text)
    a.mov(ECX, size)
    a.rep_movsb()
    a.place(ask)
    a.mov(entry.tries, 0)
    a.call(dns_ask)
    a.place(pending)
    a.mov(EAX, PENDING)
    a.xor(EDX, EDX)
    a.ret()
    a.place(found)
    a.xor(EAX, EAX)
    a.mov(EDX, entry.address)
    a.ret()
    a.place(failed)
    a.mov(EAX, FAILED)
    a.xor(EDX, EDX)
    a.ret()


@routine(
    outputs=[Out(RAX, "TSC of the next retry; all ones = none")],
    clobbers=CALLER_SAVED,
    reads=[DnsEntry.state, DnsEntry.retry_at, DnsEntry.tries, CoreState.now],
    calls=[dns_ask, dns_settle],
    saves=[RBX, R12, R14],
    source="RFC 1035 7.1",
)
def dns_tick(a: Asm) -> None:
    """Ask again what nobody answered; give a name up after DNS_TRIES questions."""
    entry = DnsEntry.at(RBX)
    a.lea(RBX, DNS.it.entries.address)
    a.mov(R12D, DNS_ENTRIES)
    a.mov(R14, -1)
    with a.loop() as top:
        with a.block() as other:
            a.cmp(entry.state, DnsState.PENDING)
            a.leave(NE, other)
            a.mov(RAX, core.now)
            a.cmp(RAX, entry.retry_at)
            with a.if_(AE):
                a.cmp(entry.tries, DNS_TRIES)
                with a.if_(AE):
                    a.mov(RDI, RBX)
                    a.mov(EAX, DnsState.FAILED)
                    a.mov(EDX, DNS_FAILED_MS)
                    a.call(dns_settle)
                    a.jmp(other)
                a.call(dns_ask)
            a.mov(RAX, entry.retry_at)
            a.cmp(RAX, R14)
            a.cmov(B, R14, RAX)
        a.add(RBX, DnsEntry.SIZE)
        a.dec(R12D)
        a.again(NZ, top)
    a.mov(RAX, R14)
    a.ret()
