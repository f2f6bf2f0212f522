"""The server's chain, judged a signature at a time."""

from emulator.effects import World, model
from emulator.models.cpu.date import date_now
from emulator.models.tls.server_flight import tls_read_certificate
from emulator.models.tls.transcript import arena_of
from emulator.models.x509.chain import x509_chain_begin
from emulator.models.x509.step import x509_chain_step
from emulator.models.x509.verify import x509_verify_signature
from firmware.layouts.node import CORE
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls_pool import TLS_POOL
from firmware.layouts.x509 import VERDICTS
from firmware.layouts.x509_chain import ChainState

_TLS = {reason.number: verdict.code for reason, verdict in VERDICTS.items()}


@model
def tls_verdict(w: World, reason: int) -> int:
    """The failure of TLS, with the reason's number and what it is about."""
    number = reason >> 16 & 0xFF
    return _TLS[number] | number << 8 | reason & 0xFF


@model
def tls_on_certificate(w: World, shard: int, body: int, length: int) -> int:
    """The form, the leaf and its name; then a chain that is searched, or known."""
    error = int(tls_read_certificate(w, shard, body, length))
    if error:
        return error
    arena = arena_of(w, shard)
    chain = arena.chain
    chain.now, chain.store = date_now(w), w.g(TLS_POOL).trust
    chain.host, chain.host_len = arena.offset_of("host"), arena.host_len
    listed = arena.address_ + arena.chain_at
    if x509_chain_begin(w, chain.address_, listed, arena.chain_len) == ChainState.FAILED:
        return int(tls_verdict(w, chain.error))
    leaf = chain.certificates[0].key.value
    arena.leaf_key[: leaf.size] = w.read(leaf.start, leaf.size)
    leaf.start = arena.offset_of("leaf_key")
    return 0


@model
def tls_judge(w: World, shard: int) -> int:
    """The next signature; whether it is good is for the next step."""
    arena = arena_of(w, shard)
    chain = arena.chain.address_
    state, key, certificate = x509_chain_step(w, chain, arena.good)
    if state == ChainState.VERIFY:
        arena.good = x509_verify_signature(w, chain, key, certificate)
        return 0
    return int(tls_verdict(w, arena.chain.error)) if state == ChainState.FAILED else 0


@model
def tls_wakes(w: World, shard: int) -> int:
    """At once while a chain is judged, else at the end of the ten seconds."""
    tls = w.view(ShardContext, shard).tls
    if not tls.arena_ptr:
        return 2**64 - 1
    judging = arena_of(w, shard).paused_record
    return int(w.g(CORE).now if judging else tls.deadline)
