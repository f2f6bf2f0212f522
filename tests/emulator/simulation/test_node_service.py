"""A real service as far as a machine without it can tell: its names, URLs, certificates and hosts.

Discord, developer documentation, "Gateway": discovery at one host, the gateway at another one, a
Resume at a third one, all at port 443; each has its own name in SNI and in its certificate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from emulator.simulation.node_facts import TOKEN, NodeFacts
from emulator.simulation.rig import GATEWAY_ADDRESS
from firmware.layouts.discovery import DiscoveryMode
from firmware.layouts.profile import ProfileId
from tests.support.chains import store_of
from tests.support.tls_peer import Identity, identity, server_context
from toolchain.config import load_config

if TYPE_CHECKING:
    import ssl

AGENT = "DiscordBot (https://bot.example, 1.0)"
ASKED, RESUMED = "203.0.113.6", "203.0.113.7"


class Service:
    """Who is asked, the gateway, and where a Resume goes, each behind its own certificate."""

    def __init__(self, rig_of, text, folder, shown: dict[str, Identity], **options):
        self.names: list[str] = []
        self.contexts = {host: self._context(one) for host, one in shown.items()}
        (folder / "node.toml").write_text(f"[gateway]\ndiscovery = 'http'\n{text}")
        config = load_config(folder / "node.toml", {"SHARDFW_TOKEN": TOKEN})
        where = config.gateway.endpoint
        assert where.secure
        facts = NodeFacts(
            shards=2,
            host=where.host,
            port=where.port,
            path=where.path,
            user_agent=config.gateway.user_agent,
            discovery=DiscoveryMode.HTTP,
            profile=ProfileId[config.gateway.profile.upper()],
            trust=store_of(*{one.root for one in shown.values()}),
        )
        asked, gateway, *resumed = self.contexts
        self.rig = rig_of(1, facts, tls=self.contexts[gateway], **options)
        self.rig.internet.dns.add(gateway, GATEWAY_ADDRESS, ttl_s=60)
        for host, address in zip((asked, *resumed), (ASKED, RESUMED), strict=False):
            self.rig.internet.gateway(
                host, address, 443, tls=self.contexts[host], sessions_of="gateway.test"
            )

    def _context(self, shown: Identity) -> ssl.SSLContext:
        context = server_context(shown)
        context.sni_callback = lambda _tls, name, _context: self.names.append(name)
        return context


def test_discord_is_asked_dialled_and_resumed_at_hosts_of_its_own(rig_of, tmp_path):
    regional = "gateway-us-east1-b.discord.gg"
    wild = identity(host="*.discord.gg")
    service = Service(
        rig_of,
        f"discovery_url = 'https://discord.com/api/v10/gateway/bot'\nuser_agent = '{AGENT}'\n",
        tmp_path,
        {"discord.com": identity(host="discord.com"), "gateway.discord.gg": wild, regional: wild},
        public_url="wss://gateway.discord.gg",
        resume_urls={0: f"wss://{regional}", 1: f"wss://{regional}"},
    )
    rig = service.rig
    rig.until_ready(10)
    assert service.names == ["discord.com", "gateway.discord.gg", "gateway.discord.gg"]
    asked = [event.fields for event in rig.gateway.events if event.name == "http"]
    assert asked == [{"path": "/api/v10/gateway/bot", "authorized": True}]
    for peer in rig.gateway.server.peers:
        assert peer.upgrade.target == "/?v=10&encoding=json"
        assert peer.upgrade.host == "gateway.discord.gg"
        assert peer.upgrade.headers["user-agent"] == AGENT
    rig.gateway.core.kick(1, 4000)
    rig.gateway.flush()
    rig.run(15)
    assert rig.all_ready()
    assert [row.resumes for row in rig.stats.shards] == [0, 1]
    assert service.names[3:] == [regional]
    assert len(rig.monitor.dials(RESUMED, 443)) == 1


@pytest.mark.parametrize("host", ["api.fluxer.app", "fluxer.app"])
def test_fluxer_is_asked_without_a_token_and_resumed_where_it_was(rig_of, tmp_path, host):
    service = Service(
        rig_of,
        f"profile = 'fluxer'\ndiscovery_url = 'https://{host}'\n",
        tmp_path,
        {host: identity(host=host), "gateway.fluxer.app": identity(host="gateway.fluxer.app")},
        public_url="wss://gateway.fluxer.app",
    )
    rig = service.rig
    rig.until_ready(10)
    asked = [event.fields for event in rig.gateway.events if event.name == "http"]
    assert asked == [{"path": "/.well-known/fluxer", "authorized": False}]
    rig.gateway.core.kick(1, 4000)
    rig.gateway.flush()
    rig.run(15)
    assert rig.all_ready()
    assert [row.resumes for row in rig.stats.shards] == [0, 1]
    assert service.names == [host] + ["gateway.fluxer.app"] * 3
