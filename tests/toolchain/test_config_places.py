"""`[gateway]` and `[network]`: where the node is, and whom it asks."""

import re
from ipaddress import IPv4Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.node_toml import Fail, Load
from toolchain.config import NodeConfig
from toolchain.config.endpoint import check_host


class TestGateway:
    @pytest.mark.parametrize(
        ("text", "url"),
        [
            ("url = 'ws://192.0.2.1'", "ws://192.0.2.1:80/?v=10&encoding=json"),
            ("url = 'ws://Gateway.LAN.:8080/x'", "ws://gateway.lan:8080/x?v=10&encoding=json"),
            ("url = 'ws://gw:1/?v=9'", "ws://gw:1/?v=9"),
            ("host = 'GW.lan'\nport = 9\npath = '/a'", "ws://gw.lan:9/a?v=10&encoding=json"),
            ("host = 'xdiscord.gg'", "ws://xdiscord.gg:80/?v=10&encoding=json"),
            ("profile = 'fluxer'", "ws://10.0.2.2:80/?v=1&encoding=json"),
            ("discovery = 'http'", "http://10.0.2.2:80/gateway/bot"),
            (
                "discovery = 'http'\nprofile = 'fluxer'",
                "http://10.0.2.2:80/.well-known/fluxer",
            ),
            (
                "discovery = 'http'\ndiscovery_url = 'http://Api.LAN.:8080/api/v10/gateway/bot'",
                "http://api.lan:8080/api/v10/gateway/bot",
            ),
            ("discovery = 'http'\nhost = 'gw'\nport = 9\npath = '/a'", "http://gw:9/a"),
        ],
    )
    def test_place_is_read_from_url_or_parts(self, load: Load, text: str, url: str) -> None:
        assert load(f"[gateway]\n{text}\n").gateway.endpoint.url == url

    def test_address_is_none_for_a_name(self, load: Load) -> None:
        assert load("[gateway]\nhost = 'gw'\n").gateway.endpoint.address is None
        assert NodeConfig.default().gateway.endpoint.address == IPv4Address("10.0.2.2")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("url = 'wss://localhost/'", "url: localhost is not another machine"),
            ("url = 'http://gw/'", "url: this is not a WebSocket URL"),
            ("url = 'ws://gw:99999/'", "url: Port out of range"),
            ("url = 'ws://gw:0/'", "url: port 0 is no port"),
            ("url = 'ws://u:p@gw/'", "url: a URL with a user or password"),
            ("url = 'ws://[::1]/'", "url: '::1' is an IPv6 address"),
            ("url = 'ws://gw/a b'", "url: '/a b' is not a request path"),
            ("url = 'ws://gw/#x'", "url: '/#x' is not a request path"),
            ("url = 'ws://gw/'\nport = 1", "port: url is given too. Write either url, or host,"),
            (
                "discovery_url = 'http://gw/'",
                'discovery_url: discovery is "static". Write discovery = "http", or leave this',
            ),
            (
                "discovery = 'http'\nurl = 'ws://gw/'",
                "url: the gateway is asked for. Write discovery_url, or host, port and path, of",
            ),
            (
                "discovery = 'http'\ndiscovery_url = 'wss://gw/'",
                "discovery_url: this is not an HTTP URL. Write one such as http://10.0.2.2:8080/",
            ),
            (
                "discovery = 'http'\ndiscovery_url = 'ws://gw/'",
                "discovery_url: this is not an HTTP URL",
            ),
            ("host = 'localhost'", "host: localhost is not another machine"),
            ("host = '127.0.0.1'", "host: 127.0.0.1 is not another machine"),
            ("host = '10.0.0.256'", "host: '10.0.0.256' is not an IPv4 address"),
            ("host = '-a'", "host: '-a' is not a host"),
            ("host = 'a..b'", "host: 'a..b' is not a host"),
            ("resume_suffix = 'a..b'", "resume_suffix: 'a..b' is not a host"),
            ("resume_suffix = ''", "resume_suffix: '' is not a host"),
            ("resume_suffix = 1", "resume_suffix: 1 is not text in double quotes. Write a domain"),
            ("path = 'x'", "path: 'x' is not a request path"),
            (f"path = '/{'a' * 256}'", "path: the path has 257 bytes. Write at most 256"),
        ],
    )
    def test_unusable_place_is_refused(self, fail: Fail, text: str, message: str) -> None:
        (line,) = fail(f"[gateway]\n{text}\n")
        assert re.sub(r"^node\.toml:[23]: gateway\.", "", line).startswith(message)

    @pytest.mark.parametrize("key", ["host = 'a'", "port = 1", "path = '/a'"])
    def test_who_is_asked_is_named_once(self, fail: Fail, key: str) -> None:
        text = "[gateway]\ndiscovery = 'http'\ndiscovery_url = 'http://gw/'\n"
        (line,) = fail(f"{text}{key}\n")
        assert "discovery_url is given too. Write either discovery_url, or host, port" in line

    @given(st.text(max_size=80))
    def test_a_host_that_passes_fits_a_dns_query(self, host: str) -> None:
        try:
            checked = check_host(host)
        except ValueError:
            return
        assert checked.isascii()
        assert all(1 <= len(label) <= 63 for label in checked.split("."))


class TestNetwork:
    STATIC = "[network]\ndhcp = false\naddress = '192.0.2.10'\nnetmask = '255.255.255.0'\n"

    def test_static_address(self, load: Load) -> None:
        network = load(self.STATIC + "router = '192.0.2.1'\n").network
        assert network.address == IPv4Address("192.0.2.10")
        assert network.router == IPv4Address("192.0.2.1")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("[network]\naddress = '192.0.2.1'\n", "2: network.address: dhcp is on. Write dhcp"),
            ("[network]\ndhcp = false\n", "2: network.dhcp: without DHCP the node needs address"),
            (
                STATIC.replace("255.255.255.0", "0.0.0.255"),
                "4: network.netmask: 0.0.0.255 is not a netmask",
            ),
            (
                STATIC.replace("255.255.255.0", "255.0.255.0"),
                "4: network.netmask: 255.0.255.0 is not a netmask",
            ),
            (STATIC.replace(".10'", ".255'"), "3: network.address: 192.0.2.255 is no address for"),
            (
                STATIC + "router = '10.0.0.1'\n",
                "5: network.router: 10.0.0.1 is not in 192.0.2.0/24",
            ),
            (
                STATIC + "[gateway]\nhost = 'gw.lan'\n",
                "1: network.dns: gw.lan is a name and there is no DNS server",
            ),
            (STATIC.replace("192.0.2.10", "host"), "3: network.address: 'host' is not an IPv4"),
        ],
    )
    def test_unusable_addresses_are_refused(self, fail: Fail, text: str, message: str) -> None:
        (line,) = fail(text)
        assert line.startswith(f"node.toml:{message}")
