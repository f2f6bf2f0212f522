"""What all handshakes of a node share."""

from emulator.effects import World, model
from emulator.models.crypto.begin import crypto_begin
from emulator.models.log import log
from emulator.models.tls.pool import tls_arenas_make
from firmware.layouts.config import CONFIG
from firmware.layouts.log import TLS_STARTED
from firmware.layouts.tls_pool import TLS_POOL
from firmware.layouts.trust import TRUST_STORE


@model
def tls_setup(w: World) -> None:
    """Nothing at all without TLS."""
    if not w.g(CONFIG).gateway_secure:
        return
    crypto_begin(w)
    store = w.g(TRUST_STORE)
    w.g(TLS_POOL).trust = store.address_
    w.g(TLS_POOL).hybrid = w.g(CONFIG).tls_hybrid
    log(w, TLS_STARTED, None, tls_arenas_make(w), store.count)
