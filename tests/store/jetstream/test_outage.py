"""Servers that go away and come back, and answers that never come: what was acknowledged is there, once, and calls go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import pytest
from msgspec.structs import replace

from antiphon.errors import StoreUnreachable
from antiphon.store.jetstream import JetStreamBackend, LocalServers
from antiphon.store.records import SECOND, Entry, Receipt, TopicOptions, Value

HOUR = 3_600 * SECOND
PATIENCE_S = 60.0
Opening = Callable[[str], AbstractAsyncContextManager[JetStreamBackend]]


async def everything(backend: JetStreamBackend, topic: str) -> list[Value]:
    reader = await backend.reader(topic, 0)
    found: list[Value] = []
    while (chunk := await reader.take(500, 0)).values:
        found += chunk.values
    await reader.close()
    return found


def test_a_server_that_is_gone_is_unreachable_and_one_that_is_back_is_used(own_server: LocalServers, opening: Opening) -> None:
    """Calls would hang for as long as the server is away, or fail for ever after it has been away once."""

    async def story() -> None:
        async with opening(f"{own_server.url}&timeout_s=1") as backend:
            grant = await backend.register("t", "p")
            await backend.publish(grant, 1, [Entry(b"before")])
            record = await backend.put("k", b"before", 0)
            own_server.kill(0)
            for call in (backend.publish(grant, 2, [Entry(b"after")]), backend.get("k"), backend.subscribe("t", "s", HOUR)):
                with pytest.raises(StoreUnreachable):
                    await asyncio.wait_for(call, PATIENCE_S)
            own_server.start(0)
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    with suppress(StoreUnreachable):
                        await backend.publish(grant, 2, [Entry(b"after")])
                        break
            assert [value.data for value in await everything(backend, "t")] == [b"before", b"after"]
            assert await backend.get("k") == record
            await backend.subscribe("t", "s", HOUR)

    asyncio.run(story())


def test_a_reader_that_waits_goes_on_after_an_outage(own_server: LocalServers, opening: Opening) -> None:
    """It would wait for ever for a consumer that died with its server."""

    async def story() -> None:
        async with opening(own_server.url) as backend, opening(own_server.url) as other:
            grant = await backend.register("t", "p")
            await backend.publish(grant, 1, [Entry(b"1"), Entry(b"2")])
            reader = await other.reader("t", 0)
            assert [value.seq for value in (await reader.take(10, 0)).values] == [1, 2]
            waiting = asyncio.ensure_future(reader.take(10, PATIENCE_S))
            await asyncio.sleep(0.1)
            own_server.kill(0)
            own_server.start(0)
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    with suppress(StoreUnreachable):
                        await backend.publish(grant, 3, [Entry(b"3")])
                        break
                assert [value.seq for value in (await waiting).values] == [3]

    asyncio.run(story())


class Proxy:
    """Between client and server. Once armed, it lets the next write through, keeps its answer to itself, and breaks the connection."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.port = 0
        self.armed = b""
        """What a client's bytes must have in them to be the write."""
        self.swallowed = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Proxy]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            yield self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self._port)
        deaf = asyncio.Event()

        async def there() -> None:
            while data := await reader.read(1 << 16):
                if self.armed and self.armed in data:
                    self.armed = b""
                    deaf.set()
                to_server.write(data)
                await to_server.drain()

        async def back() -> None:
            while data := await from_server.read(1 << 16):
                if deaf.is_set():
                    self.swallowed += 1
                    return
                writer.write(data)
                await writer.drain()

        tasks = [asyncio.ensure_future(there()), asyncio.ensure_future(back())]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        to_server.close()
        writer.close()


@pytest.mark.parametrize("kind", [{}, {"shared": True}, {"mutable": True}, {"shared": True, "mutable": True}], ids=str)
@pytest.mark.parametrize("count", [1, 5])
def test_a_publish_whose_acknowledgement_is_lost_is_written_once(
    url: str, server: LocalServers, opening: Opening, kind: dict[str, bool], count: int
) -> None:
    """The order would be executed twice, because its confirmation was lost."""

    async def story() -> None:
        proxy = Proxy(server.ports[0])
        async with proxy.running(), opening(url.replace(str(server.ports[0]), str(proxy.port))) as backend, opening(url) as other:
            grant = await backend.register("t", "p", options=TopicOptions(**kind))
            await backend.publish(grant, 1, [Entry(b"first", "a")])
            proxy.armed = b"unsure-0"
            receipt = await backend.publish(grant, 2, [Entry(b"unsure-%d" % at, f"k{at}") for at in range(count)])
            assert proxy.swallowed == 1, "the acknowledgement was not lost: this test tests nothing"
            assert receipt == Receipt(2, 1 + count, True)
            values = await everything(other, "t")
            assert [(value.seq, value.data) for value in values] == [(1, b"first"), *((2 + at, b"unsure-%d" % at) for at in range(count))]

    asyncio.run(story())


def test_changes_whose_acknowledgement_is_lost_happen_once_and_are_known(url: str, server: LocalServers, opening: Opening) -> None:
    """A subscriber would take its own change for somebody else's, and believe to be fenced."""

    async def story() -> None:
        proxy = Proxy(server.ports[0])
        async with proxy.running(), opening(url.replace(str(server.ports[0]), str(proxy.port))) as backend, opening(url) as other:
            grant = await backend.register("t", "p")
            proxy.armed = b"c.sub.s"
            subscriber = await backend.subscribe("t", "s", HOUR)
            proxy.armed = b"state-of-mind"
            subscriber = await backend.update(replace(subscriber, position=1, state=b"state-of-mind"))
            assert await other.subscriber("t", "s") == subscriber
            proxy.armed = b"group-record"
            record = await backend.put("groups/g", b"group-record", 0)
            assert await other.get("groups/g") == record
            proxy.armed = b"Antiphon-Gone"
            await backend.remove("groups/g", record.revision)
            assert await other.get("groups/g") is None
            proxy.armed = b"w.pub"
            again = await backend.register("t", "p")
            assert again.epoch > grant.epoch
            await backend.publish(again, 1, [Entry(b"x")])
            assert proxy.swallowed == 5, "not every acknowledgement was lost: this test tests less than it says"

    asyncio.run(story())
