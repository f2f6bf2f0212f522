"""The bus at boot."""

from emulator.effects import World, model
from emulator.models.crypto.drbg import drbg_u64
from emulator.models.log import log
from emulator.models.memory.windows import workspace_map
from emulator.models.text import put_hex
from firmware.layouts.bus import BUS
from firmware.layouts.config import CONFIG
from firmware.layouts.credentials import CREDENTIALS
from firmware.layouts.fleet_config import FLEET_CONFIG
from firmware.layouts.log import BUS_NO_MEMORY, BUS_STARTED
from firmware.layouts.memory import MEMORY
from firmware.layouts.node import CORE, NETWORK
from firmware.layouts.shard import ShardContext


@model
def bus_name(w: World) -> None:
    """As configured, or `n` and the twelve digits of the card's address."""
    config, bus = w.g(FLEET_CONFIG), w.g(BUS)
    bus.node_len = config.node_len
    if config.node_len:
        bus.node[0 : config.node_len] = config.node[0 : config.node_len]
        return
    mac = w.g(NETWORK).mac[0:6]
    bus.node[0:1] = b"n"
    end = put_hex(w, bus.offset_of("node") + 1, int.from_bytes(mac[:4], "big"))
    put_hex(w, end, int.from_bytes(mac[4:], "big") << 16)
    bus.node_len = 13


@model
def bus_credentials(w: World) -> None:
    """As configured."""
    config, mine = w.g(FLEET_CONFIG), w.g(CREDENTIALS)
    mine.auth, mine.user_len, mine.password_len = config.auth, config.user_len, config.password_len
    for name in ("user", "password", "nkey_seed", "nkey_public"):
        getattr(mine, name)[:] = bytes(getattr(config, name))


@model
def bus_setup(w: World) -> int:
    """The last two workspaces are the links'; rows of the table name them, and no shard is there."""
    bus, servers = w.g(BUS), w.g(FLEET_CONFIG).servers_used
    bus_name(w)
    bus_credentials(w)
    bus.boot = drbg_u64(w)
    put_hex(w, bus.offset_of("boot_text"), bus.boot)
    for index, slot in enumerate((255, 254)):
        place, full = workspace_map(w, slot)
        if full:
            log(w, BUS_NO_MEMORY, None, w.g(MEMORY).free_pages)
            return 1
        link = bus.links[index]
        link.context, link.index = place, index
        w.view(ShardContext, place).unleased = 1
        w.g(CORE).slots[slot].context = place
        link.server = bus.boot % servers if servers else 0
    auth = w.g(FLEET_CONFIG).auth
    log(w, BUS_STARTED, None, bus.boot, servers, w.g(CONFIG).gateway_secure, auth)
    return 0
