"""The fleet's client leaves a server that stands still, and one that answers nothing."""

import asyncio
import gc
import signal
from types import SimpleNamespace

import nats.errors
import nats.js.errors
import pytest

from pxe.nats import NatsCluster
from tests.support.fleet_cli import BOT, new_fleet
from toolchain.cli.fleet.change import BUDGET
from toolchain.cli.fleet.connect import STREAM, FleetError, Login, connected
from toolchain.cli.fleet.watch import View
from toolchain.cli.fleet_events import EventAccount, follow

PATIENCE_S = 120.0


# nats-py leaves open what it could not use: the server's kernel takes connections while it stands still.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_a_view_sees_what_is_written_while_its_server_stands_still() -> None:
    async def scenario() -> None:
        async with NatsCluster() as cluster:
            await new_fleet(cluster.urls[0])
            led = await cluster.leader_of(STREAM)
            others = tuple(server.url for server in cluster.servers if server is not led)
            async with connected(Login((led.url, *others)), BOT) as fleet:
                view = View(fleet)
                await view.sync()
                before = view.records[BUDGET].revision
                led.send_signal(signal.SIGSTOP)
                await cluster.leader_of(STREAM, without=led)
                async with connected(Login(others), BOT) as writer:
                    await writer.swap(BUDGET, "1 7 1000 - 0", before)
                found = await view.until(
                    lambda: view.records[BUDGET].revision > before or None, PATIENCE_S
                )
                await view.stop()
            assert found

    asyncio.run(scenario())
    gc.collect()


class Client:
    """A client whose server answers nothing."""

    is_closed = False

    def __init__(self, refusal: Exception) -> None:
        self.reconnects = 0
        self.refusal = refusal

    def new_inbox(self) -> str:
        return "_INBOX.1"

    async def subscribe(self, _subject: str) -> object:
        return self

    async def unsubscribe(self) -> None:
        pass

    async def next_msg(self, _timeout: float) -> None:
        raise nats.errors.ConnectionReconnectingError

    def jetstream(self) -> object:
        return self

    async def pull_subscribe(self, *_words: str, **_options: str) -> object:
        return self

    async def fetch(self, *_words: int, **_options: float) -> None:
        raise self.refusal if not self.reconnects else asyncio.CancelledError

    async def force_reconnect(self) -> None:
        self.reconnects += 1


def test_a_watch_that_nobody_makes_anew_is_asked_of_another_server() -> None:
    client, asked = Client(FleetError("nothing answers")), []

    async def api(subject: str, _request: bytes) -> dict[str, object]:
        asked.append(subject)
        if len(asked) == 2:
            raise client.refusal
        return {"num_pending": 1, "delivered": {"consumer_seq": 0}}

    async def scenario() -> list[int]:
        view = View(SimpleNamespace(client=client, bot=BOT, api=api, servers=()))  # type: ignore[arg-type]
        counts = []
        for _ in range(3):
            assert await view.pump(0.1) is None
            counts.append(client.reconnects)
        return counts

    # The first watch ends, the second is not made, the third is another server's.
    assert asyncio.run(scenario()) == [0, 1, 1]
    assert len(asked) == 3


@pytest.mark.parametrize(
    "refusal", [nats.errors.NoRespondersError(), nats.js.errors.ServiceUnavailableError()]
)
def test_a_reader_of_events_asks_another_server(refusal: Exception) -> None:
    client = Client(refusal)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(follow(SimpleNamespace(client=client, bot=BOT), EventAccount()))  # type: ignore[arg-type]
    assert client.reconnects == 1
