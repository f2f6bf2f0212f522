"""What all handshakes of a node share, made once at boot and only when they are wanted."""

from firmware.abi import CALLER_SAVED
from firmware.crypto.begin import crypto_begin
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC, FleetConfig
from firmware.layouts.log import TLS_STARTED
from firmware.layouts.tls_pool import TLS_POOL, TlsPool
from firmware.layouts.token import TOKEN, BotToken
from firmware.layouts.trust import TRUST_STORE, TrustStore
from firmware.log import log, log_write
from firmware.tls.pool import tls_arenas_make
from toolchain.asm import EAX, ECX, EDX, NE, RAX, Asm, E, routine


@routine(
    clobbers=CALLER_SAVED,
    reads=[
        ConfigBlob.gateway_secure, ConfigBlob.tls_hybrid, TrustStore.count, FleetConfig.magic,
        BotToken.length,
    ],
    writes=[TlsPool.trust, TlsPool.hybrid],
    calls=[crypto_begin, tls_arenas_make, log_write],
    source="firmware/docs/tls.md#before-the-syn",
)  # fmt: skip
def tls_setup(a: Asm) -> None:
    """Choose the cryptography, make arenas and point at the anchors when the configured URL has TLS.

    A node that has to enrol needs the cryptography without TLS, too.
    """
    a.cmp(CONFIG.it.gateway_secure, 0)
    with a.if_(E):
        a.cmp(FLEET_CONFIG.it.magic, FLEET_MAGIC)
        with a.if_(NE):
            a.ret()
        a.cmp(TOKEN.it.length, 0)
        with a.if_(NE):
            a.ret()
        a.jmp(crypto_begin)
    a.call(crypto_begin)
    a.lea(RAX, TRUST_STORE.address)
    a.mov(TLS_POOL.it.trust, RAX)
    a.movzx(EAX, CONFIG.it.tls_hybrid)
    a.mov(TLS_POOL.it.hybrid, EAX)
    a.call(tls_arenas_make)
    a.mov(EDX, EAX)
    a.mov(ECX, TRUST_STORE.it.count)
    log(a, TLS_STARTED)
    a.ret()
