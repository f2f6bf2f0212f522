"""Fixtures of the command tests."""

import socket

import pytest


@pytest.fixture
def unused_listener():
    """A TCP socket that listens on a free port of loopback, so that nobody else can."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener
