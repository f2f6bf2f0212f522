"""How the layer ends a connection."""

from emulator.effects import World, model
from emulator.models.failure import shard_fail
from emulator.models.tcp.output import tcp_output
from emulator.models.tls.protect import tls_erase
from emulator.models.tls.send import tls_alert, tls_change_cipher_spec
from firmware.errors import SITES, Site
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import TlsFlag, TlsState
from firmware.layouts.tls_sites import REFUSALS


@model
def tls_fail(w: World, shard: int, error: int) -> None:
    """The alert, no keys, the reason."""
    context = w.view(ShardContext, shard)
    tls = context.tls
    if tls.state == TlsState.FAILED:
        return
    refusal = REFUSALS[SITES[error & 0xFFFF_0000]]
    if refusal.alert is not None:
        if tls.flags & TlsFlag.SEALING:
            tls_change_cipher_spec(w, shard)
        tls_alert(w, shard, refusal.alert)
        tcp_output(w, shard)
    tls.error, tls.state = error, TlsState.FAILED
    tls.anchor = tls.key_kind = 0
    tls_erase(w, shard)
    if not context.failure:
        context.required_wait_ms = 1000 * refusal.wait_s
    shard_fail(w, shard, refusal.end, refusal.flags, 0, error)


def refuse(w: World, shard: int, where: Site, detail: int = 0) -> None:
    """Fail at a site."""
    tls_fail(w, shard, where.code | detail)
