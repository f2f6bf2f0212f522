"""The configuration as the node sees it: one read-only page that `shardfw build` fills."""

from __future__ import annotations

from firmware.layouts.policy import (
    DEFAULTS,
    SCHEDULE_MAX,
    OnLimit,
    OnMalformed,
    Policy,
    SessionProvider,
)
from firmware.layouts.profile import ProfileId
from firmware.layouts.tls import Hybrid
from firmware.limits import PAGE, TOKEN_MAX
from toolchain.layout import Global, Struct, array, bytes_, enum8, u8, u16, u32, u64
from toolchain.layout.pack import pack

CONFIG_MAGIC = 0x3146_4353
"""`SCF1` in memory order."""
HOST_MAX = 128
PATH_MAX = 256
IDENTIFY_FIELDS_MAX = 2944
"""What the page has room for; with the longest token Identify stays below OUTBOUND_PAYLOAD_MAX."""
USER_AGENT_MAX = 64
"""What the page has room for behind that."""
USER_AGENT = b"DiscordBot (shardfw, 0.1)"
"""Unless the operator writes who runs the bot. Discord, developer documentation, "Reference", "User
Agent": its HTTP API asks for an address and a version in this form. The project has no address of its own,
so its name stands there. A client without any User-Agent is closed right after the upgrade."""
CONTROL_KEY_MAX = 64
"""One block of SHA-256: HMAC takes the key as it is."""


class Delay(Struct):
    """One delay of a schedule."""

    SIZE = 4
    ms = u32(0x00, "milliseconds")


class ConfigBlob(Struct):
    """What the operator configured. Strings have a length and no terminator."""

    SIZE = PAGE
    magic = u32(0x000, "CONFIG_MAGIC; anything else stops the boot")
    version = u32(0x004, "layout version, 1")
    build_time = u64(0x008, "Unix seconds; the RTC is not believed before it")
    build_id = bytes_(0x010, 20, "identifies the image")
    global_total = u32(0x024, "shards of the whole bot")
    local_start = u32(0x028, "first shard of this node")
    local_count = u32(0x02C, "shards of this node, 1..SHARDS_MAX")
    lease_ms = u64(0x030, "lease duration granted at boot; milliseconds; 0 = enforcement off")
    intents = u32(0x038, "Gateway intents")
    max_concurrency = u32(0x03C, "Identify keys, 1..PERMITS_MAX")
    gateway_host_len = u32(0x040, "bytes")
    gateway_path_len = u32(0x044, "bytes")
    token_len = u32(0x048, "bytes")
    gateway_port = u16(0x04C, "TCP port, host byte order")
    diagnostics_port = u16(0x04E, "UDP port, host byte order; 0 = off")
    profile = enum8(0x050, ProfileId, "the service that the gateway speaks for")
    log_level = u8(0x051, "lowest level that is written")
    dhcp = u8(0x052, "1 = use DHCP; 0 = the static address below")
    serial = u8(0x053, "1 = log to COM1")
    static_ip = u32(0x054, "as on the wire")
    static_netmask = u32(0x058, "as on the wire")
    static_router = u32(0x05C, "as on the wire; 0 = none")
    static_dns1 = u32(0x060, "as on the wire; 0 = none")
    static_dns2 = u32(0x064, "as on the wire; 0 = none")
    control_key_len = u32(0x068, "bytes; 0 = the control channel is off")
    discovery = u8(0x06C, "DiscoveryMode; with HTTP the gateway_ fields say who is asked for what")
    session_provider = enum8(0x06D, SessionProvider, "who keeps sessions while the node is off")
    plan_auto = u8(0x06E, "1 = a node that holds every shard moves to a larger total by itself")
    gateway_secure = u8(0x06F, "1 = TLS, whoever is asked: wss:// and https:// alone; 0 = neither")
    load_timeout_ms = u32(0x070, "how long a saved session is waited for; 0 = none comes; ms")
    identify_allowance = u32(0x07C, "Identifies per 24 h; 0 = no bound")
    gateway_host = bytes_(0x080, HOST_MAX, "name or dotted quad")
    gateway_path = bytes_(0x100, PATH_MAX, "path and query of the upgrade request")
    token = bytes_(0x200, TOKEN_MAX, "bot token")
    control_key = bytes_(0x300, CONTROL_KEY_MAX, "key of the control channel, then zeros", align=8)
    # The retry policy (seed B's constants).
    policy = enum8(0x340, Policy, "how delays are chosen")
    on_limit = enum8(0x341, OnLimit, "what the end of the startup budget means")
    protocol_failures_max = u8(0x342, "protocol failures in a row that end a shard")
    identify_shards = u8(0x343, "1 = Identify carries the shard pair")
    on_malformed = enum8(
        0x344, OnMalformed, "what a dispatch does that the node has to read and cannot"
    )
    schedule_len = u8(0x345, "delays in `schedule_ms`")
    user_agent_len = u8(0x346, "bytes")
    tls_hybrid = enum8(0x347, Hybrid, "what TLS says of X25519MLKEM768")
    min_delay_ms = u32(0x348, "recovery: ceiling at step 0; milliseconds")
    max_delay_ms = u32(0x34C, "recovery: largest ceiling; milliseconds")
    attempt_timeout_ms = u32(0x350, "recovery: budget of an attempt; milliseconds")
    healthy_reset_ms = u32(0x354, "READY this long restarts step and count; milliseconds")
    startup_timeout_ms = u32(0x358, "budget of the group start; milliseconds")
    startup_attempts = u32(0x35C, "attempts of a shard before its first READY")
    startup_min_ms = u32(0x360, "startup: ceiling after the first attempt; milliseconds")
    startup_max_ms = u32(0x364, "startup: largest ceiling; milliseconds")
    schedule_ms = array(0x370, Delay, SCHEDULE_MAX, "delays of the policy SCHEDULE")
    resume_suffix_len = u32(0x3B0, "bytes; 0 = the parent domain of the gateway's host")
    identify_fields_len = u32(0x3B4, "bytes")
    resume_suffix = bytes_(0x3C0, HOST_MAX, "domain whose hosts may hear the token on a Resume")
    identify_fields = bytes_(
        0x440, IDENTIFY_FIELDS_MAX, "optional fields of Identify as JSON, each behind a comma"
    )
    user_agent = bytes_(0xFC0, USER_AGENT_MAX, "what the node calls itself in HTTP requests")


NOTHING = {
    "magic": CONFIG_MAGIC,
    "version": 1,
    "max_concurrency": 1,
    "log_level": 2,
    "dhcp": 1,
    "serial": 1,
    "user_agent_len": len(USER_AGENT),
    "user_agent": USER_AGENT,
    **DEFAULTS,
}
"""What an image that was given no configuration does: it boots, gets an address, holds no shard."""
CONFIG = Global(
    "config_blob",
    ConfigBlob,
    "the configuration; filled by the linker's overrides",
    init=pack(ConfigBlob, NOTHING),
    align=PAGE,
    readonly=True,
)
