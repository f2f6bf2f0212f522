"""What a document means: the gateway's URL and limits, or a wait."""

from firmware.abi import CALLER_SAVED
from firmware.gateway.discovery_target import discovery_target
from firmware.gateway.discovery_verdict import discovery_refuse, discovery_retry
from firmware.gateway.profile import profile_table
from firmware.gateway.url import URL, WEB_SOCKET, url_authority, url_scheme
from firmware.layouts.config import PATH_MAX
from firmware.layouts.discovery import (
    DISCOVERY,
    DISCOVERY_DOCUMENT,
    DISCOVERY_UNAVAILABLE,
    DISCOVERY_URL,
    RETRY_AFTER_MAX_S,
    Discovery,
    DiscoveryState,
)
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC, FleetConfig
from firmware.layouts.gateway import UrlFault
from firmware.layouts.json import (
    RESUME_URL_MAX,
    DocumentField,
    JsonKind,
    JsonParser,
    JsonState,
)
from firmware.layouts.log import DISCOVERY_FOUND, FLEET_CONCURRENCY, RESHARD_RECOMMENDED
from firmware.layouts.node import CLOCK, PLAN, Clock, CoreState, Plan, core
from firmware.layouts.permit import PERMITS, PERMITS_MAX, Permit, Permits
from firmware.layouts.plan import MOVES, Moves
from firmware.layouts.profile import PROFILES, ProfileTable
from firmware.layouts.shard import ShardContext
from firmware.log import log, log_write
from firmware.tls.transport import tls_abort
from toolchain.asm import (
    BE,
    CL,
    DX,
    EAX,
    ECX,
    EDI,
    EDX,
    NE,
    NZ,
    R8,
    R8D,
    R9D,
    R12,
    R13,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    C,
    E,
    In,
    Mem8,
    Mem32,
    Z,
    mem8,
    routine,
)

D = DISCOVERY.it
OWN_PATH_MAX = PATH_MAX - 1 - max(len(profile.query) for profile in PROFILES)
"""Room that the query leaves to the path of a gateway URL."""
OK = 200


def _kind(field: DocumentField) -> Mem8[int]:
    return D.parser.kinds.m8(field)


def _value(field: DocumentField) -> Mem32[int]:
    return D.parser.values.m32(4 * field)


