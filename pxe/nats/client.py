"""What the library of NATS leaves to its users."""

from __future__ import annotations

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
