"""The question for the gateway."""

from emulator.effects import World, model
from emulator.models.gateway.discovery_verdict import discovery_retry
from emulator.models.log import log
from emulator.models.net.dns import dns_resolve
from emulator.models.tcp.connect import tcp_connect
from emulator.models.text import put_decimal
from emulator.models.tls.prepare import tls_prepare
from emulator.models.tls.transport import tls_commit, tls_reserve
from firmware.gateway.discovery_ask import REQUEST_MAX
from firmware.layouts.config import CONFIG
from firmware.layouts.discovery import (
    DISCOVERY,
    DISCOVERY_ADDRESS,
    DISCOVERY_CONNECTION,
    DiscoveryState,
)
from firmware.layouts.log import DISCOVERY_ASK
from firmware.layouts.profile import PROFILES
from firmware.layouts.shard import ShardContext
from firmware.layouts.token import TOKEN


@model
def discovery_begin(w: World, shard: int) -> None:
    """A new question to the configured place, in the name of one attempt."""
    found, config, context = w.g(DISCOVERY), w.g(CONFIG), w.view(ShardContext, shard)
    found.owner, found.attempt = context.slot + 1, context.attempts
    found.status = found.redirects = found.retry_after_ms = 0
    found.token = int(PROFILES[context.profile].discovery_token)
    found.port = config.gateway_port
    found.host_len, found.path_len = config.gateway_host_len, config.gateway_path_len
    found.host[: found.host_len] = config.gateway_host[: config.gateway_host_len]
    found.path[: found.path_len] = config.gateway_path[: config.gateway_path_len]
    found.state = DiscoveryState.RESOLVE


@model
def discovery_dial(w: World, shard: int) -> int:
    """Name, address, connection; what fails here fails for now."""
    found, tcp = w.g(DISCOVERY), w.view(ShardContext, shard).tcp
    status, address = dns_resolve(w, found.host.address, found.host_len)
    if status == 1:
        return 0
    if status != 0:
        discovery_retry(w, shard, DISCOVERY_ADDRESS.code)
        return 0
    tcp.remote_ip, tcp.remote_port = address, found.port
    if tls_prepare(w, shard, found.host.address, found.host_len):
        return 1
    if tcp_connect(w, shard):
        discovery_retry(w, shard, DISCOVERY_CONNECTION.code)
        return 0
    found.scanned, found.state = 0, DiscoveryState.CONNECT
    asked = tcp.remote_ip, found.port, found.redirects, found.token
    log(w, DISCOVERY_ASK, shard, *asked)
    return 0


@model
def discovery_send(w: World, shard: int) -> None:
    """One GET; the token goes with it while it is allowed."""
    found, config, token = w.g(DISCOVERY), w.g(CONFIG), w.g(TOKEN)
    start, full = tls_reserve(w, shard, REQUEST_MAX)
    if full:
        return
    text = b"GET " + bytes(found.path[: found.path_len]) + b" HTTP/1.1\r\n"
    text += b"Host: " + bytes(found.host[: found.host_len])
    own = found.port == (443 if config.gateway_secure else 80)
    text += b"" if own else b":"
    w.write(start, text)
    end = start + len(text)
    if not own:
        end = put_decimal(w, end, found.port)
    agent = bytes(config.user_agent[: config.user_agent_len])
    rest = b"\r\nUser-Agent: " + agent + b"\r\nAccept: application/json\r\n"
    rest += b"Connection: close\r\n"
    if found.token:
        rest += b"Authorization: Bot " + bytes(token.text[: token.length]) + b"\r\n"
    rest += b"\r\n"
    w.write(end, rest)
    tls_commit(w, shard, end + len(rest) - start)
    found.requests += 1
    found.state = DiscoveryState.HEAD
