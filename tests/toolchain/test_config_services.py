"""Real services in node.toml: over TLS alone, by their own rules, never with the placeholder."""

from pathlib import Path

import click
import pytest

from firmware.layouts.config import ConfigBlob
from toolchain.cli.blob import config_blob
from toolchain.config import ConfigError, load_config
from toolchain.layout.pack import unpack

DISCORD = "https://discord.com/api/v10/gateway/bot"
FLUXER = "https://api.fluxer.app/.well-known/fluxer"


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Load a [gateway] section as node.toml, so that messages begin with that name."""
    monkeypatch.chdir(tmp_path)

    def run(text, environ=None):
        Path("node.toml").write_text(f"[gateway]\n{text}\n")
        return load_config(
            Path("node.toml"), {"SHARDFW_TOKEN": "t"} if environ is None else environ
        )

    return run


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("url = 'wss://gateway.discord.gg'", "wss://gateway.discord.gg/?v=10&encoding=json"),
        (
            "url = 'wss://GATEWAY-us-east1-b.Discord.gg./'",
            "wss://gateway-us-east1-b.discord.gg/?v=10&encoding=json",
        ),
        (
            "profile = 'fluxer'\nurl = 'wss://gateway.fluxer.app/'",
            "wss://gateway.fluxer.app/?v=1&encoding=json",
        ),
        (f"discovery = 'http'\ndiscovery_url = '{DISCORD}'", DISCORD),
        # /gateway/bot is the local gateway's: without a path it is that of the service.
        ("discovery = 'http'\ndiscovery_url = 'https://discord.com'", DISCORD),
        ("discovery = 'http'\ndiscovery_url = 'https://discord.com/x'", "https://discord.com/x"),
        (f"profile = 'fluxer'\ndiscovery = 'http'\ndiscovery_url = '{FLUXER}'", FLUXER),
        (
            "profile = 'fluxer'\ndiscovery = 'http'\ndiscovery_url = 'https://fluxer.app'",
            "https://fluxer.app/.well-known/fluxer",
        ),
        (
            "url = 'wss://gateway.lan/'\nresume_suffix = 'discord.gg'",
            "wss://gateway.lan/?v=10&encoding=json",
        ),
    ],
)
def test_a_service_is_reached_over_tls(load, text, url):
    where = load(text).gateway.endpoint
    assert f"{where.scheme}://{where.host}{where.path}" == url
    assert (where.port, where.secure) == (443, True)


def test_names_that_only_look_like_a_service_s_are_one_s_own(load):
    where = load("url = 'ws://xdiscord.gg/'\nresume_suffix = 'discord.gg.lan'").gateway.endpoint
    assert where.url == "ws://xdiscord.gg:80/?v=10&encoding=json"


@pytest.mark.parametrize(
    ("text", "key", "url"),
    [
        ("url = 'ws://gateway.discord.gg/'", "url", 'url = "wss://gateway.discord.gg/"'),
        ("url = 'ws://gateway.discord.gg:443/'", "url", 'url = "wss://gateway.discord.gg/"'),
        ("host = 'GATEWAY-us-east1-b.Discord.gg.'", "host", 'url = "wss://gateway.discord.gg/"'),
        ("host = 'discord.com'\nport = 443", "host", 'url = "wss://gateway.discord.gg/"'),
        ("host = 'gateway.fluxer.app'", "host", 'url = "wss://gateway.fluxer.app/"'),
        (
            "discovery = 'http'\ndiscovery_url = 'http://discord.com/api/v10/gateway/bot'",
            "discovery_url",
            f'discovery_url = "{DISCORD}"',
        ),
        ("host = 'discord.com'\ndiscovery = 'http'", "host", f'discovery_url = "{DISCORD}"'),
        (
            "profile = 'fluxer'\ndiscovery = 'http'\ndiscovery_url = 'http://fluxer.app/'",
            "discovery_url",
            f'discovery_url = "{FLUXER}"',
        ),
        ("resume_suffix = 'discord.gg'", "resume_suffix", 'url = "wss://gateway.discord.gg/"'),
    ],
)
def test_without_tls_it_is_refused_with_the_url_to_write(load, text, key, url):
    with pytest.raises(ConfigError) as caught:
        load(text)
    (line,) = str(caught.value).splitlines()
    at = 2 + [row.partition(" ")[0] for row in text.splitlines()].index(key)
    assert line.startswith(f"node.toml:{at}: gateway.{key}: ")
    assert line.endswith(
        f" is reached over TLS alone; without it the token could be read on the way. Write {url}"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "url = 'wss://gateway.fluxer.app/'",
            'gateway.fluxer.app does not speak discord. Write profile = "fluxer"',
        ),
        (
            "profile = 'fluxer'\nurl = 'wss://gateway.discord.gg/'",
            'gateway.discord.gg does not speak fluxer. Write profile = "discord"',
        ),
    ],
)
def test_a_service_has_its_own_rules(load, text, message):
    with pytest.raises(ConfigError, match=f"gateway.profile: {message}"):
        load(text)


AGENT = "DiscordBot (https://bot.example, 1.0)"


@pytest.mark.parametrize(
    ("agent", "url"),
    [
        (AGENT, "wss://gateway.discord.gg/"),
        (f"{AGENT} library/2", "wss://gateway.discord.gg/"),
        ("a" * 64, "wss://gateway.lan/"),
        ("x", "ws://10.0.2.2/"),
    ],
)
def test_the_node_calls_itself_what_is_written(load, agent, url):
    page = unpack(ConfigBlob, config_blob(load(f"user_agent = '{agent}'\nurl = '{url}'")))
    assert page["user_agent"][: page["user_agent_len"]] == agent.encode()


def test_it_has_a_name_without_any():
    page = unpack(ConfigBlob, config_blob(load_config(None, {})))
    assert page["user_agent"][: page["user_agent_len"]] == b"DiscordBot (shardfw, 0.1)"


@pytest.mark.parametrize(
    "agent", ["", " x", "x ", "a" * 65, "b\u00f6t", "a\\tb", "a\\r\\nCookie: b"]
)
def test_what_is_no_user_agent_is_refused(load, agent):
    with pytest.raises(ConfigError) as caught:
        load(f'user_agent = "{agent}"')
    assert str(caught.value) == (
        "node.toml:2: gateway.user_agent: a User-Agent is printable ASCII of 1 to 64 bytes, without a "
        'blank at either end. Write one such as "DiscordBot (https://bot.example, 1.0)"'
    )


@pytest.mark.parametrize("agent", ["bot", "DiscordBot", "DiscordBot (https://bot.example)"])
def test_discord_is_told_who_runs_the_bot(load, agent):
    with pytest.raises(ConfigError) as caught:
        load(f"url = 'wss://gateway.discord.gg/'\nuser_agent = '{agent}'")
    assert str(caught.value) == (
        'node.toml:3: gateway.user_agent: gateway.discord.gg asks for "DiscordBot (url, version)". '
        "Write that"
    )


@pytest.mark.parametrize("text", ["url = 'wss://gateway.discord.gg/'", "resume_suffix = 'a.lan'"])
def test_an_image_for_a_service_has_a_token(load, text):
    """The placeholder is for gateways of one's own; `shardfw run` puts the local one in its place."""
    config = load(text, {})
    if "discord" not in text:
        assert unpack(ConfigBlob, config_blob(config))["token_len"] == len("local-development")
        return
    with pytest.raises(click.ClickException) as caught:
        config_blob(config)
    assert caught.value.message == (
        "gateway.discord.gg wants the bot's token and none is named. Set SHARDFW_TOKEN, or write "
        "token_env or token_file under [bot]"
    )
