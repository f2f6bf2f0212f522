"""In a fleet an Identify waits, behind Hello, for its ticket; a Resume and a node alone wait for nothing."""

import pytest

from emulator.environment import Environment
from firmware.gateway.poll import gateway_poll
from firmware.gateway.timers import gateway_tick
from firmware.layouts.fleet import FLEET, FLEET_VIEW, PlanMode, WatchState
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.fleet_tickets import FLEET_TICKETS, Ticket, TicketPhase
from firmware.layouts.gateway import GatewayFlag, GatewayState
from firmware.layouts.profile import ProfileId
from tests.support.fleet import set_fields
from tests.support.gateway_client import CYCLES_PER_MS, GatewayClient
from tests.support.lab import Lab

LAB = Lab(gateway_poll, gateway_tick, slots=1, semantics=False)


@pytest.fixture
def client():
    c = GatewayClient(LAB)
    LAB.g(FLEET_CONFIG).magic = FLEET_MAGIC
    LAB.g(FLEET).watch = WatchState.SYNCED
    view = LAB.g(FLEET_VIEW)
    set_fields(view.plan, mode=PlanMode.ACTIVE, max_concurrency=1)
    set_fields(view.tickets[0], revision=5, seen_at=c.now)
    return c


def ticket():
    return LAB.view(Ticket, LAB.image.address(FLEET_TICKETS))


def grant(c, number=3):
    set_fields(ticket(), phase=TicketPhase.MINE, paid=1, shard=number, sent_at=c.now)


def tick(c):
    found = LAB.call(gateway_tick, Environment(tsc=lambda: c.now), shard=c.at).outputs["rax"]
    return (found - c.now) / CYCLES_PER_MS


def test_an_identify_waits_for_its_ticket_and_heartbeats_go_on(client):
    client.hello(5_000)
    assert client.gateway.state == GatewayState.ANSWER
    assert client.gateway.flags == GatewayFlag.TICKET_WAIT
    assert tick(client) <= 20
    client.wait(5_000)
    assert tick(client) == 20
    assert [m["op"] for m in client.sent()] == [1]
    grant(client)
    client.gateway.flags = GatewayFlag.TICKET_WAIT | GatewayFlag.ACK_PENDING
    assert tick(client) > 20
    assert [m["op"] for m in client.sent()] == [2]
    assert client.gateway.state == GatewayState.WAIT_READY
    assert client.gateway.flags == GatewayFlag.ACK_PENDING
    assert (ticket().phase, ticket().paid) == (TicketPhase.NONE, 0)


def test_an_identify_without_room_keeps_its_ticket_while_it_is_good(client):
    client.hello(45_000)
    client.stream.fill(left=10)
    grant(client)
    tick(client)
    assert (ticket().phase, client.gateway.state) == (TicketPhase.MINE, GatewayState.ANSWER)
    assert not client.gateway.flags & GatewayFlag.TICKET_WAIT
    client.stream.take_sent()
    client.wait(1_000)
    tick(client)
    assert (client.sent(), ticket().phase) == ([], TicketPhase.NONE)
    assert client.gateway.flags & GatewayFlag.TICKET_WAIT


def test_a_ticket_of_another_shard_is_not_used(client):
    client.hello(45_000)
    grant(client, number=4)
    tick(client)
    assert client.sent() == []


def test_each_service_has_its_own_time_between_two_identifies(client):
    """It is an argument of the call for a ticket, which the model has to make alike."""
    client.shard.profile = ProfileId.FLUXER
    client.hello(45_000)
    assert client.gateway.flags == GatewayFlag.TICKET_WAIT


def test_a_resume_takes_no_ticket(client):
    client.resumable()
    client.hello(45_000)
    assert [m["op"] for m in client.sent()] == [6]
    assert ticket().phase == TicketPhase.NONE


def test_a_node_alone_needs_none(client):
    LAB.g(FLEET_CONFIG).magic = 0
    client.hello(45_000)
    assert [m["op"] for m in client.sent()] == [2]
    assert client.gateway.flags == 0
