"""What a node announces is read strictly, and what is sealed goes to that node alone."""

import pytest

from tests.support.enrolling import BUILD_ID, IDENTITY
from toolchain.cli.fleet.enrolment import Announcement, Identity

KEY = "ab" * 32


def line(body, *, subject="shardfw.b1.enrol.n7", reply="_E.n7.3fa2c1d0.c.1"):
    return Announcement.parse(subject, reply, body.encode())


def test_an_announcement_is_read_strictly():
    good = f"1 waiting 0 {KEY} {IDENTITY}"
    assert line(good).node == "n7"
    assert line(f"1 enrolled 12 {KEY} {IDENTITY}", reply="").enrolled
    for body in (
        "", good + " ", " " + good, good.replace("1 w", "2 w"), good.replace("waiting", "asking"),
        good.replace(" 0 ", " 00 "), good.replace(KEY, KEY[:-1]), good.replace(KEY, KEY.upper()),
        good.replace("525400000077", "52540000007"), good.replace(BUILD_ID, BUILD_ID[:-2]),
        good.replace("S-1", "S 1"), good.replace("S-1", "x" * 65), good.replace("S-1", "\x1b[31m"),
    ):  # fmt: skip
        assert line(body) is None, body
    assert line(good, subject="shardfw.b1.enrol.n*7") is None


@pytest.mark.parametrize(
    "reply",
    ["", "$KV.shardfw.b1.ctl.plan", "_E.n8.3fa2c1d0.c.1", "_I.n7.3fa2c1d0.c.1", "_E.n7.3fa2c1d0.c.0",
     "_E.n7.3fa2c1d0.c.1.x", "_E.n7.3fa2c1d.c.1", "_E.n7.3fa2c1d0.d.1", "_E.n7.3fa2c1d0.c.*"],
)  # fmt: skip
def test_an_answer_goes_to_the_inbox_of_that_node_alone(reply):
    assert line(f"1 waiting 0 {KEY} {IDENTITY}", reply=reply) is None


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("mac=52:54:00:00:00:77", True),
        ("mac=525400000077,serial=S-1", True),
        ("uuid=4C4C4544-0057-4D10-8030-B4C04F4B5931", True),
        ("serial=S-1", True),
        ("serial=S 1", False),
        ("mac=525400000077,serial=S-2", False),
        ("uuid=4c4c4544-0057-4d10-8030-b4c04f4b5932", False),
    ],
)
def test_an_identity_is_all_that_is_given_of_it(text, matches):
    assert Identity.parse(text).is_of(line(f"1 waiting 0 {KEY} {IDENTITY}")) == matches


def test_a_serial_number_is_compared_as_the_node_writes_it():
    assert Identity.parse("serial=VMware-56 4d  ").serial == "VMware-56_4d"
    assert Identity.parse("serial=" + "x" * 80).serial == "x" * 64


def test_a_key_of_small_order_is_not_sealed_to():
    from toolchain.cli.fleet.connect import FleetError

    with pytest.raises(FleetError, match="n7 announces a public key that is none"):
        Announcement("n7", False, 0, bytes(32), IDENTITY, "_E.x").seal("b1", b"grant")
