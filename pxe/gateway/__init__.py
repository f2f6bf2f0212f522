"""A gateway for development and tests, Discord's or Fluxer's.

The protocol lives in classes without any I/O (:mod:`pxe.gateway.core`,
:mod:`pxe.gateway.connection`): text in, actions out, time from a clock object.
This package exports them; importing it loads neither asyncio nor sockets.
:mod:`pxe.gateway.server` puts them behind the ``websockets`` library,
:mod:`pxe.gateway.thread` runs that server beside synchronous code, and
:mod:`pxe.gateway.cli_support` is what the command line calls. Read
:mod:`pxe.gateway.protocol` first: its tables say what the profile means.
"""

from pxe.gateway.actions import Abort, Action, Close, HangUp, Send, Wire
from pxe.gateway.clock import Clock, ManualClock, MonotonicClock
from pxe.gateway.connection import Connection
from pxe.gateway.core import Gateway
from pxe.gateway.events import GatewayEvent
from pxe.gateway.load import LoadOptions
from pxe.gateway.options import GatewayOptions
from pxe.gateway.script import Step, parse_script

__all__ = [
    "Abort",
    "Action",
    "Clock",
    "Close",
    "Connection",
    "Gateway",
    "GatewayEvent",
    "GatewayOptions",
    "HangUp",
    "LoadOptions",
    "ManualClock",
    "MonotonicClock",
    "Send",
    "Step",
    "Wire",
    "parse_script",
]
