"""A client of the gateway over a real WebSocket."""

import json

from websockets.asyncio.client import ClientConnection

from pxe.gateway import GatewayOptions

QUERY = "/?v=10&encoding=json"
PROPERTIES = {"os": "none", "browser": "test", "device": "test"}
QUIET = GatewayOptions(guilds_per_shard=0, identify_interval_ms=0, shards=2)


async def send(client: ClientConnection, op: int, body: object) -> None:
    """Send one message."""
    await client.send(json.dumps({"op": op, "d": body}))


async def receive(client: ClientConnection) -> dict[str, object]:
    """Return the next message."""
    message: dict[str, object] = json.loads(await client.recv())
    return message


async def identify(client: ClientConnection, shard: int = 0) -> dict[str, object]:
    """Identify and return the body of READY."""
    assert (await receive(client))["op"] == 10
    body = {"token": "t", "properties": PROPERTIES, "intents": 1, "shard": [shard, 2]}
    await send(client, 2, body)
    ready = await receive(client)
    assert ready["t"] == "READY"
    assert isinstance(ready["d"], dict)
    return ready["d"]
