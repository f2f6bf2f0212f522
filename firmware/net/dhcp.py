"""The DHCP client: answers and timers. It asks for ever, and changes nothing for strangers."""

from firmware.abi import CALLER_SAVED
from firmware.crypto.drbg import drbg_u64
from firmware.layouts.clock import NEVER, SECOND_MS
from firmware.layouts.net import (
    DHCP,
    DHCP_BACKOFF_MAX,
    DHCP_OPTIONS,
    DHCP_TRIES,
    NET,
    RENEW_MIN_MS,
    SUMS,
    Dhcp,
    DhcpMessage,
    DhcpOptions,
    DhcpState,
    DhcpType,
    NetCounters,
)
from firmware.layouts.node import CLOCK, NETWORK, Clock, CoreState, Network, core
from firmware.net.arp import cycles
from firmware.net.dhcp_lease import dhcp_adopt, dhcp_enter, dhcp_lose
from firmware.net.dhcp_options import dhcp_parse
from firmware.net.dhcp_send import dhcp_send
from firmware.net.ip import LOOPBACK, MULTICAST
from toolchain.asm import (
    AE,
    CL,
    DL,
    EAX,
    ECX,
    EDX,
    RAX,
    RBX,
    RCX,
    RDX,
    RSI,
    Asm,
    B,
    E,
    In,
    Label,
    Out,
    Reg8,
    Reg32,
    Z,
    mem8,
    routine,
)


def first_byte_of_host(a: Asm, ip: Reg8, no: Label) -> None:
    """Go to `no` unless the first byte of an address is a host's."""
    a.test(ip, ip)
    a.jz(no)
    a.cmp(ip, LOOPBACK)
    a.je(no)
    a.cmp(ip, MULTICAST)
    a.jae(no)


