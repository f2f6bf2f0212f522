"""A lease: taken, measured, lost."""

from firmware.abi import CALLER_SAVED
from firmware.crypto.drbg import drbg_u64
from firmware.layouts.clock import NEVER, SECOND_MS
from firmware.layouts.net import (
    DHCP,
    DHCP_OPTIONS,
    LEASE_DEFAULT_S,
    LEASE_MAX_S,
    LEASE_MIN_S,
    NET,
    SUMS,
    Dhcp,
    DhcpMessage,
    DhcpOption,
    DhcpOptions,
    DhcpState,
    NetState,
)
from firmware.layouts.node import NETWORK, Clock, CoreState, Network, core
from firmware.net.arp import cycles
from toolchain.asm import (
    AE,
    EAX,
    EBX,
    ECX,
    EDI,
    NZ,
    R12,
    R12D,
    RAX,
    RBX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    B,
    In,
    Out,
    Reg32,
    Z,
    mem8,
    routine,
)


@routine(
    inputs=[In(EAX, int, "new DhcpState")],
    clobbers=CALLER_SAVED,
    reads=[CoreState.now],
    writes=[Dhcp.state, Dhcp.xid, Dhcp.attempt, Dhcp.next_at, Dhcp.begun],
    calls=[drbg_u64],
    source="RFC 2131 section 4.4",
)
def dhcp_enter(a: Asm, state: Reg32) -> None:
    """Begin an exchange: a new transaction id, the first message at once."""
    a.mov(DHCP.it.state, state)
    a.call(drbg_u64)
    a.mov(DHCP.it.xid, EAX)
    a.mov(DHCP.it.attempt, 0)
    a.mov(RAX, core.now)
    a.mov(DHCP.it.next_at, RAX)
    a.mov(DHCP.it.begun, RAX)
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    writes=[Network.configured, Network.ip],
    calls=[dhcp_enter],
    source="RFC 2131 section 4.4.5",
)
def dhcp_lose(a: Asm) -> None:
    """Give the address up and look for a new one."""
    a.mov(NETWORK.it.configured, 0)
    a.mov(NETWORK.it.ip, 0)
    a.mov(EAX, DhcpState.SELECTING)
    a.jmp(dhcp_enter)


@routine(
    inputs=[In(EAX, int, "seconds, at most LEASE_MAX_S")],
    outputs=[Out(RAX, "TSC that many seconds from now")],
    clobbers=[RDX],
    reads=[CoreState.now, Clock.tsc_cycles_per_ms],
    source="firmware/docs/network.md#leases",
)
def dhcp_instant(a: Asm, seconds: Reg32) -> None:
    """Turn a span of the lease into an instant."""
    a.mov(EAX, EAX)
    cycles(a, RDX, SECOND_MS)
    a.imul(RAX, RDX)
    a.add(RAX, core.now)
    a.ret()


@routine(
    inputs=[In(RSI, DhcpMessage, "an ACK that dhcp_parse has read")],
    clobbers=CALLER_SAVED,
    reads=[DhcpMessage.yiaddr, DhcpMessage.siaddr, DhcpOptions, Dhcp.server],
    writes=[
        Network.ip,
        Network.netmask,
        Network.router,
        Network.dns1,
        Network.dns2,
        Network.server_id,
        Network.lease_seconds,
        Network.configured,
        Dhcp.state,
        Dhcp.server,
        Dhcp.t1_at,
        Dhcp.t2_at,
        Dhcp.expires_at,
        Dhcp.acks,
        NetState.next_check,
    ],
    calls=[dhcp_instant],
    saves=[RBX, R12],
    source="RFC 2131 4.4.5; firmware/docs/network.md#leases",
)
def dhcp_adopt(a: Asm, message: DhcpMessage) -> None:
    """Take a lease; what the ACK does not say stays as it was."""
    network, found, dhcp = NETWORK.it, DHCP_OPTIONS.it, DHCP.it
    endless, done = a.label("endless"), a.label("done")
    a.mov(EAX, message.yiaddr)
    a.mov(network.ip, EAX)
    for option, source, target in (  # unrolled: three words that an ACK may leave out
        (DhcpOption.NETMASK, found.netmask, network.netmask),
        (DhcpOption.ROUTER, found.router, network.router),
        (DhcpOption.SERVER, found.server, dhcp.server),
    ):
        a.test(found.seen, 1 << option)
        with a.if_(NZ):
            a.mov(EAX, source)
            a.mov(target, EAX)
    a.test(found.seen, 1 << DhcpOption.DNS1)
    with a.if_(NZ):
        a.mov(EAX, found.dns1)
        a.mov(network.dns1, EAX)
        a.mov(EAX, found.dns2)  # 0 when there is one server only
        a.mov(network.dns2, EAX)
    a.mov(EAX, dhcp.server)
    a.test(EAX, EAX)
    with a.if_(Z):
        a.mov(EAX, message.siaddr)
        a.mov(dhcp.server, EAX)
    a.mov(network.server_id, EAX)

    # The lease: a default when the server says nothing, bounds otherwise.
    lease, second = EBX, R12D
    a.mov(lease, LEASE_DEFAULT_S)
    a.test(found.seen, 1 << DhcpOption.LEASE)
    with a.if_(NZ):
        a.mov(lease, found.lease)
        a.bswap(lease)
        a.mov(EAX, LEASE_MIN_S)
        a.cmp(lease, EAX)
        a.cmov(B, lease, EAX)
    a.mov(network.lease_seconds, lease)
    a.mov(RAX, NEVER)
    a.cmp(lease, -1)
    a.je(endless)
    a.mov(EAX, LEASE_MAX_S)
    a.cmp(lease, EAX)
    a.cmov(A, lease, EAX)

    # T2: what the server says when it lies within the lease, else seven eighths.
    a.mov(second, found.t2)
    a.bswap(second)
    a.lea(EAX, mem8(R12, -1, ref=SUMS))
    a.lea(ECX, mem8(RBX, -1, ref=SUMS))
    a.cmp(EAX, ECX)
    with a.if_(AE):
        a.mov(second, lease)
        a.mov(EAX, lease)
        a.shr(EAX, 3)
        a.sub(second, EAX)
    # T1: what the server says when it lies before T2, else half the lease, else half of T2.
    a.mov(EDI, found.t1)
    a.bswap(EDI)
    a.lea(EAX, mem8(RDI, -1, ref=SUMS))
    a.lea(ECX, mem8(R12, -1, ref=SUMS))
    a.cmp(EAX, ECX)
    with a.if_(AE):
        a.mov(EDI, lease)
        a.shr(EDI, 1)
        a.cmp(EDI, second)
        with a.if_(AE):
            a.mov(EDI, second)
            a.shr(EDI, 1)
    a.mov(EAX, EDI)
    a.call(dhcp_instant)
    a.mov(dhcp.t1_at, RAX)
    a.mov(EAX, second)
    a.call(dhcp_instant)
    a.mov(dhcp.t2_at, RAX)
    a.mov(EAX, lease)
    a.call(dhcp_instant)
    a.jmp(done)
    a.place(endless)
    a.mov(dhcp.t1_at, RAX)
    a.mov(dhcp.t2_at, RAX)
    a.place(done)
    a.mov(dhcp.expires_at, RAX)
    a.mov(network.configured, 1)
    a.mov(dhcp.state, DhcpState.BOUND)
    a.mov(NET.it.next_check, 0)  # ask for the router's address before anybody needs it
    a.inc(dhcp.acks)
    a.ret()
