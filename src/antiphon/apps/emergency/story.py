"""The story: who is started, whose plug is pulled, and what everybody has heard in the end.

The ambulance is killed and away while people are hurt; a machine of 911 is killed while it is in charge. Nobody misses anything, nobody is
sent twice. `Story.tell()` returns the calls that each service was sent to; what happens is printed as it happens.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress

import msgspec

from antiphon.apps.emergency.roles import Line
from antiphon.apps.emergency.scene import SERVICES, Crash
from antiphon.errors import TimedOut
from antiphon.store import open_store
from antiphon.store.agents.ownership import Owner

STATIONS = ("911 north", "911 south")
_PATIENCE_S = 60.0


class Story:
    def __init__(self, url: str, tell: Callable[[str], None] = print) -> None:
        self._url, self._tell = url, tell
        self._process_by_role: dict[str, Process] = {}
        self._hearing: set[asyncio.Task[None]] = set()
        self._heard = asyncio.Condition()
        self._ready: set[str] = set()
        self._reported = 0
        self.calls: dict[str, list[int]] = defaultdict(list)
        """By service: the calls that it was sent to, as they came."""

    async def tell(self) -> dict[str, list[int]]:
        """Plays it from beginning to end."""
        try:
            self._tell(f"Everybody works on {self._url.partition('?')[0]}")
            await self._start("person", *STATIONS, *SERVICES)
            await self._report(Crash("First and Main", hurt=2))
            await self._until("cops", [1])
            await self._until("ambulance", [1])
            await self._kill("ambulance", "The ambulance's radio dies.")
            await self._report(Crash("Elm Street", hurt=1, burning=True))
            await self._report(Crash("the bridge"))
            await self._until("cops", [1, 2, 3])
            charged = await self._in_charge()
            await self._kill(charged, f"The machine that is in charge, {charged}, loses power.")
            await self._report(Crash("Third and Oak", hurt=4))
            await self._until("cops", [1, 2, 3, 4])
            await self._start("ambulance")
            await self._until("ambulance", [1, 2, 4])
            await self._until("fire", [2])
            self._tell("The ambulance was away for three crashes and has missed none; nobody was sent twice.")
            return {service: list(self.calls[service]) for service in SERVICES}
        finally:
            await self._stop()

    async def _start(self, *roles: str) -> None:
        for role in roles:
            self._ready.discard(role)
            command = (sys.executable, "-m", "antiphon.apps.emergency", role, self._url)
            process = self._process_by_role[role] = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
            hearing = asyncio.create_task(self._hear(role, process))
            self._hearing.add(hearing)
        await self._wait(lambda: self._ready.issuperset(roles), f"{', '.join(roles)} to be ready")

    async def _hear(self, role: str, process: Process) -> None:
        assert process.stdout is not None, "it was asked for"
        while said := await process.stdout.readline():
            line = msgspec.json.decode(said, type=Line)
            call = f"call {line.call}: " if line.call else ""
            self._tell(f"{role:>10}  {line.what} {call}{line.text}".rstrip())
            async with self._heard:
                if line.what == "ready":
                    self._ready.add(role)
                elif line.what == "read":
                    self.calls[role].append(line.call)
                elif line.what == "reported":
                    self._reported += 1
                self._heard.notify_all()

    async def _report(self, crash: Crash) -> None:
        caller = self._process_by_role["person"]
        assert caller.stdin is not None, "it was asked for"
        expected = self._reported + 1
        caller.stdin.write(msgspec.json.encode(crash) + b"\n")
        await caller.stdin.drain()
        await self._wait(lambda: self._reported >= expected, "the report to be acknowledged")

    async def _until(self, service: str, calls: list[int]) -> None:
        await self._wait(lambda: len(self.calls[service]) >= len(calls), f"{service} to hear of {calls}")

    async def _kill(self, role: str, told: str) -> None:
        self._tell(told)
        process = self._process_by_role.pop(role)
        process.kill()
        await process.wait()

    async def _in_charge(self) -> str:
        """The machine that runs the agent."""
        async with open_store(self._url) as store:
            found = await store.backend.get("agents/911")
        assert found is not None, "it has answered three calls"
        return msgspec.json.decode(found.data, type=Owner).node

    async def _wait(self, holds: Callable[[], bool], what: str) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_S), self._heard:
                await self._heard.wait_for(holds)
        except TimeoutError:
            raise TimedOut(f"waited {_PATIENCE_S:g} s in vain for {what}") from None

    async def _stop(self) -> None:
        for process in self._process_by_role.values():
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        for hearing in self._hearing:
            hearing.cancel()
        await asyncio.gather(*self._hearing, return_exceptions=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Emergency services on a store: the ambulance is away for a while, and misses nothing.")
    parser.add_argument("--store", help="the address of an empty store; a file in a temporary directory if left out")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="antiphon-emergency-") as directory:
        asyncio.run(Story(chosen.store or f"sqlite:{directory}/emergency.db").tell())
