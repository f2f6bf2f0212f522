"""Who the node is at NATS: as configured at boot; and what its inbox is called while it enrols."""

import pytest

from firmware.bus.send import bus_put_inbox
from firmware.bus.setup import bus_credentials
from firmware.layouts.bus import BUS
from firmware.layouts.credentials import CREDENTIALS, Credentials
from firmware.layouts.fleet_config import FLEET_CONFIG, BusAuth
from tests.support.fleet import name_node
from tests.support.lab import Lab

LAB = Lab(bus_credentials, bus_put_inbox)


@pytest.mark.parametrize("auth", BusAuth)
def test_bus_credentials_are_those_of_the_configuration(auth):
    LAB.reset()
    config = LAB.g(FLEET_CONFIG)
    config.auth, config.user_len, config.password_len = auth, 2, 64
    config.user[:], config.password[:] = b"n7".ljust(64, b"\0"), b"p" * 64
    config.nkey_seed[:], config.nkey_public[:] = bytes(range(32)), b"U" * 56
    LAB.machine.write(LAB.image.address(CREDENTIALS), b"\xee" * Credentials.SIZE)
    LAB.call(bus_credentials)
    mine = LAB.g(CREDENTIALS)
    assert (mine.auth, mine.user_len, mine.password_len) == (auth, 2, 64)
    for name in ("user", "password", "nkey_seed", "nkey_public"):
        assert bytes(getattr(mine, name)) == bytes(getattr(config, name)), name


@pytest.mark.parametrize(("enrolling", "letter"), [(0, b"I"), (1, b"E")])
@pytest.mark.parametrize(("index", "link"), [(0, b"c"), (1, b"d")])
def test_bus_put_inbox_says_whether_the_node_enrols(enrolling, letter, index, link):
    LAB.reset()
    name_node(LAB)
    bus = LAB.g(BUS)
    bus.enrolling, bus.links[index].index = enrolling, index
    at = LAB.machine.alloc(64)
    end = LAB.call(bus_put_inbox, link=bus.links[index].address_, text=at).outputs["rdi"]
    assert LAB.machine.read(at, end - at) == b"_%b.n7.3fa2c1d0.%b." % (letter, link)
