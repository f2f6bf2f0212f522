"""What a boot program leaves behind for the firmware: configuration, boot facts, memory."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum

from emulator.devices.virtio_net import PCI_ADDRESS
from firmware.layouts.boot import BootInfo, BootPath, MemoryType
from firmware.layouts.config import CONFIG_MAGIC, USER_AGENT, ConfigBlob
from firmware.layouts.discovery import DiscoveryMode
from firmware.layouts.log_line import Level
from firmware.layouts.memory import TABLES_USED_AT_BOOT, Memory
from firmware.layouts.policy import DEFAULTS, OnLimit, OnMalformed, Policy, SessionProvider
from firmware.layouts.profile import ProfileId
from firmware.layouts.tls import Hybrid
from firmware.limits import DMA_BYTES, PAGE, RECORD_PAGE, WINDOW_MMIO
from toolchain.layout.pack import pack

TABLES_PHYSICAL = 0x0080_0000
RAM_START, RAM_BYTES = 0x0100_0000, 0x0200_0000
MAC = bytes.fromhex("525400123456")
TOKEN = "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.simulated-token"  # noqa: S105 - of the simulated bot

CONTROL_KEY = bytes(range(0x40, 0x60))


def _told(value: object) -> object:
    """Return a value as people want to read it."""
    if isinstance(value, Enum):
        return value.name
    return f"{len(value)} bytes" if isinstance(value, bytes) and len(value) > 64 else value


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """The configuration and the boot of one simulated node.

    Attributes:
        shards: shards of this node.
        total: shards of the bot; 0 means as many as `start` and `shards` make.
        start: first shard of this node.
        lease_ms: grant at boot, in milliseconds; 0 turns enforcement off.
        max_concurrency: Identify keys.
        identify_allowance: Identifies in 24 hours.
        host: name or dotted address of the gateway.
        port: TCP port of the gateway.
        trust: a trust store; with one the gateway is spoken to over TLS.
        hybrid: what hellos say of X25519MLKEM768.
        path: path and query of the upgrade request.
        profile: the service's rules.
        resume_suffix: domain whose hosts may hear the token on a Resume; empty means the parent of
            the host.
        discovery: where the gateway's address comes from; with HTTP `host`, `port` and `path` say
            who is asked for it.
        token: of the bot.
        user_agent: what the node calls itself.
        diagnostics_port: UDP port of the diagnostics; 0 turns them off.
        control_key: what signs commands; empty turns them off.
        log_level: lowest level of the lines that are written.
        mac: address of the card.
        ack: the DHCPACK that the boot ROM kept, from its op byte on; empty when there is none.
        policy: how delays are chosen.
        on_limit: what the end of the startup budget means.
        schedule_ms: delays of the policy SCHEDULE.
        startup_timeout_ms: budget of the group start.
        attempt_timeout_ms: budget of an attempt of the recovery.
        startup_attempts: attempts of a shard before its first READY.
        identify_shards: whether Identify carries the shard pair.
        plan_auto: whether the node moves to a larger total by itself.
        spare: slots beyond the shards that a move may fill.
        fleet: the fleet's page; with one the plan in NATS says which shards the node has, and `shards`
            is how many it can have.
        link_port: TCP port of the servers on that page; no lease is needed to speak to it.
        identify_fields: optional fields of Identify as JSON, each behind a comma.
        session_provider: who keeps sessions while the node is off.
        on_malformed: what a dispatch does that cannot be read.
    """

    shards: int = 16
    total: int = 0
    start: int = 0
    lease_ms: int = 0
    max_concurrency: int = 16
    identify_allowance: int = 1000
    host: str = "gateway.test"
    port: int = 80
    trust: bytes = b""
    hybrid: Hybrid = Hybrid.OFF
    path: str = "/?v=10&encoding=json"
    profile: ProfileId = ProfileId.DISCORD
    resume_suffix: str = ""
    discovery: DiscoveryMode = DiscoveryMode.STATIC
    token: str = TOKEN
    user_agent: str = USER_AGENT.decode()
    diagnostics_port: int = 7700
    control_key: bytes = CONTROL_KEY
    log_level: Level = Level.INFO
    mac: bytes = MAC
    ack: bytes = b""
    policy: Policy = Policy.JITTERED
    on_limit: OnLimit = OnLimit.RETRY
    schedule_ms: tuple[int, ...] = ()
    startup_timeout_ms: int = 30_000
    attempt_timeout_ms: int = 30_000
    startup_attempts: int = 3
    identify_shards: bool = True
    identify_fields: bytes = b""
    session_provider: SessionProvider = SessionProvider.NONE
    on_malformed: OnMalformed = OnMalformed.SKIP
    plan_auto: bool = False
    spare: int = 0
    fleet: bytes = b""
    link_port: int = 0

    @property
    def slots(self) -> int:
        """Return how many slots have memory."""
        return self.shards + self.spare

    def told(self) -> str:
        """Return what is not as by default, for people."""
        words = [f"shards={self.shards}"]
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name != "shards" and value != each.default:
                words.append(f"{each.name}={_told(value)}")
        return " ".join(words)

    def config(self) -> bytes:
        """Return the configuration page."""
        host, path, token = self.host.encode(), self.path.encode(), self.token.encode()
        return pack(
            ConfigBlob,
            {
                "magic": CONFIG_MAGIC,
                "version": 1,
                "build_time": 1_790_000_000,
                "global_total": 0 if self.fleet else self.total or self.start + self.shards,
                "local_start": self.start,
                "local_count": 0 if self.fleet else self.shards,
                "lease_ms": self.lease_ms,
                "intents": 1,
                "max_concurrency": self.max_concurrency,
                "identify_allowance": self.identify_allowance,
                "gateway_host_len": len(host),
                "gateway_path_len": len(path),
                "token_len": len(token),
                "gateway_port": self.port,
                "gateway_secure": bool(self.trust),
                "tls_hybrid": self.hybrid,
                "diagnostics_port": self.diagnostics_port,
                "control_key_len": len(self.control_key),
                "control_key": self.control_key,
                "profile": self.profile,
                "discovery": self.discovery,
                "log_level": self.log_level,
                "dhcp": 1,
                "serial": 1,
                **DEFAULTS,
                "policy": self.policy,
                "on_limit": self.on_limit,
                "identify_shards": self.identify_shards,
                "session_provider": self.session_provider,
                "on_malformed": self.on_malformed,
                "plan_auto": self.plan_auto,
                "schedule_len": len(self.schedule_ms),
                "schedule_ms": [{"ms": ms} for ms in self.schedule_ms],
                "startup_timeout_ms": self.startup_timeout_ms,
                "attempt_timeout_ms": self.attempt_timeout_ms,
                "startup_attempts": self.startup_attempts,
                "gateway_host": host,
                "resume_suffix_len": len(self.resume_suffix),
                "resume_suffix": self.resume_suffix.encode(),
                "identify_fields_len": len(self.identify_fields),
                "identify_fields": self.identify_fields,
                "gateway_path": path,
                "token": token,
                "user_agent_len": len(self.user_agent),
                "user_agent": self.user_agent.encode(),
            },
        )

    def boot(self, entry_tsc: int) -> bytes:
        """Return the facts of the boot; `entry_tsc` is when it began."""
        region = {
            "base": RAM_START,
            "length": RAM_BYTES,
            "kind": MemoryType.USABLE,
            "attributes": 1,
        }
        return pack(
            BootInfo,
            {
                "entry_tsc": entry_tsc,
                "path": BootPath.BIOS_PXE,
                "nic_known": 1,
                "nic_function": PCI_ADDRESS,
                "nic_identity": 0x1000 << 16 | 0x1AF4,
                "region_count": 1,
                "tables": TABLES_PHYSICAL,
                "image": 0x0010_0000,
                "mac": self.mac,
                "regions": [region],
                "ack_length": len(self.ack),
                "ack": self.ack,
            },
        )

    def memory(self) -> bytes:
        """Return the page allocator after the DMA window was mapped."""
        pages = RAM_BYTES // PAGE
        dma = DMA_BYTES // PAGE
        return pack(
            Memory,
            {
                "run_count": 1,
                "tables_used": TABLES_USED_AT_BOOT,
                "tables_physical": TABLES_PHYSICAL,
                "free_pages": pages - dma,
                "total_pages": pages,
                "mmio_next": WINDOW_MMIO,
                "dma_physical": RAM_START,
                "record": RECORD_PAGE,
                "runs": [{"next": RAM_START + DMA_BYTES, "end": RAM_START + RAM_BYTES}],
            },
        )