@routine(
    clobbers=[RAX, RCX, RDI],
    reads=[
        FleetConfig.magic,
        JsonParser.kinds,
        JsonParser.values,
        Permits.reset_after_ms,
        Permits.max_concurrency,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[
        Permits.max_concurrency,
        Permits.owned,
        Permits.reset_at,
        Permits.total,
        Permits.remaining,
        Permits.reset_after_ms,
        Permits.said,
        Permit,
    ],
    source="firmware/docs/gateway.md#discovery-limits",
)
def discovery_limits(a: Asm) -> None:
    """Take session_start_limit; nobody has identified yet, so the gate begins anew with it."""
    permits, void, kept = PERMITS.it, a.label("void"), a.label("kept")
    for field, target in (
        (DocumentField.TOTAL, permits.total),
        (DocumentField.REMAINING, permits.remaining),
        (DocumentField.RESET_AFTER, permits.reset_after_ms),
    ):  # unrolled: three numbers
        a.cmp(_kind(field), JsonKind.INTEGER)
        with a.if_(E):
            a.mov(EAX, _value(field))
            a.mov(target, EAX)
    with a.block() as unsaid:
        a.cmp(_kind(DocumentField.TOTAL), JsonKind.INTEGER)
        a.leave(NE, unsaid)
        a.cmp(_kind(DocumentField.REMAINING), JsonKind.INTEGER)
        a.leave(NE, unsaid)
        a.inc(permits.said)
    with a.block() as unsaid:
        # In a fleet the plan says how many keys there are, to all nodes alike.
        a.cmp(FLEET_CONFIG.it.magic, FLEET_MAGIC)
        a.leave(E, unsaid)
        a.cmp(_kind(DocumentField.MAX_CONCURRENCY), JsonKind.INTEGER)
        a.leave(NE, unsaid)
        a.mov(EAX, _value(DocumentField.MAX_CONCURRENCY))
        a.test(EAX, EAX)
        a.leave(Z, unsaid)
        a.mov(ECX, PERMITS_MAX)
        a.cmp(EAX, ECX)
        a.cmov(A, EAX, ECX)
        a.cmp(EAX, permits.max_concurrency)
        a.leave(E, unsaid)
        a.mov(permits.max_concurrency, EAX)
        a.jmp(void)
    a.cmp(_kind(DocumentField.TOTAL), JsonKind.INTEGER)
    a.jne(kept)
    # All permits are void: each shard takes its own again under what the service said.
    a.place(void)
    a.mov(EAX, permits.reset_after_ms)
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms)
    a.add(RAX, core.now)
    a.mov(permits.reset_at, RAX)
    a.xor(EAX, EAX)
    a.mov(permits.owned, EAX)
    a.lea(RDI, permits.keys.address)
    a.mov(ECX, PERMITS_MAX * Permit.SIZE // 8)
    a.rep_stosq()
    a.place(kept)
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[FleetConfig.magic, JsonParser.kinds, JsonParser.values, Permits.max_concurrency],
    calls=[log_write],
    source="firmware/docs/gateway.md#discovery-limits",
)
def discovery_keys(a: Asm) -> None:
    """Say so when the plan of the fleet has more or fewer Identify keys than the service allows."""
    a.cmp(FLEET_CONFIG.it.magic, FLEET_MAGIC)
    with a.if_(NE):
        a.ret()
    a.cmp(_kind(DocumentField.MAX_CONCURRENCY), JsonKind.INTEGER)
    with a.if_(NE):
        a.ret()
    # No plan can have more keys than there are.
    a.mov(ECX, _value(DocumentField.MAX_CONCURRENCY))
    a.mov(EDX, PERMITS_MAX)
    a.cmp(ECX, EDX)
    a.cmov(A, ECX, EDX)
    a.mov(EDX, PERMITS.it.max_concurrency)
    a.cmp(ECX, EDX)
    with a.if_(NE):
        log(a, FLEET_CONCURRENCY)
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[JsonParser.kinds, JsonParser.values, Plan.global_total],
    writes=[Moves.recommended],
    calls=[log_write],
    source="firmware/docs/gateway.md#discovery-limits",
)
def discovery_recommend(a: Asm) -> None:
    """Keep how many shards the service recommends; say so when the plan has fewer."""
    a.cmp(_kind(DocumentField.SHARDS), JsonKind.INTEGER)
    with a.if_(NE):
        a.ret()
    a.mov(ECX, _value(DocumentField.SHARDS))
    a.mov(MOVES.it.recommended, ECX)
    a.mov(EDX, PLAN.it.global_total)
    a.cmp(ECX, EDX)
    with a.if_(A):
        log(a, RESHARD_RECOMMENDED)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard that asks; a document is whole")],
    clobbers=CALLER_SAVED,
    reads=[
        Discovery.status,
        Discovery.retry_after_ms,
        Discovery.requests,
        Discovery.gateway_port,
        JsonParser.state,
        JsonParser.kinds,
        JsonParser.values,
        JsonParser.resume_url,
        URL,
        ShardContext.profile,
        ProfileTable.query_len,
        Permits.max_concurrency,
        Permits.remaining,
    ],
    writes=[
        Discovery.state,
        Discovery.owner,
        Discovery.retry_after_ms,
        Discovery.gateway_host,
        Discovery.gateway_host_len,
        Discovery.gateway_path,
        Discovery.gateway_path_len,
        Discovery.gateway_port,
        URL,
    ],
    calls=[
        url_scheme,
        url_authority,
        discovery_target,
        discovery_limits,
        discovery_keys,
        discovery_recommend,
        discovery_refuse,
        discovery_retry,
        tls_abort,
        log_write,
    ],
    saves=[R12, R13],
    source="firmware/docs/gateway.md#discovery",
)
def discovery_document(a: Asm, shard: ShardContext) -> None:
    """Believe a document of status 200; of a 429 only the wait counts."""
    limited, incomplete, bad_url, asked = map(
        a.label, ("limited", "incomplete", "bad_url", "asked")
    )
    a.cmp(D.status, OK)
    a.jne(limited)
    a.cmp(D.parser.state, JsonState.END)
    a.jne(incomplete)
    a.mov(EAX, UrlFault.ABSENT)
    a.cmp(_kind(DocumentField.URL), JsonKind.STRING)
    a.jne(bad_url)
    a.mov(EAX, UrlFault.TOO_LONG)
    a.mov(R8D, _value(DocumentField.URL))
    a.cmp(R8D, RESUME_URL_MAX)
    a.j(A, bad_url)
    a.lea(RSI, D.parser.resume_url.address)
    a.add(R8, RSI)
    a.mov(EAX, WEB_SOCKET)
    a.call(url_scheme)
    a.test(EAX, EAX)
    a.jnz(bad_url)
    a.mov(R12, RSI)
    a.call(url_authority)
    a.test(EAX, EAX)
    a.jnz(bad_url)
    a.mov(D.gateway_port, DX)
    a.mov(D.gateway_host_len, ECX)
    a.mov(R13, RSI)
    a.mov(RSI, R12)
    a.lea(RDI, D.gateway_host.address)
    a.rep_movsb()

    a.mov(RSI, R13)
    a.mov(RCX, R8)
    a.sub(RCX, RSI)
    a.lea(RDI, D.gateway_path.address)
    a.mov(R9D, OWN_PATH_MAX)
    a.call(discovery_target)
    a.mov(EAX, UrlFault.TARGET)
    a.j(C, bad_url)
    # The gateway wants to be told version and encoding, whatever else the URL asks for.
    a.mov(ECX, ord("?"))
    a.test(EDX, EDX)
    with a.if_(NZ):
        a.mov(ECX, ord("&"))
    a.mov(mem8(RDI, ref=URL), CL)
    a.inc(RDI)
    table = profile_table(a, shard, RDX, RCX)
    a.lea(RSI, table.query.address)
    a.mov(ECX, table.query_len)
    a.rep_movsb()
    a.lea(RAX, D.gateway_path.address)
    a.sub(RDI, RAX)
    a.mov(D.gateway_path_len, EDI)
    a.call(discovery_limits)
    a.mov(D.state, DiscoveryState.FOUND)
    a.mov(D.owner, 0)
    a.call(tls_abort)
    a.movzx(EDX, D.gateway_port)
    a.mov(ECX, PERMITS.it.max_concurrency)
    a.mov(R8D, PERMITS.it.remaining)
    a.mov(R9D, D.requests)
    log(a, DISCOVERY_FOUND, RBX)
    a.call(discovery_keys)
    a.jmp(discovery_recommend)

    a.place(incomplete)
    a.mov(R9D, D.parser.state)
    a.or_(R9D, DISCOVERY_DOCUMENT.code)
    a.jmp(discovery_refuse)
    a.place(bad_url)
    a.lea(R9D, mem8(RAX, DISCOVERY_URL.code, ref=URL))
    a.jmp(discovery_refuse)

    # Seconds, or thousandths of one that were cut off behind the third digit; the larger wait wins.
    a.place(limited)
    a.mov(EAX, _value(DocumentField.RETRY_AFTER))
    with a.block() as known:
        a.cmp(_kind(DocumentField.RETRY_AFTER), JsonKind.DECIMAL)
        with a.if_(E):
            a.inc(RAX)
            a.jmp(known)
        a.cmp(_kind(DocumentField.RETRY_AFTER), JsonKind.INTEGER)
        a.jne(asked)
        a.imul(RAX, RAX, 1000)
    a.mov(ECX, RETRY_AFTER_MAX_S * 1000)
    a.cmp(RAX, RCX)
    a.cmov(A, RAX, RCX)
    a.cmp(RAX, D.retry_after_ms)
    a.j(BE, asked)
    a.mov(D.retry_after_ms, RAX)
    a.place(asked)
    a.movzx(R9D, D.status)
    a.or_(R9D, DISCOVERY_UNAVAILABLE.code)
    a.jmp(discovery_retry)
