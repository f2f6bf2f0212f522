"""What the library of NATS leaves to its users."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nats.aio.client import Client


async def settle(client: Client) -> None:
    """Wait until the server has seen all that was sent, and said what of it it denies.

    Args:
        client: A client that is connected.

    Raises:
        nats.errors.Error: The connection is gone, or the server does not answer.
    """
    # The library's first PING may overtake what was sent before; it answers when that has left.
    for _ in range(2):
        await client.flush()


def is_wanted() -> bool:
    """Return whether nobody has cancelled this task.

    A loop over answers of the library has to ask: it waits with `asyncio.wait_for`, which in Python 3.11
    loses a cancellation that comes together with an answer.
    """
    task = asyncio.current_task()
    return task is None or not task.cancelling()
