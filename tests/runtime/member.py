"""A program that is one member of one group, told by lines on its standard input what to do; what it did and read is in a file.

Run as `python member.py CONFIG`, where CONFIG is a JSON object: `name`, `log` (a file), `node` (arguments of Node), `state_bytes` (how much
this member gives to newcomers that want a state). Commands and answers are JSON objects, one per line; `company.py` speaks them.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import resource
import sys
import time
import zlib
from typing import Any

from antiphon.api.message import MessageBatch
from antiphon.errors import AntiphonError
from antiphon.model.events import MissedMessages, ViewChange
from antiphon.model.options import Settings
from antiphon.runtime.node import Node


class Member:
    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.log = open(config["log"], "a", buffering=1)  # noqa: SIM115 (line by line, until the process dies)
        self.attempts = self.sent = self.delivered = self.bytes = 0
        self.blocked = 0
        self.reading = asyncio.Event()
        self.reading.set()
        self.sender: asyncio.Task[None] | None = None
        self.error = ""

    async def run(self) -> None:
        node_options = dict(self.config["node"])
        settings = Settings(**node_options.pop("settings", {}))
        async with Node(self.config["name"], settings=settings, **node_options) as self.node:
            self.answer(address=self.node.address)
            commands: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
            asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._read_commands, commands)
            while True:
                command = await commands.get()
                try:
                    await getattr(self, "do_" + command.pop("do"))(**command)
                except AntiphonError as error:
                    self.answer(error=type(error).__name__, text=str(error))
                except _Quit:
                    break

    def _read_commands(self, commands: asyncio.Queue[dict[str, Any]]) -> None:
        data = os.read(sys.stdin.fileno(), 1 << 16)
        if not data:
            os._exit(3)  # the test has ended
        for line in data.decode().splitlines():
            commands.put_nowait(json.loads(line))

    def answer(self, **fields: Any) -> None:
        print(json.dumps(fields), flush=True)

    def write(self, *entry: Any) -> None:
        """With the time, which is one for all processes of this machine."""
        self.log.write(json.dumps((time.monotonic(), *entry)) + "\n")

    # -- commands --------------------------------------------------------------------------------------------------------------

    async def do_join(self, group: str, create: dict[str, Any] | None = None, history: Any = "all", timeout: float = 60.0) -> None:
        history = tuple(history) if isinstance(history, list) else history
        options: dict[str, Any] = {} if create is None else {"create": True, **create}
        self.group = await self.node.join(group, history=history, timeout=timeout, state=self._state, **options)
        self.write("member", self.group.me)
        self.reader = asyncio.create_task(self._read())
        state = self.group.state
        digest = "" if state is None else hashlib.blake2b(state, digest_size=8).hexdigest()
        self.answer(me=self.group.me, state=digest, state_bytes=len(state or b""))

    def _state(self) -> bytes:
        size = self.config.get("state_bytes", 0)
        return hashlib.blake2b(b"state", digest_size=64).digest() * (size // 64)

    async def do_send(self, count: int = 1, size: int = 32, pause_s: float = 0.0, wait: bool = False) -> None:
        """Sends in the background; `wait` answers when all are accepted."""
        self.sender = asyncio.create_task(self._send(count, size, pause_s))
        if wait:
            await self.sender
        self.answer(sent=self.sent)

    async def do_sizes(self, sizes: list[int]) -> None:
        for size in sizes:
            await self._send_one(_payload(self.config["name"], self.sent, size))
        self.answer(sent=self.sent)

    async def do_stop_sending(self) -> None:
        if self.sender is not None:
            self.sender.cancel()
            await asyncio.wait([self.sender])
        self.answer(sent=self.sent)

    async def do_stop_reading(self) -> None:
        self.reading.clear()
        self.answer()

    async def do_go_on_reading(self) -> None:
        self.reading.set()
        self.answer()

    async def do_try_send(self, size: int = 32) -> None:
        payload = _payload(self.config["name"], self.sent, size)
        attempt = self._attempt(payload)
        self._note(attempt, self.group.try_send(payload))
        self.answer(sent=self.sent)

    async def do_report(self) -> None:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        view = [] if self.group.departed else [*self.group.view.members]
        inside = self.node.core.memberships.get(self.group.id)
        self.answer(
            sent=self.sent,
            delivered=self.delivered,
            bytes=self.bytes,
            view=view,
            settled=inside is not None and inside.settled,
            blocked=self.sender is not None and not self.sender.done(),
            error=self.error,
            rss_mb=_rss_mb(),
            cpu_s=usage.ru_utime + usage.ru_stime,
            stats=json.loads(json.dumps(self.node.stats(), default=str)),
        )

    async def do_leave(self) -> None:
        self.answer(unsaid=await self.group.leave(timeout=30.0))

    async def do_quit(self) -> None:
        raise _Quit

    # -- sending and reading ---------------------------------------------------------------------------------------------------

    async def _send(self, count: int, size: int, pause_s: float) -> None:
        try:
            for _ in range(count):
                await self._send_one(_payload(self.config["name"], self.sent, size))
                if pause_s:
                    await asyncio.sleep(pause_s)
        except AntiphonError as error:
            self.error = f"{type(error).__name__}: {error}"

    async def _send_one(self, payload: bytes) -> None:
        attempt = self._attempt(payload)
        self._note(attempt, await self.group.send(payload))

    def _attempt(self, payload: bytes) -> int:
        """Says what is about to be sent: others may have it before the call returns."""
        self.attempts += 1
        self.write("sends", self.attempts, zlib.crc32(payload))
        return self.attempts

    def _note(self, attempt: int, message: Any) -> None:
        self.sent += 1
        self.write("sent", attempt, message.seqno)

    async def _read(self) -> None:
        async for event in self.group.events():
            if isinstance(event, MessageBatch):
                hashes = [zlib.crc32(payload) for payload in event.payloads]
                self.write("delivered", event.sender, event.first, hashes, event.batch.view, event.recovered, event.lost)
                self.delivered += len(event)
                self.bytes += sum(map(len, event.payloads))
            elif isinstance(event, ViewChange):
                previous = 0 if event.previous is None else event.previous.id
                self.write("view", event.view.id, event.view.members, event.view.makers, previous, event.sides)
            elif isinstance(event, MissedMessages):
                self.write("missed", event.lost)
            await self.reading.wait()
        self.write("departed")


class _Quit(Exception):
    pass


def _payload(name: str, number: int, size: int) -> bytes:
    head = f"{name} {number} ".encode()
    return (head * (size // len(head) + 1))[:size]


def _rss_mb() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


if __name__ == "__main__":
    asyncio.run(Member(json.loads(sys.argv[1])).run())
