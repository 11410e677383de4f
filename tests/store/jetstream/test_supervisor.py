"""Servers that end by themselves are started again; the others go on."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon.cli.main import UNUSABLE
from antiphon.errors import BadStore
from antiphon.store.jetstream import JetStreamBackend, LocalServers
from antiphon.store.jetstream.supervisor import LONGEST_PAUSE_S, STABLE_S, ServerSupervisor
from antiphon.store.records import Entry

Opening = Callable[[str], AbstractAsyncContextManager[JetStreamBackend]]
PROGRAM = [sys.executable, "-c", "import sys; from antiphon.cli.main import main; sys.exit(main())"]
WAIT_S = 90.0


def killed(servers: LocalServers, number: int) -> None:
    """As `kill -9` from outside does: the process is gone, and nobody told whoever started it."""
    os.kill(servers.processes[number], signal.SIGKILL)
    deadline = time.monotonic() + WAIT_S
    while number in servers.processes:
        assert time.monotonic() < deadline
        time.sleep(0.01)


async def supervised(supervisor: ServerSupervisor, until: Callable[[], Any]) -> None:
    """Tick by the real clock until something is so."""
    async with asyncio.timeout(WAIT_S):
        while not await asyncio.to_thread(until):
            await asyncio.to_thread(supervisor.tick, time.monotonic())
            await asyncio.sleep(0.05)


async def read_all(backend: JetStreamBackend, topic: str) -> list[bytes]:
    reader = await backend.reader(topic, 0)
    try:
        return [bytes(value.data) for value in (await reader.take(100, 0)).values]
    finally:
        await reader.close()


def test_a_cluster_works_on_and_the_killed_server_comes_back(tmp_path: Path, opening: Opening) -> None:
    """The loss of one server of three would be the loss of all, or for ever."""

    async def story(servers: LocalServers) -> None:
        events: list[str] = []
        supervisor = ServerSupervisor(servers, time.monotonic(), events.append)
        before = servers.processes
        async with opening(servers.url) as backend:
            grant = await backend.register("t", "p")
            await backend.publish(grant, 1, [Entry(b"1")])
            await supervised(supervisor, servers.is_current)
            await asyncio.to_thread(killed, servers, 1)
            await backend.publish(grant, 2, [Entry(b"2")])  # two of three go on
            assert {number: servers.processes.get(number) for number in (0, 2)} == {number: before[number] for number in (0, 2)}
            await supervised(supervisor, lambda: "is back" in events[-1] if events else False)
            await supervised(supervisor, servers.is_current)
            assert servers.processes[1] != before[1]
            # It has what it had, and what it missed: with another one killed it is needed for a majority.
            await asyncio.to_thread(killed, servers, 0)
            assert await read_all(backend, "t") == [b"1", b"2"]
            await backend.publish(grant, 3, [Entry(b"3")])
            assert await read_all(backend, "t") == [b"1", b"2", b"3"]
        assert events[0].startswith("server 1 was ended by SIGKILL: it is started again in 0.5 s.")
        assert events[1] == f"server 1 is back (process {servers.processes[1]})"
        assert supervisor.restarts == 1

    with LocalServers(3, tmp_path) as servers:
        asyncio.run(story(servers))


def test_a_server_that_keeps_ending_is_started_less_often(own_server: LocalServers) -> None:
    """A server that cannot run would be started as fast as the machine can; or be given up because it failed a few times."""
    pauses: list[float] = []

    def report(event: str) -> None:
        if "started again in" in event:
            pauses.append(float(event.split("started again in ")[1].split(" s", maxsplit=1)[0]))

    now = 1_000.0
    supervisor = ServerSupervisor(own_server, now, report)
    for _ in range(9):
        killed(own_server, 0)
        supervisor.tick(now)
        supervisor.tick(now + pauses[-1] - 0.001)
        assert not own_server.processes, "not before the pause is over"
        now += pauses[-1]
        supervisor.tick(now)
        assert len(own_server.processes) == 1
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, LONGEST_PAUSE_S, LONGEST_PAUSE_S, LONGEST_PAUSE_S]
    killed(own_server, 0)
    supervisor.tick(now + STABLE_S)
    assert pauses[-1] == 0.5, "it had run for a while"
    assert supervisor.restarts == 9


def test_a_server_that_cannot_be_started_again_is_tried_later(own_server: LocalServers, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full for a minute would end the supervision of all servers."""
    events: list[str] = []
    supervisor = ServerSupervisor(own_server, 0.0, events.append)
    killed(own_server, 0)
    supervisor.tick(0.0)

    def missing() -> str:
        raise BadStore("nats:", "the server's program is not installed")

    with monkeypatch.context() as patch:
        patch.setattr("antiphon.store.jetstream.server._program", missing)
        supervisor.tick(1.0)
    assert "could not be started" in events[-1]
    assert "in 1 s" in events[-1]
    supervisor.tick(2.0)
    assert len(own_server.processes) == 1


@contextmanager
def serving(*words: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """`antiphon store serve` in a process of its own, and what it says of itself."""
    command = [*PROGRAM, "store", "serve", "--port", "0", "--json", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            text = ""
            while not text.endswith("}\n") or text.count("{") != text.count("}"):
                line = process.stdout.readline()
                assert line, "it ended early"
                text += line
            yield process, json.loads(text)
        finally:
            process.kill()


@pytest.mark.parametrize("ends_with", [signal.SIGTERM, signal.SIGINT])
def test_the_command_restarts_a_server_and_ends_all_when_it_is_told(tmp_path: Path, opening: Opening, ends_with: signal.Signals) -> None:
    """Whoever develops against a cluster would find it gone after one crash; or find servers that nobody ends."""

    async def publish(url: str, number: int) -> None:
        async with asyncio.timeout(WAIT_S), opening(url) as backend:
            await backend.publish(await backend.register("t", "p"), number, [Entry(b"%d" % number)])
            assert await read_all(backend, "t") == [b"%d" % earlier for earlier in range(1, number + 1)]

    with serving("--servers", "3", "--directory", str(tmp_path / "js")) as (process, about):
        assert process.stderr is not None
        asyncio.run(publish(about["url"], 1))
        os.kill(about["processes"]["2"], signal.SIGKILL)
        asyncio.run(publish(about["url"], 2))
        ended, back = process.stderr.readline(), process.stderr.readline()
        assert "server 2 was ended by SIGKILL" in ended
        assert "server 2 is back (process " in back
        restarted = int(back.rpartition("process ")[2].rstrip(")\n"))
        asyncio.run(publish(about["url"], 3))
        for number in "01":
            os.kill(about["processes"][number], 0)  # they were left alone
        process.send_signal(ends_with)
        process.wait(timeout=WAIT_S)
    for pid in (about["processes"]["0"], about["processes"]["1"], restarted):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_server_that_cannot_start_in_the_first_place_is_an_error(tmp_path: Path) -> None:
    """A mistyped directory or a port in use would be tried again for ever, and nobody told what to change."""

    def refused(*words: str) -> str:
        done = subprocess.run([*PROGRAM, "store", "serve", *words], capture_output=True, text=True, timeout=WAIT_S, check=False)
        assert done.returncode == UNUSABLE, done
        return " ".join(done.stderr.split())

    (tmp_path / "file").write_text("")
    assert "name a directory that this program may write" in refused("--port", "0", "--directory", str(tmp_path / "file"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert "another program uses its port" in refused("--port", port, "--directory", str(tmp_path / "js"))
