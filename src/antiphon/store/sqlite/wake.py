"""How waiting readers learn of a commit: at once within the process, by a datagram from another, and else by looking.

Beside the file lies a directory with one socket per open store. After a commit the writer sends each socket one datagram that names what
changed; it never waits, since a full socket has a ring in it already. A socket that nobody listens to any more is removed. Whoever waits
also looks every quarter of a second whether the file has changed (`PRAGMA data_version`): a lost ring costs that much time and no more,
and where there can be no socket (a path too long for one, too many of them, a directory that may not be written) that is all there is.

A ring only says "look again": a forged one costs a look.
"""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

from antiphon.store.ending import end
from antiphon.store.sqlite.transaction import Channel

POLL_S = 0.25
SOCKETS = 128
CHANNELS = 128
"""Named in one datagram; if more have changed it names none, and means all."""
_PATH_BYTES = 107
_RELIST_S = 0.05
_GONE = {errno.ECONNREFUSED, errno.ENOENT, errno.ENOTSOCK}


class Wake:
    def __init__(self, directory: str, has_changed: Callable[[], Awaitable[bool]]) -> None:
        self._directory, self._has_changed = directory, has_changed
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[Channel, set[asyncio.Event]] = {}
        self._wanted = asyncio.Event()
        self._path = ""
        self._listener = self._listening()
        self._sender: socket.socket | None = None
        self._others: list[str] = []
        self._listed_at, self._listed_time = -1, 0.0
        if self._listener is not None:
            self._loop.add_reader(self._listener, self._receive)
        self._poller = self._loop.create_task(self._poll(), name=f"polling beside {directory}")

    @property
    def has_socket(self) -> bool:
        return self._listener is not None

    @contextmanager
    def listening(self, channel: Channel) -> Iterator[asyncio.Event]:
        """An event that is set when the channel rings. Listen first, then look, then wait: a commit in between rings."""
        event = asyncio.Event()
        self._waiting.setdefault(channel, set()).add(event)
        self._wanted.set()
        try:
            yield event
        finally:
            listeners = self._waiting.get(channel, set())
            listeners.discard(event)
            if not listeners:
                self._waiting.pop(channel, None)
            if not self._waiting:
                self._wanted.clear()

    def rang(self, channels: frozenset[Channel]) -> None:
        for channel in channels:
            for event in self._waiting.get(channel, ()):
                event.set()

    def rang_everywhere(self) -> None:
        for events in self._waiting.values():
            for event in events:
                event.set()

    async def close(self) -> None:
        await end(self._poller)
        if self._listener is not None:
            self._loop.remove_reader(self._listener)
            self._listener.close()
            with suppress(OSError):
                os.unlink(self._path)
        if self._sender is not None:
            self._sender.close()
        with suppress(OSError):
            os.rmdir(self._directory)  # only the last one succeeds
        self.rang_everywhere()

    # --- from other processes ----------------------------------------------------------------------------------------------------

    def _listening(self) -> socket.socket | None:
        self._path = os.path.join(self._directory, f"{os.getpid()}-{secrets.token_hex(4)}")
        if not hasattr(socket, "AF_UNIX") or len(os.fsencode(self._path)) > _PATH_BYTES:
            return None
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        listener.setblocking(False)
        for _ in range(8):  # whoever closes last removes the directory, perhaps just now
            try:
                os.makedirs(self._directory, exist_ok=True)
                if len(os.listdir(self._directory)) >= SOCKETS:
                    break
                listener.bind(self._path)
                return listener
            except FileNotFoundError:
                continue
            except OSError:
                break
        listener.close()
        return None

    def _receive(self) -> None:
        assert self._listener is not None
        for _ in range(64):
            try:
                datagram = self._listener.recv(8 * CHANNELS + 8)
            except OSError:
                return
            if datagram and len(datagram) % 8 == 0:
                self.rang(frozenset(struct.unpack(f"<{len(datagram) // 8}q", datagram)))
            else:
                self.rang_everywhere()

    async def _poll(self) -> None:
        while True:
            await self._wanted.wait()
            await asyncio.sleep(POLL_S)
            with suppress(Exception):  # a store that does not answer now is asked again
                if await self._has_changed():
                    self.rang_everywhere()

    # --- to other processes, in the writer's thread --------------------------------------------------------------------------------

    def ring(self, channels: frozenset[Channel]) -> None:
        others = self._sockets()
        if not others:
            return
        if self._sender is None:
            self._sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._sender.setblocking(False)
        datagram = struct.pack(f"<{len(channels)}q", *channels) if len(channels) <= CHANNELS else b""
        for path in others:
            try:
                self._sender.sendto(datagram, path)
            except OSError as error:
                if error.errno in _GONE:
                    with suppress(OSError):
                        os.unlink(path)
                    self._listed_at = -1

    def _sockets(self) -> list[str]:
        """The sockets of others; listed again when the directory has changed, and from time to time because its time stamp is coarse."""
        try:
            changed_at = os.stat(self._directory).st_mtime_ns
            if changed_at != self._listed_at or time.monotonic() - self._listed_time > _RELIST_S:
                paths = (os.path.join(self._directory, name) for name in sorted(os.listdir(self._directory))[:SOCKETS])
                self._others = [path for path in paths if path != self._path]
                self._listed_at, self._listed_time = changed_at, time.monotonic()
        except OSError:
            return []
        return self._others
