"""A shard that asks for the gateway, and the answers that it hears, in any parts."""

from firmware.gateway.discovery_ask import discovery_begin, discovery_send
from firmware.gateway.discovery_body import discovery_body, discovery_chunk
from firmware.gateway.discovery_head import discovery_head
from firmware.layouts.config import CONFIG
from firmware.layouts.discovery import DISCOVERY, DiscoveryState
from firmware.layouts.log import LOG, LOG_RING
from firmware.layouts.node import CLOCK, CORE, PLAN
from firmware.layouts.permit import PERMITS
from firmware.layouts.profile import ProfileId
from firmware.layouts.shard import End, FailureFlag, ShardContext
from firmware.layouts.tcp import TcpState
from tests.support.lab import Lab
from tests.support.stream import Stream
from tests.support.token import set_token

LAB = Lab(discovery_begin, discovery_send, discovery_head, discovery_body, discovery_chunk)
MS, NOW = 1000, 10**9
TOKEN = b"MTk4.token_of-the.bot"
HOST, PATH = b"api.test", b"/gateway/bot"
BOT: dict[str, object] = {
    "url": "ws://gateway.test:8080/ws",
    "shards": 9,
    "session_start_limit": {
        "total": 1000, "remaining": 998, "reset_after": 14400000, "max_concurrency": 16,
    },
}  # fmt: skip
WELL_KNOWN: dict[str, object] = {"endpoints": {"api": "http://x", "gateway": "ws://fluxer.test"}}


class Question:
    """A shard whose connection to the discovery host is open."""

    def __init__(self, *, profile=ProfileId.DISCORD, host=HOST, port=80, path=PATH):
        LAB.reset()
        LAB.g(CLOCK).tsc_cycles_per_ms, LAB.g(CORE).now = MS, NOW
        config = LAB.g(CONFIG)
        config.gateway_port = port
        for name, text in (("gateway_host", host), ("gateway_path", path)):
            getattr(config, name)[: len(text)] = text
            setattr(config, f"{name}_len", len(text))
        set_token(LAB, TOKEN)
        LAB.g(PLAN).global_total = 9
        LAB.g(PERMITS).max_concurrency = 1
        LAB.g(PERMITS).keys[0].owner = 1
        self.at = LAB.shard()
        self.shard.attempts, self.shard.profile = 3, profile
        LAB.call(discovery_begin, shard=self.at)
        self.connect()

    def connect(self):
        self.stream = Stream(LAB, self.at, head=20_000)
        self.found.state = DiscoveryState.CONNECT
        LAB.call(discovery_send, shard=self.at)

    @property
    def shard(self):
        return LAB.view(ShardContext, self.at)

    @property
    def found(self):
        return LAB.g(DISCOVERY)

    @property
    def error(self):
        return self.found.error

    def read(self):
        for state, step in (
            (DiscoveryState.HEAD, discovery_head),
            (DiscoveryState.BODY, discovery_body),
        ):
            if self.found.state == state:
                LAB.call(step, shard=self.at)

    def hear(self, *parts, close=False):
        """Let parts of an answer arrive, then perhaps the end of the stream."""
        for part in parts:
            if self.found.state in (DiscoveryState.HEAD, DiscoveryState.BODY):
                self.stream.feed(part)
                self.read()
        if close and self.shard.tcp.state == TcpState.ESTABLISHED:
            self.stream.tcp.state = TcpState.CLOSE_WAIT
            self.read()
        return self

    def gateway(self):
        """Return what was found: host, port, path."""
        assert self.found.state == DiscoveryState.FOUND
        assert self.found.owner == 0
        host = bytes(self.found.gateway_host[: self.found.gateway_host_len])
        path = bytes(self.found.gateway_path[: self.found.gateway_path_len])
        return host, self.found.gateway_port, path

    def check_refused(self, error):
        assert self.found.state == DiscoveryState.REFUSED
        assert (self.error, self.found.owner) == (error, 0)
        self._check_failure(FailureFlag.FATAL)

    def check_later(self, error, wait_ms=5_000):
        assert self.found.state == DiscoveryState.IDLE
        assert (self.error, self.found.owner) == (error, 0)
        assert (self.found.failed_at, self.found.not_before) == (NOW, NOW + wait_ms * MS)
        self._check_failure(FailureFlag.WAIT if self.found.status == 429 else 0)
        asked = self.found.retry_after_ms != 0
        assert self.shard.required_wait_ms == (wait_ms if asked else 0)

    def _check_failure(self, flags):
        shard = self.shard
        assert (shard.failure, shard.last_error) == (End.NETWORK, self.error)
        assert shard.failure_flags == flags
        assert shard.websocket.http_status == self.found.status

    def lines(self):
        raw = LAB.machine.read(LAB.image.address(LOG_RING), LAB.g(LOG).head)
        return raw.decode().splitlines()


def ask(wire, *, close=False, **options):
    """Return a question that heard one answer in one part."""
    return Question(**options).hear(wire, close=close)
