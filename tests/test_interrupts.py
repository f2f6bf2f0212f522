"""Programs that tests start end at SIGINT, also where the tests themselves were started without it."""

import signal
import subprocess
import sys

import pytest

from tests.support.interrupts import hear_interrupts

IGNORES = "import signal; raise SystemExit(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"


def child_ignores():
    return subprocess.run([sys.executable, "-c", IGNORES], check=False).returncode == 1


@pytest.fixture
def in_the_background():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


def test_what_a_test_starts_hears_interrupts():
    assert not child_ignores()


@pytest.mark.usefixtures("in_the_background")
def test_a_background_job_would_not_without_being_told_to():
    assert child_ignores()
    hear_interrupts()
    assert not child_ignores()


def test_who_hears_already_is_left_alone():
    before = signal.getsignal(signal.SIGINT)
    hear_interrupts()
    assert signal.getsignal(signal.SIGINT) is before
