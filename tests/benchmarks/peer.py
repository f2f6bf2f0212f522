"""Hold shards natively, in one process of Python, and tell how many dispatches came.

    python tests/benchmarks/peer.py LIBRARY PORT SHARDS

LIBRARY is a key of PEERS. Each line on standard input is answered by one line of JSON: shard id to
the number of dispatches.
"""

import asyncio
import base64
import json
import sys
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

TOKEN = base64.b64encode(b"1100000000000000001").decode() + ".aaaaaa.bbbbbbbbbbbbbbbbbbbbbbbbbbb"
"""hikari wants a token whose first part is the base64 of a snowflake."""


class Shards:
    """What a bot does at the least: parse each message, keep the sequence, answer."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.counts = dict.fromkeys(range(count), 0)
        self.sequences = dict.fromkeys(range(count), 0)

    def feed(self, shard: int, text: str | bytes) -> str | None:
        """Take one message; return the answer it asks for."""
        message = json.loads(text)
        if message["op"] == 0:
            self.counts[shard] += 1
            self.sequences[shard] = message["s"]
        elif message["op"] == 10:
            return json.dumps({"op": 2, "d": self.identify(shard)})
        return None

    def identify(self, shard: int) -> dict[str, object]:
        """Return the body of Identify."""
        properties = dict.fromkeys(("os", "browser", "device"), "peer")
        pair = [shard, self.count]
        return {"token": TOKEN, "intents": 513, "properties": properties, "shard": pair}


async def with_websockets(port: int, shards: Shards) -> None:
    """Hold the shards with the library `websockets`."""
    from websockets.asyncio.client import connect

    async def hold(shard: int) -> None:
        url = f"ws://127.0.0.1:{port}/?v=10&encoding=json"
        async with connect(url, compression=None, ping_interval=None, max_size=None) as socket:
            async for text in socket:
                answer = shards.feed(shard, text)
                if answer is not None:
                    await socket.send(answer)

    await asyncio.gather(*map(hold, range(shards.count)))


async def with_aiohttp(port: int, shards: Shards) -> None:
    """Hold the shards with aiohttp, whose parser of frames is compiled."""
    import aiohttp

    async def hold(session: aiohttp.ClientSession, shard: int) -> None:
        url = f"ws://127.0.0.1:{port}/?v=10&encoding=json"
        async with session.ws_connect(url, max_msg_size=0) as socket:
            async for message in socket:
                answer = shards.feed(shard, message.data)
                if answer is not None:
                    await socket.send_str(answer)

    async with aiohttp.ClientSession() as session:
        await asyncio.gather(*(hold(session, shard) for shard in range(shards.count)))


async def with_discord_py(port: int, shards: Shards) -> None:
    """Hold the shards with discord.py, its caches as small as it lets them be."""
    with warnings.catch_warnings():
        # discord.py imports audioop, which Python 3.11 deprecates.
        warnings.simplefilter("ignore", DeprecationWarning)
        import discord
        from discord.gateway import DiscordWebSocket
        from discord.http import Route
    from yarl import URL

    Route.BASE = f"http://127.0.0.1:{port}/api/v10"
    DiscordWebSocket.DEFAULT_GATEWAY = URL(f"ws://127.0.0.1:{port}")
    received = DiscordWebSocket.received_message

    async def counted(self: Any, text: str | bytes, /) -> None:
        await received(self, text)
        if self.sequence is not None:
            shard = self.shard_id or 0
            shards.counts[shard] += self.sequence != shards.sequences[shard]
            shards.sequences[shard] = self.sequence

    # Only the count is added: what discord.py does with a message stays its own.
    setattr(DiscordWebSocket, received.__name__, counted)
    client = discord.AutoShardedClient(
        intents=discord.Intents(guilds=True, guild_messages=True),
        shard_count=shards.count,
        chunk_guilds_at_startup=False,
        max_messages=None,
        member_cache_flags=discord.MemberCacheFlags.none(),
    )
    async with client:
        await client.start(TOKEN)


async def with_hikari(port: int, shards: Shards) -> None:
    """Hold the shards with hikari; its own event of a message is what counts."""
    import hikari
    from hikari.impl.shard import GatewayShardImpl

    # The hose pours plain text; without decompression hikari has less to do.
    (GatewayShardImpl.__init__.__kwdefaults__ or {})["compression"] = None
    bot = hikari.GatewayBot(
        TOKEN,
        banner=None,
        logs=None,
        rest_url=f"http://127.0.0.1:{port}/api/v10",
        intents=hikari.Intents.GUILDS | hikari.Intents.GUILD_MESSAGES,
    )

    async def count(event: hikari.GuildMessageCreateEvent) -> None:
        shards.counts[event.shard.id] += 1

    bot.subscribe(hikari.GuildMessageCreateEvent, count)
    await bot.start(check_for_updates=False, shard_count=shards.count)
    try:
        await bot.join()
    finally:
        await bot.close()


PEERS: dict[str, Callable[[int, Shards], Awaitable[None]]] = {
    "websockets": with_websockets,
    "aiohttp": with_aiohttp,
    "discord.py": with_discord_py,
    "hikari": with_hikari,
}


async def questions() -> AsyncIterator[str]:
    """Yield the lines of standard input."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        yield line.decode()


async def main(library: str, port: int, count: int) -> None:
    """Hold the shards until standard input ends."""
    shards = Shards(count)
    holding = asyncio.ensure_future(PEERS[library](port, shards))
    async for _ in questions():
        if holding.done():
            break
        sys.stdout.write(json.dumps(shards.counts) + "\n")
        sys.stdout.flush()
    holding.cancel()
    await asyncio.gather(holding, return_exceptions=not holding.done())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