@routine(
    inputs=[In(RSI, DhcpMessage, "UDP payload from port 67"), In(ECX, int, "its bytes")],
    clobbers=CALLER_SAVED,
    reads=[
        Dhcp.state,
        Dhcp.xid,
        Dhcp.offered,
        Dhcp.server,
        DhcpMessage.xid,
        DhcpMessage.yiaddr,
        DhcpOptions,
        Network.ip,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[
        Dhcp.offered,
        Dhcp.server,
        Dhcp.state,
        Dhcp.attempt,
        Dhcp.next_at,
        Dhcp.naks,
        NetCounters.dhcp_bad,
        NetCounters.dhcp_others,
    ],
    calls=[dhcp_parse, dhcp_adopt, dhcp_lose],
    saves=[RBX],
    source="RFC 2131 sections 3.1, 4.3 and 4.4",
)
def dhcp_input(a: Asm, message: DhcpMessage, length: Reg32) -> None:
    """Act on an answer that belongs to the running exchange; others are counted."""
    kept, dhcp, found = DhcpMessage.at(RBX), DHCP.it, DHCP_OPTIONS.it
    other, ack, nak, expected = (
        a.label("other"),
        a.label("ack"),
        a.label("nak"),
        a.label("expected"),
    )
    a.mov(RBX, RSI)
    a.call(dhcp_parse)
    with a.if_(B):
        a.inc(NET.it.counters.dhcp_bad)
        a.ret()
    a.mov(EAX, kept.xid)
    a.cmp(EAX, dhcp.xid)
    a.jne(other)
    a.mov(ECX, dhcp.state)
    a.mov(EDX, kept.yiaddr)
    a.cmp(found.type, DhcpType.ACK)
    a.je(ack)
    a.cmp(found.type, DhcpType.NAK)
    a.je(nak)
    a.cmp(found.type, DhcpType.OFFER)
    a.jne(other)

    # The first OFFER with an address and a server is the chosen one.
    a.cmp(ECX, DhcpState.SELECTING)
    a.jne(other)
    first_byte_of_host(a, DL, other)
    a.mov(EAX, found.server)
    a.test(EAX, EAX)
    a.jz(other)
    a.mov(dhcp.offered, EDX)
    a.mov(dhcp.server, EAX)
    a.mov(dhcp.state, DhcpState.REQUESTING)
    a.mov(dhcp.attempt, 0)
    a.xor(EAX, EAX)
    a.mov(dhcp.next_at, RAX)  # at once
    a.ret()

    # An ACK counts for the address that was asked for; not from another server while one is chosen.
    a.place(ack)
    a.mov(EAX, dhcp.offered)
    a.cmp(ECX, DhcpState.REQUESTING)
    a.je(expected)
    a.cmp(ECX, DhcpState.RENEWING)
    a.jb(other)
    a.mov(EAX, NETWORK.it.ip)
    a.place(expected)
    a.cmp(EDX, EAX)
    a.jne(other)
    with a.block() as ours:
        a.cmp(ECX, DhcpState.REBINDING)
        a.leave(E, ours)
        a.mov(EAX, found.server)
        a.test(EAX, EAX)
        a.leave(Z, ours)
        a.cmp(EAX, dhcp.server)
        a.jne(other)
    a.mov(RSI, RBX)
    a.call(dhcp_adopt)
    a.ret()

    # A NAK must come from the chosen server; when rebinding, any server may say no.
    a.place(nak)
    with a.block() as refused:
        a.cmp(ECX, DhcpState.REBINDING)
        a.leave(E, refused)
        a.mov(EAX, found.server)
        a.cmp(EAX, dhcp.server)
        a.jne(other)
        a.cmp(ECX, DhcpState.REQUESTING)
        a.leave(E, refused)
        a.cmp(ECX, DhcpState.RENEWING)
        a.jne(other)
    a.inc(dhcp.naks)
    a.call(dhcp_lose)
    _later(a, SECOND_MS)  # a server that offers and refuses is not asked without pause
    a.ret()
    a.place(other)
    a.inc(NET.it.counters.dhcp_others)
    a.ret()


def _later(a: Asm, milliseconds: int) -> None:
    """Put the next message off. Clobbers RAX."""
    cycles(a, RAX, milliseconds)
    a.add(RAX, core.now)
    a.mov(DHCP.it.next_at, RAX)


@routine(
    outputs=[Out(RAX, "TSC until which to wait for an answer")],
    clobbers=CALLER_SAVED,
    reads=[
        Dhcp.state,
        Dhcp.attempt,
        Dhcp.t2_at,
        Dhcp.expires_at,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    calls=[drbg_u64],
    saves=[RBX],
    source="RFC 2131 sections 4.1 and 4.4.5",
)
def dhcp_patience(a: Asm) -> None:
    """Choose how long to wait: 1, 2, 4 ... 64 s give or take half a second; leases by halves."""
    dhcp, now = DHCP.it, RBX
    halves = a.label("halves")
    a.mov(now, core.now)
    a.mov(RAX, dhcp.t2_at)
    a.cmp(dhcp.state, DhcpState.RENEWING)
    a.je(halves)
    a.mov(RAX, dhcp.expires_at)
    a.cmp(dhcp.state, DhcpState.REBINDING)
    a.je(halves)
    a.call(drbg_u64)
    a.and_(EAX, 1023)
    a.mov(ECX, DHCP_BACKOFF_MAX)
    a.mov(EDX, dhcp.attempt)
    a.cmp(EDX, ECX)
    a.cmov(B, ECX, EDX)
    a.mov(EDX, SECOND_MS)
    a.shl(EDX, CL)
    a.lea(EAX, mem8(RAX, -512, ref=SUMS, index=RDX))
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms)
    a.add(RAX, now)
    a.ret()

    # Half of what is left, at least a minute.
    a.place(halves)
    a.sub(RAX, now)
    a.shr(RAX, 1)
    cycles(a, RCX, RENEW_MIN_MS)
    a.cmp(RAX, RCX)
    a.cmov(B, RAX, RCX)
    a.add(RAX, now)
    a.ret()


@routine(
    outputs=[Out(RAX, "TSC when it wants to run again; NEVER = it does not")],
    clobbers=CALLER_SAVED,
    reads=[
        Clock.tsc_cycles_per_ms,
        CoreState.now,
        Dhcp.state,
        Dhcp.next_at,
        Dhcp.t1_at,
        Dhcp.t2_at,
        Dhcp.expires_at,
        Dhcp.attempt,
    ],
    writes=[Dhcp.next_at, Dhcp.attempt],
    calls=[dhcp_enter, dhcp_lose, dhcp_send, dhcp_patience],
    source="RFC 2131 section 4.4",
)
def dhcp_tick(a: Asm) -> None:
    """Move on when time has come: renew, rebind, give up, ask again."""
    dhcp, state = DHCP.it, DHCP.it.state
    never, deadline = a.label("never"), a.label("deadline")
    a.cmp(CLOCK.it.tsc_cycles_per_ms, 0)
    a.je(never)  # without a clock nothing could be put off
    a.cmp(state, DhcpState.OFF)
    a.je(never)
    a.mov(RCX, core.now)
    a.cmp(state, DhcpState.BOUND)
    with a.if_(E):
        a.mov(RAX, dhcp.t1_at)
        a.cmp(RCX, RAX)
        with a.if_(B):
            a.ret()
        a.mov(EAX, DhcpState.RENEWING)
        a.call(dhcp_enter)
    a.mov(RCX, core.now)
    a.cmp(state, DhcpState.RENEWING)
    with a.if_(E):
        a.cmp(RCX, dhcp.t2_at)
        with a.if_(AE):
            a.mov(EAX, DhcpState.REBINDING)
            a.call(dhcp_enter)
    a.mov(RCX, core.now)
    a.cmp(state, DhcpState.REBINDING)
    with a.if_(E):
        a.cmp(RCX, dhcp.expires_at)
        with a.if_(AE):
            a.call(dhcp_lose)

    a.mov(RCX, core.now)
    a.cmp(RCX, dhcp.next_at)
    a.jb(deadline)
    a.cmp(state, DhcpState.REQUESTING)
    with a.if_(E):
        a.cmp(dhcp.attempt, DHCP_TRIES)
        with a.if_(AE):
            a.mov(EAX, DhcpState.SELECTING)
            a.call(dhcp_enter)
    a.call(dhcp_send)
    with a.if_(B):
        _later(a, SECOND_MS)
        a.jmp(deadline)
    a.call(dhcp_patience)
    a.mov(dhcp.next_at, RAX)
    a.inc(dhcp.attempt)

    a.place(deadline)
    a.mov(RAX, dhcp.next_at)
    a.cmp(state, DhcpState.RENEWING)
    with a.if_(E):
        a.mov(RCX, dhcp.t2_at)
        a.cmp(RCX, RAX)
        a.cmov(B, RAX, RCX)
    a.cmp(state, DhcpState.REBINDING)
    with a.if_(E):
        a.mov(RCX, dhcp.expires_at)
        a.cmp(RCX, RAX)
        a.cmov(B, RAX, RCX)
    a.ret()
    a.place(never)
    a.mov(RAX, NEVER)
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[Dhcp.state, Dhcp.t1_at],
    calls=[dhcp_enter],
    source="RFC 2131 section 4.4.2",
)
def dhcp_link_up(a: Asm) -> None:
    """Confirm the lease, or start anew at once: the link came back, perhaps elsewhere."""
    with a.block() as done:
        a.mov(EAX, DhcpState.SELECTING)
        a.cmp(DHCP.it.state, DhcpState.BOUND)
        with a.if_(AE):
            a.cmp(DHCP.it.t1_at, -1)
            a.leave(E, done)
            a.mov(EAX, DhcpState.RENEWING)
        a.cmp(DHCP.it.state, DhcpState.OFF)
        a.leave(E, done)
        a.call(dhcp_enter)
    a.ret()
