"""The chat line by line, for pipes, scripts and terminals that can do no more.

What is read: a line of text is said in the current group, `/answer N text` answers the line that was printed with the number N, and the
other words of `COMMANDS` do what `/help` prints. What is printed: one line per line of the chat, numbered, in the order in which they came,
and a line that begins with `*` for what happens. Text that begins with a slash is said with a second one before it.

Keeps the numbers of the last `_NUMBERED` lines. The end of the input is `/quit`.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence

from antiphon.apps.chat.entries import Line, Placement
from antiphon.apps.chat.harmless import harmless
from antiphon.apps.chat.lobby import Lobby, sentence
from antiphon.apps.chat.room import Room
from antiphon.errors import AntiphonError, UsageError

COMMANDS = {
    "/answer": "N TEXT  answers line N",
    "/members": "  who is here",
    "/groups": "  the groups: those you are in, and those you could join",
    "/create": "NAME  founds a group and goes there",
    "/join": "NAME  goes to a group, and joins it if you are not in it",
    "/leave": "  leaves the current group",
    "/reject": "NAME  does not want to hear of a group",
    "/why": "  what waits, and for what",
    "/help": "  this list",
    "/quit": "  leaves everything",
}
_NUMBERED = 10_000
_JOIN_S = 30.0
_CONFIRM_S = 5.0
"""How long the own last lines may take to come back, so that they are printed, before the chat leaves."""


class Console:
    def __init__(self, lobby: Lobby, write: Callable[[str], None]) -> None:
        """`write` is given what is to be printed, a line at a time."""
        self.lobby, self._write = lobby, write
        self._room: Room | None = None
        self._line_by_number: OrderedDict[int, tuple[Room, Line]] = OrderedDict()
        self._number_by_line: dict[Line, int] = {}
        self._last = 0
        lobby.tell = self._told

    async def run(self, lines: AsyncIterator[str], group: str | None) -> None:
        """Goes to the group (founds it where nobody has), then does what it reads until `/quit` or the end."""
        if group is not None:
            self._room = await self.lobby.join(group, found=True, timeout=_JOIN_S)
        async for line in lines:
            try:
                self.lobby.check()
                if not await self.do(line):
                    return
            except AntiphonError as error:
                self._say(sentence(error))
        for room in self.lobby.rooms:
            await room.confirmed(_CONFIRM_S)

    async def do(self, line: str) -> bool:
        """Does one line; False for the one that ends it."""
        word, _, rest = line.strip().partition(" ")
        rest = rest.strip()
        if not word.startswith("/") or word.startswith("//"):
            if line.strip():
                await self._here().say(line.strip().removeprefix("/"))
        elif word == "/answer":
            await self._answer(rest)
        elif word == "/members":
            room = self._here()
            self._say(f"here: {', '.join(room.call(member) for member in room.members)}")
            missing = room.out_of_reach()
            if missing:
                self._say(f"out of reach: {', '.join(room.call(member) for member in missing)}")
        elif word == "/groups":
            self._list_groups()
        elif word == "/create":
            self._room = await self.lobby.found(rest)
        elif word == "/join":
            self._room = await self.lobby.join(rest, timeout=_JOIN_S)
        elif word == "/leave":
            room, self._room = self._here(), None
            await self.lobby.leave(room)
            self._say(f"you left {room.name}")
            self._room = next(iter(self.lobby.rooms), None)
        elif word == "/reject":
            self._reject(rest)
        elif word == "/why":
            room = self._here()
            for message, why in room.waiting():
                self._say(f"{room.call(message.sender)}:{message.seqno} {harmless(why.reason)}")
            if not room.waiting():
                self._say("nothing waits")
        elif word == "/help":
            for command, use in COMMANDS.items():
                self._say(f"{command} {use}")
        elif word == "/quit":
            return False
        else:
            raise UsageError(f"there is no command {word}: /help lists them; to say it, write another / before it")
        return True

    async def _answer(self, rest: str) -> None:
        number, _, text = rest.partition(" ")
        found = self._line_by_number.get(int(number)) if number.isascii() and number.isdigit() and len(number) < 10 else None
        if found is None:
            raise UsageError(f"there is no line {number or '?'}: write /answer N TEXT with a number that was printed")
        room, line = found
        await room.say(text, line.id)

    def _list_groups(self) -> None:
        sights = self.lobby.groups()
        if not sights:
            self._say("no groups: /create NAME founds one")
        for sight in sights:
            current = self._room is not None and sight.id == self._room.id
            mark = "you are here" if current else ("joined" if sight.joined else "not joined")
            self._say(f"group {sight.name}: {sight.members} there, {mark}")

    def _reject(self, name: str) -> None:
        found = [sight for sight in self.lobby.groups() if not sight.joined and name in (sight.name, sight.id)]
        if not found:
            raise UsageError(f"there is no group {name or '?'} to reject: /groups lists those you could join")
        for sight in found:
            self.lobby.reject(sight.id)

    def _here(self) -> Room:
        if self._room is None:
            raise UsageError("you are in no group: /create NAME or /join NAME")
        return self._room

    # -- printing --------------------------------------------------------------------------------------------------------------

    def _told(self, room: Room, placements: Sequence[Placement]) -> None:
        elsewhere = "" if self._room is None or room is self._room else f"({room.name}) "
        for placement in placements:
            entry = placement.entry
            if isinstance(entry, Line):
                self._write(f"{elsewhere}{self._number(room, entry)}")
            else:
                self._say(f"{elsewhere}{entry.text}")

    def _number(self, room: Room, line: Line) -> str:
        """The line as it is printed; the lines that it answers are named by their numbers."""
        self._last += 1
        self._line_by_number[self._last], self._number_by_line[line] = (room, line), self._last
        if len(self._line_by_number) > _NUMBERED:
            _, (_, oldest) = self._line_by_number.popitem(last=False)
            del self._number_by_line[oldest]
        answers = ""
        if line.parent is not None:
            answers = f" answers {self._number_by_line.get(line.parent, 'an older line')}"
        elif line.orphan:
            answers = " answers a lost line" if line.lost else " answers a line that is not here"
        return f"{self._last} {room.call(line.author)}{answers}: {line.text}"

    def _say(self, text: str) -> None:
        self._write(f"* {text}")


def reader(descriptor: int, limit: int = 64 << 10) -> Callable[[], str]:
    """Reads the lines of a file, blocking; nothing at its end. A line of more than `limit` bytes comes in pieces.

    It does not use `sys.stdin`: a thread that waits in there holds its lock, and Python aborts when it ends meanwhile."""
    waiting = bytearray()

    def read() -> str:
        while b"\n" not in waiting and len(waiting) < limit:
            more = os.read(descriptor, limit)
            if not more:
                break
            waiting.extend(more)
        end = waiting.find(b"\n") + 1
        line = bytes(waiting[: min(end, limit) if end else limit])
        del waiting[: len(line)]
        return line.decode(errors="replace")

    return read


async def typed(read: Callable[[], str], limit: int = 64) -> AsyncIterator[str]:
    """The lines that a blocking `read` returns, until it returns nothing. A thread reads, at most `limit` lines ahead."""
    queue: asyncio.Queue[str] = asyncio.Queue(limit)
    loop = asyncio.get_running_loop()

    def pump() -> None:
        try:
            while True:
                line = read()
                asyncio.run_coroutine_threadsafe(queue.put(line), loop).result()
                if not line:
                    return
        except (RuntimeError, asyncio.CancelledError):
            return  # the chat has ended while this waited

    # A daemon, because nothing can interrupt a read of a terminal: the process must be able to end without it.
    threading.Thread(target=pump, name="chat reads its input", daemon=True).start()
    while line := await queue.get():
        yield line
