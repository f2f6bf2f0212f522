"""Redirects: which are followed, who gets the token, and which lead nowhere."""

import pytest

from firmware.layouts.discovery import DISCOVERY_LOCATION, DISCOVERY_REDIRECTS, DiscoveryState
from firmware.layouts.gateway import UrlFault
from firmware.layouts.shard import End
from firmware.layouts.tcp import TcpState
from pxe.gateway.rest import Reply, redirect
from tests.support.discovery import HOST, Question, ask


class TestRedirect:
    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    @pytest.mark.parametrize(
        ("location", "host", "port", "path", "token"),
        [
            ("/x?y=z", HOST, 80, b"/x?y=z", 1),
            ("http://api.test/", HOST, 80, b"/", 1),
            ("http://api.test:80", HOST, 80, b"/", 1),
            ("http://api.test?q", HOST, 80, b"/?q", 1),
            ("http://api.test:81/a", HOST, 81, b"/a", 0),
            ("http://api.tesu/a", b"api.tesu", 80, b"/a", 0),
            ("http://bpi.test/a", b"bpi.test", 80, b"/a", 0),
            ("/" + "p" * 255, HOST, 80, b"/" + b"p" * 255, 1),
            ("http://b", b"b", 80, b"/", 0),
            ("http://" + "h" * 128 + ":65535/" + "p" * 242, b"h" * 128, 65535, b"/" + b"p" * 242, 0),
        ],
    )  # fmt: skip
    def test_is_followed_and_the_token_stays(self, status, location, host, port, path, token):
        q = ask(redirect(location, status).wire())
        found = q.found
        assert found.state == DiscoveryState.RESOLVE
        assert bytes(found.host[: found.host_len]) == host
        assert bytes(found.path[: found.path_len]) == path
        assert (found.port, found.token, found.redirects) == (port, token, 1)
        assert q.shard.tcp.state == TcpState.CLOSED
        assert q.shard.failure == End.NONE

    def test_the_token_does_not_come_back(self):
        q = ask(redirect("http://b/").wire())
        q.connect()
        q.hear(redirect("http://api.test/").wire())
        q.stream.take_sent()
        q.connect()
        assert b"Authorization" not in q.stream.take_sent()

    def test_the_fourth_is_refused(self):
        q = Question()
        for _ in range(3):
            q.hear(redirect("/again").wire())
            assert q.found.state == DiscoveryState.RESOLVE
            q.connect()
        q.hear(redirect("/again").wire()).check_refused(DISCOVERY_REDIRECTS.code)

    @pytest.mark.parametrize(
        ("location", "error"),
        [
            ("https://api.test/", DISCOVERY_LOCATION.code | UrlFault.SECURITY),
            ("//other.test/", DISCOVERY_LOCATION.code | UrlFault.SCHEME),
            ("ftp://a/", DISCOVERY_LOCATION.code | UrlFault.SCHEME),
            ("gateway", DISCOVERY_LOCATION.code | UrlFault.SCHEME),
            ("http:/a", DISCOVERY_LOCATION.code | UrlFault.SCHEME),
            ("http://", DISCOVERY_LOCATION.code | UrlFault.HOST),
            ("http://a:99999/", DISCOVERY_LOCATION.code | UrlFault.PORT),
            ("http://user@a/", DISCOVERY_LOCATION.code | UrlFault.PORT),
            ("/a b", DISCOVERY_LOCATION.code | UrlFault.TARGET),
            ("/" + "p" * 256, DISCOVERY_LOCATION.code | UrlFault.TARGET),
            ("http://a?" + "p" * 255, DISCOVERY_LOCATION.code | UrlFault.TARGET),
            ("/" + "p" * 384, DISCOVERY_LOCATION.code | UrlFault.TOO_LONG),
        ],
    )
    def test_to_nowhere_is_refused(self, location, error):
        ask(redirect(location).wire()).check_refused(error)

    def test_without_a_place_is_refused(self):
        ask(Reply(302).wire()).check_refused(DISCOVERY_LOCATION.code)
