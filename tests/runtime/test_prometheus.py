"""The metrics endpoint: a page that Prometheus can read, and nothing else for anybody."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from antiphon.errors import InvalidOption, UsageError
from antiphon.runtime import prometheus
from antiphon.runtime.node import Node
from antiphon.runtime.prometheus import MetricsEndpoint, text
from antiphon.runtime.transports.contract import host_and_port

WAIT_S = 20.0
LINE = re.compile(r'^(\w+)\{((?:\w+="(?:[^"\\\n]|\\[\\"n])*",?)+)\} (-?\d+(?:\.\d+)?(?:e-?\d+)?)$')


def read(page: str) -> dict[tuple[str, str], float]:
    """The page as the format's rules read it; refuses what they refuse."""
    assert page.endswith("\n")
    values: dict[tuple[str, str], float] = {}
    typed: list[str] = []
    for line in page.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert kind in ("counter", "gauge")
            assert name not in typed, "a metric's lines are one group"
            typed.append(name)
        elif not line.startswith("# HELP "):
            found = LINE.match(line)
            assert found is not None, line
            assert found[1] == typed[-1], "a sample follows its type"
            assert (found[1], found[2]) not in values, "a series has one value"
            values[found[1], found[2]] = float(found[3])
    return values


async def ask(address: str | None, request: bytes) -> tuple[int, str]:
    assert address is not None
    reader, writer = await asyncio.open_connection(*host_and_port(address))
    writer.write(request)
    async with asyncio.timeout(WAIT_S):
        answer = await reader.read()
    writer.close()
    head, _, body = answer.decode().partition("\r\n\r\n")
    length = re.search(r"Content-Length: (\d+)", head)
    assert length is not None
    assert int(length[1]) == len(body.encode()) or request.startswith(b"HEAD")
    return int(head.split(" ")[1]), body


def with_endpoint(story: Callable[[MetricsEndpoint], Coroutine[Any, Any, None]], stats: Callable[[], dict[str, Any]] = dict) -> None:
    async def told() -> None:
        endpoint = MetricsEndpoint(0, stats, "ana")
        await endpoint.open()
        try:
            await story(endpoint)
        finally:
            endpoint.close()

    asyncio.run(told())


def test_a_node_can_be_scraped() -> None:
    """An operator would be blind."""

    async def story() -> None:
        async with Node("ana", transport="memory", metrics="127.0.0.1:0") as node:
            group = await node.create("trip", order="total")
            await group.send_many([b"x"] * 12)
            async for batch in group.batches():
                if batch.last == 12:
                    break
            status, page = await ask(node.metrics_address, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            assert status == 200
            assert read(page)['antiphon_group_messages_delivered_total', 'node="ana",group="trip"'] == 12
            assert await ask(node.metrics_address, b"HEAD /metrics HTTP/1.1\r\n\r\n") == (200, "")
            address = node.metrics_address
        assert node.metrics_address is None
        with pytest.raises(OSError):
            await ask(address, b"GET /metrics HTTP/1.1\r\n\r\n")

    asyncio.run(story())


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 404),
        (b"GET /metrics/../etc/passwd HTTP/1.1\r\n\r\n", 404),
        (b"GET /metrics?name[]=x HTTP/1.1\r\n\r\n", 200),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 405),
        (b"DELETE /metrics HTTP/1.1\r\n\r\n", 405),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET /metrics\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 5_000 + b"\r\n", 431),
        (b"GET /" + b"a" * 100_000, 431),
    ],
)
def test_every_request_has_its_answer(request_: bytes, status: int) -> None:
    """A strange client would get something it was not meant to, or bring the node down."""

    async def story(endpoint: MetricsEndpoint) -> None:
        assert (await ask(endpoint.address, request_))[0] == status
        assert (await ask(endpoint.address, b"GET /metrics HTTP/1.1\r\n\r\n"))[0] == 200

    with_endpoint(story)


def test_a_client_that_says_nothing_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that open connections and fall silent would keep others from the metrics for ever."""
    monkeypatch.setattr(prometheus, "_REQUEST_S", 0.2)

    async def story(endpoint: MetricsEndpoint) -> None:
        assert (await ask(endpoint.address, b"GET /metr"))[0] == 408

    with_endpoint(story)


def test_there_are_only_so_many_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever opens connections without end would fill the node's memory."""
    monkeypatch.setattr(prometheus, "_CONNECTIONS", 2)

    async def story(endpoint: MetricsEndpoint) -> None:
        assert endpoint.address is not None
        silent = [await asyncio.open_connection(*host_and_port(endpoint.address)) for _ in range(2)]
        for _, writer in silent:
            writer.write(b"GET ")
        async with asyncio.timeout(WAIT_S):
            while (await ask(endpoint.address, b"GET /metrics HTTP/1.1\r\n\r\n"))[0] != 503:
                await asyncio.sleep(0.01)
        for _, writer in silent:
            writer.close()
        async with asyncio.timeout(WAIT_S):
            while (await ask(endpoint.address, b"GET /metrics HTTP/1.1\r\n\r\n"))[0] != 200:
                await asyncio.sleep(0.01)

    with_endpoint(story)


def test_a_node_that_is_closed_says_so() -> None:
    """A scrape at the wrong moment would end in a traceback in the node's logs."""

    def closed() -> dict[str, Any]:
        raise UsageError("the node is closed: make another")

    async def story(endpoint: MetricsEndpoint) -> None:
        assert (await ask(endpoint.address, b"GET /metrics HTTP/1.1\r\n\r\n"))[0] == 503

    with_endpoint(story, closed)


def test_an_address_that_is_taken_is_refused_and_everything_closed() -> None:
    """A node would run without the metrics that it was told to have, or keep its port though it never started."""

    async def story() -> None:
        async with Node("ana", transport="tcp", metrics=0) as ana:
            other = Node("ben", transport="tcp", metrics=str(ana.metrics_address))
            with pytest.raises(InvalidOption, match="cannot be bound"):
                await other.start()
            with pytest.raises(OSError):
                await asyncio.open_connection(*host_and_port(other.address))

    asyncio.run(story())


@pytest.mark.parametrize("bind", ["", "x", "127.0.0.1:port", "127.0.0.1:99999", "99999"])
def test_an_address_that_is_none_is_refused_at_once(bind: str) -> None:
    """A typing mistake would be found only when the node is to start."""
    with pytest.raises(InvalidOption, match="metrics"):
        Node("ana", transport="memory", metrics=bind)


@pytest.mark.parametrize("bind", [0, "0", ":0"])
def test_a_port_alone_is_this_machine_only(bind: str | int) -> None:
    """Names of nodes and groups would be open to the whole network without anybody having said so."""

    async def story() -> None:
        async with Node("ana", transport="memory", metrics=bind) as node:
            assert str(node.metrics_address).startswith("127.0.0.1:")

    asyncio.run(story())


def test_names_cannot_break_the_page() -> None:
    """Somebody could name a group so that a scraper reads metrics that never were."""
    page = text('a"b\\c', {"groups": {'trip"} 1\nfake{x="\\#01': {"members": 2}}})
    assert read(page) == {("antiphon_group_members", 'node="a\\"b\\\\c",group="trip\\"} 1\\nfake{x=\\"\\\\"'): 2.0}
