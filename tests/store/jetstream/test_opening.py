"""What cannot be used as a store says so when it is opened."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from antiphon.errors import BadStore, StoreUnreachable
from antiphon.store.jetstream import JetStreamBackend, LocalServers


@asynccontextmanager
async def pretender(version: str, *, refuses: bool = False) -> AsyncIterator[str]:
    """Something that says it is a NATS server of this version, and has no JetStream."""
    info = {"server_id": "X", "version": version, "max_payload": 1 << 20, "headers": True, "auth_required": refuses}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"INFO " + json.dumps(info).encode() + b"\r\n")
        try:
            while line := await reader.readline():
                operation = line.split()[0]
                if operation == b"PING":
                    writer.write(b"-ERR 'Authorization Violation'\r\n" if refuses else b"PONG\r\n")
                elif operation in (b"PUB", b"HPUB"):
                    _, _, reply, *_, size = line.split()
                    await reader.readexactly(int(size) + 2)
                    writer.write(b"HMSG %b 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n" % reply)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize("version", ["2.11.9", "2.10.0-beta.1", "1.4.1"])
def test_an_old_server_is_refused(version: str) -> None:
    """Without atomic batches half an order would be executed: better none from the beginning."""

    async def story() -> None:
        async with pretender(version) as url:
            with pytest.raises(BadStore, match=r"2\.12 or newer"):
                await JetStreamBackend(url).open()

    asyncio.run(story())


def test_a_server_without_jetstream_is_refused() -> None:
    """Every call would wait until its time is over, and nobody would know why."""

    async def story() -> None:
        async with pretender("2.15.1") as url:
            with pytest.raises(BadStore, match="JetStream is not enabled"):
                await JetStreamBackend(url).open()

    asyncio.run(story())


def test_a_wrong_password_is_refused_and_not_repeated_in_the_error() -> None:
    """One would look for a server that is down; or the password would be in the log."""

    async def story() -> None:
        async with pretender("2.15.1", refuses=True) as url:
            with pytest.raises(BadStore, match="does not accept this user") as refused:
                await JetStreamBackend(url.replace("//", "//ana:geheim@")).open()
            assert "geheim" not in str(refused.value)

    asyncio.run(story())


def test_nobody_there_is_unreachable() -> None:
    """A program that could wait for its store would be told that the store is no store."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        with pytest.raises(StoreUnreachable, match="antiphon store serve"):
            asyncio.run(JetStreamBackend(f"nats://127.0.0.1:{port}?timeout_s=3").open())


def test_more_copies_than_servers_are_refused(server: LocalServers) -> None:
    """An operator who believes to have three copies would have one."""
    with pytest.raises(BadStore, match="replicas"):
        asyncio.run(JetStreamBackend(f"nats://127.0.0.1:{server.ports[0]}?replicas=3&timeout_s=3").open())


def test_a_store_can_be_opened_again(url: str) -> None:
    """Whoever closed a store would have to make a new one, and hand it to everybody."""

    async def story() -> None:
        backend = JetStreamBackend(url)
        for _ in range(2):
            await backend.open()
            assert await backend.time() > 0
            await backend.close()

    asyncio.run(story())
