"""A redirect of the question for the gateway: another place to ask."""

from firmware.abi import CALLER_SAVED
from firmware.gateway.discovery_target import discovery_target
from firmware.gateway.discovery_verdict import discovery_refuse
from firmware.gateway.url import HTTP, URL, url_authority, url_scheme
from firmware.layouts.config import PATH_MAX
from firmware.layouts.discovery import (
    DISCOVERY,
    DISCOVERY_LOCATION,
    DISCOVERY_REDIRECTS,
    LOCATION_MAX,
    REDIRECTS_MAX,
    Discovery,
    DiscoveryState,
    HttpField,
)
from firmware.layouts.gateway import UrlFault
from firmware.layouts.shard import ShardContext
from firmware.tls.transport import tls_abort
from toolchain.asm import (
    DX,
    EAX,
    ECX,
    EDI,
    NZ,
    R8,
    R8D,
    R9B,
    R9D,
    R12,
    R13,
    R14,
    RAX,
    RBX,
    RCX,
    RDI,
    RSI,
    A,
    Asm,
    C,
    In,
    mem8,
    routine,
)

D = DISCOVERY.it


@routine(
    inputs=[In(RBX, ShardContext, "the shard that asks; a redirect was read")],
    clobbers=CALLER_SAVED,
    reads=[
        Discovery.seen,
        Discovery.location,
        Discovery.location_len,
        Discovery.redirects,
        Discovery.port,
        Discovery.host_len,
        Discovery.host,
        URL,
    ],
    writes=[
        Discovery.state,
        Discovery.redirects,
        Discovery.token,
        Discovery.port,
        Discovery.host,
        Discovery.host_len,
        Discovery.path,
        Discovery.path_len,
    ],
    calls=[url_scheme, url_authority, discovery_target, discovery_refuse, tls_abort],
    saves=[R12, R13, R14],
    source="firmware/docs/gateway.md#discovery-redirects",
)
def discovery_redirect(a: Asm, shard: ShardContext) -> None:
    """Ask elsewhere; the token goes to no other host, now or later."""
    path, fault, other, absolute = map(a.label, ("path", "fault", "other", "absolute"))
    a.mov(R9D, DISCOVERY_REDIRECTS.code)
    a.inc(D.redirects)
    a.cmp(D.redirects, REDIRECTS_MAX)
    with a.if_(A):
        a.jmp(discovery_refuse)
    a.xor(EAX, EAX)
    a.test(D.seen, HttpField.LOCATION)
    a.jz(fault)
    a.mov(EAX, UrlFault.TOO_LONG)
    a.mov(R8D, D.location_len)
    a.cmp(R8D, LOCATION_MAX)
    a.j(A, fault)
    a.lea(RSI, D.location.address)
    a.add(R8, RSI)
    a.mov(R14, R8)

    # A path alone stays where it is; two slashes would name another host.
    a.mov(R13, RSI)
    a.cmp(mem8(RSI, ref=URL), ord("/"))
    a.jne(absolute)
    a.cmp(mem8(RSI, 1, ref=URL), ord("/"))
    a.jne(path)
    a.place(absolute)
    a.mov(EAX, HTTP)
    a.call(url_scheme)
    a.test(EAX, EAX)
    a.jnz(fault)
    a.mov(R12, RSI)
    a.call(url_authority)
    a.test(EAX, EAX)
    a.jnz(fault)
    a.mov(R13, RSI)

    a.cmp(DX, D.port)
    a.jne(other)
    a.cmp(ECX, D.host_len)
    a.jne(other)
    a.mov(EAX, ECX)
    a.lea(RDI, D.host.address)
    with a.loop() as letters:
        a.mov(R9B, mem8(R12, -1, index=RAX, ref=URL))
        a.cmp(R9B, mem8(RDI, -1, index=RAX, ref=URL))
        a.jne(other)
        a.dec(EAX)
        a.again(NZ, letters)
    a.jmp(path)
    a.place(other)
    a.mov(D.token, 0)
    a.mov(D.port, DX)
    a.mov(D.host_len, ECX)
    a.mov(RSI, R12)
    a.lea(RDI, D.host.address)
    a.rep_movsb()
    a.place(path)
    a.mov(RSI, R13)
    a.mov(RCX, R14)
    a.sub(RCX, RSI)
    a.lea(RDI, D.path.address)
    a.mov(R9D, PATH_MAX)
    a.call(discovery_target)
    a.mov(EAX, UrlFault.TARGET)
    a.j(C, fault)
    a.lea(RAX, D.path.address)
    a.sub(RDI, RAX)
    a.mov(D.path_len, EDI)
    a.mov(D.state, DiscoveryState.RESOLVE)
    a.jmp(tls_abort)
    a.place(fault)
    a.lea(R9D, mem8(RAX, DISCOVERY_LOCATION.code, ref=URL))
    a.jmp(discovery_refuse)
