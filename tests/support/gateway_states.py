"""A client of the gateway in each state of its session, and what a failure of it leaves."""

from firmware.gateway.poll import gateway_poll
from firmware.gateway.timers import gateway_tick
from firmware.layouts.config import CONFIG
from firmware.layouts.shard import End, FailureFlag
from tests.support.gateway_client import GatewayClient, ready_data
from tests.support.lab import Lab

LAB = Lab(gateway_poll, gateway_tick)


def client(**kwargs):
    """Return one that waits for Hello."""
    return GatewayClient(LAB, **kwargs)


def identified():
    """Return one whose Identify was sent."""
    c = client()
    c.hello()
    c.sent()
    return c


def identified_at(host):
    """Return one whose Identify was sent to a gateway with this host."""
    c = identified()
    LAB.g(CONFIG).gateway_host[: len(host)] = host
    LAB.g(CONFIG).gateway_host_len = len(host)
    return c


def ready(sequence=1, **changes):
    """Return one that READY came to, with changes of what READY says."""
    c = identified()
    c.dispatch("READY", sequence, ready_data(**changes))
    return c


def resuming(sequence=41):
    """Return one whose Resume was sent."""
    c = client()
    c.resumable(sequence)
    c.hello()
    c.sent()
    return c


def failed_with(c, site, *, end=End.PROTOCOL, flags=FailureFlag.RESET_SESSION, close=4000):
    """Check that the attempt failed at this site, and what it asks for."""
    context = c.shard
    assert context.last_error & 0xFFFF_0000 == site.code
    assert (context.failure, context.failure_flags, context.failure_close) == (end, flags, close)
