"""A node at work for `antiphon node run`: it reads its groups, prints what it is told to, and sends what comes on stdin.

A first signal (SIGINT, SIGTERM) lets it leave its groups, a second one ends it at once. Whatever is delivered is read, printed or not:
a node that does not read would hold the others up. Other people's text is printed without what could control a terminal.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Any

import msgspec

from antiphon.api import Group, Letter, Message, MessageBatch, Node, ViewChange
from antiphon.cli import terminal
from antiphon.errors import AntiphonError, JoinFailed, NotInGroup, TimedOut
from antiphon.model.events import StoreLost, StoreRestored
from antiphon.model.ids import name_of
from antiphon.runtime.configuration import Membership

_PAUSE_S, _PAUSE_MAX_S = 0.5, 30.0
_LINE_BYTES = 1 << 20
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Running:
    def __init__(self, node: Node, groups: Mapping[str, Membership], *, show: bool, send: str, json: bool) -> None:
        self._node, self._memberships, self._show, self._send, self._json = node, groups, show, send, json
        self._stopping = asyncio.Event()
        self._groups: dict[str, Group] = {}
        self._ready = threading.Event()
        """Set when there is a group to send to."""

    async def until_stopped(self) -> int:
        """Runs until a signal comes; returns the exit code."""
        loop = asyncio.get_running_loop()
        handled = [number for number in _SIGNALS if _handle(loop, number, self._stop)]
        try:
            async with self._node as node:
                self._say({"event": "started", "node": node.name, "address": node.address}, f"{node.name} is at {node.address}")
                readers = [asyncio.create_task(self._stay_in(name, wanted)) for name, wanted in self._memberships.items()]
                if self._send:
                    threading.Thread(target=self._send_stdin, args=(sys.stdin.fileno(), loop), name="stdin", daemon=True).start()
                stopped = asyncio.create_task(self._stopping.wait())
                # A reader ends by itself only when it fails, and then everything does.
                done, _ = await asyncio.wait([stopped, *readers], return_when=asyncio.FIRST_COMPLETED)
                await node.close()
                for task in (stopped, *readers):
                    task.cancel()
                await asyncio.gather(stopped, *readers, return_exceptions=True)
                for task in done - {stopped}:
                    task.result()
        finally:
            for number in handled:
                loop.remove_signal_handler(number)
        self._say({"event": "closed", "node": self._node.name}, f"{self._node.name} has left")
        return 0

    def _stop(self) -> None:
        if self._stopping.is_set():
            self._node.abandon("it was told to stop at once")
        self._stopping.set()

    # -- groups ----------------------------------------------------------------------------------------------------------------

    async def _stay_in(self, name: str, wanted: Membership) -> None:
        pause_s = _PAUSE_S
        while not self._stopping.is_set():
            try:
                group = await self._node.join(name, create=True, history=wanted.wanted(), **wanted.options())
            except (JoinFailed, TimedOut, NotInGroup) as error:
                if self._stopping.is_set():
                    return
                self._complain(f"{error}; trying again in {pause_s:g} s")
            else:
                self._groups[name] = group
                self._ready.set()
                pause_s = _PAUSE_S
                await self._read(group)
                if self._stopping.is_set():
                    return
                self._say({"event": "left", "group": name}, f"{name}: out of the group; trying again in {pause_s:g} s")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause_s)
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)

    async def _read(self, group: Group) -> None:
        async for event in group.events():
            if type(event) is ViewChange:
                self._tell_view(group.name, event)
            elif type(event) is StoreLost:
                told: dict[str, Any] = {"event": "store_lost", "group": group.name, "why": event.why}
                self._say(told, f"{group.name}: the store does not answer: {event.why}")
            elif type(event) is StoreRestored:
                told = {"event": "store_restored", "group": group.name, "away_s": event.away_s}
                self._say(told, f"{group.name}: the store answers again, after {event.away_s:.1f} s")
            elif self._show and type(event) is MessageBatch:
                for message in event:
                    self._tell(group.name, message)

    def _tell_view(self, group: str, change: ViewChange) -> None:
        people = {key: [name_of(member) for member in value] for key, value in (("joined", change.joined), ("left", change.left))}
        members = [name_of(member) for member in change.view.members]
        told = {"event": "view", "group": group, "view": change.view.number, "members": members, **people, "sides": len(change.sides)}
        moved = [f"{name} joined" for name in people["joined"]] + [f"{name} left" for name in people["left"]]
        merged = [f"{len(change.sides)} sides are one again"] if len(change.sides) > 1 else []
        self._say(told, f"{group}: {change.view}{': ' if moved or merged else ''}{', '.join(merged + moved)}")

    def _tell(self, group: str, message: Message | Letter) -> None:
        text = message.raw.decode(errors="replace")
        told: dict[str, Any] = {"event": "message", "group": group, "sender": name_of(message.sender), "text": text}
        if isinstance(message, Letter):
            self._say({**told, "event": "letter"}, f"{group} {name_of(message.sender)} privately: {text}")
            return
        answers = message.reply_to
        told |= {"id": str(message.id), "reply_to": None if answers is None else str(answers)}
        self._say(told, f"{group} {message.id}{f' answers {answers}' if answers else ''}: {text}")

    # -- stdin -----------------------------------------------------------------------------------------------------------------

    def _send_stdin(self, descriptor: int, loop: asyncio.AbstractEventLoop) -> None:
        # Through a reader of its own: this thread may wait in it for ever, and the interpreter locks sys.stdin when it ends.
        with open(descriptor, "rb", closefd=False) as stdin:
            self._send_lines(stdin, loop)

    def _send_lines(self, stdin: IO[bytes], loop: asyncio.AbstractEventLoop) -> None:
        """In a thread of its own: stdin may be a terminal, a pipe or a file, and may never end. One line is sent after the other, so
        that a fast writer waits for the group."""
        self._ready.wait()
        while line := stdin.readline(_LINE_BYTES):
            if not line.endswith(b"\n") and len(line) == _LINE_BYTES:
                self._complain(f"a line of more than {_LINE_BYTES:,} bytes was not sent: split it")
                while (rest := stdin.readline(_LINE_BYTES)) and not rest.endswith(b"\n"):
                    pass
                continue
            try:
                sending = asyncio.run_coroutine_threadsafe(self._groups[self._send].send(line.rstrip(b"\r\n")), loop)
            except RuntimeError:
                return  # the loop has ended
            try:
                sending.result()
            except AntiphonError as error:
                self._complain(f"a line was not sent: {error}")
            except BaseException:
                return

    # -- saying ----------------------------------------------------------------------------------------------------------------

    def _say(self, told: dict[str, Any], text: str) -> None:
        line = msgspec.json.encode(told).decode() if self._json else _visible(text)
        print(line, flush=True)

    def _complain(self, text: str) -> None:
        terminal.err.print(_visible(text), markup=False, soft_wrap=True)


def _handle(loop: asyncio.AbstractEventLoop, number: signal.Signals, handler: Any) -> bool:
    try:
        loop.add_signal_handler(number, handler)
    except (NotImplementedError, RuntimeError, ValueError):
        return False  # this system, or this thread, has none: then Ctrl-C cancels
    return True


def _visible(text: str) -> str:
    """Without line ends, escapes and whatever else is not to be seen: a message must not command the terminal."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else character.encode("unicode_escape").decode() for character in text)
