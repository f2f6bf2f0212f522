"""What all handshakes of a node share."""

from emulator.effects import World, model
from emulator.models.crypto.begin import crypto_begin
from emulator.models.log import log
from emulator.models.tls.pool import tls_arenas_make
from firmware.layouts.config import CONFIG
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.log import TLS_STARTED
from firmware.layouts.tls_pool import TLS_POOL
from firmware.layouts.token import TOKEN
from firmware.layouts.trust import TRUST_STORE


@model
def tls_setup(w: World) -> None:
    """Nothing at all without TLS, but the cryptography of a node that has to enrol."""
    secure = w.g(CONFIG).gateway_secure
    if secure or (w.g(FLEET_CONFIG).magic == FLEET_MAGIC and not w.g(TOKEN).length):
        crypto_begin(w)
    if not secure:
        return
    store = w.g(TRUST_STORE)
    w.g(TLS_POOL).trust = store.address_
    w.g(TLS_POOL).hybrid = w.g(CONFIG).tls_hybrid
    log(w, TLS_STARTED, None, tls_arenas_make(w), store.count)
