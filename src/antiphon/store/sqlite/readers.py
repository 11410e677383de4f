"""A few threads that look things up, each with a connection of its own, so that neither the event loop nor the writer waits for a disk.

A look is a function of a connection; it may use several statements in one read transaction (`snapshot`) and must end it. Looks that wait
are at most `QUEUE_LOOKS`; more are refused with StoreUnreachable. Costs about 50 µs per look beside what it does.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, TypeVar

from antiphon.errors import StoreUnreachable
from antiphon.store.sqlite.address import SqliteAddress
from antiphon.store.sqlite.faults import told

T = TypeVar("T")
Look = Callable[[sqlite3.Connection], T]

QUEUE_LOOKS = 65_536
CLOSING_S = 10.0


@contextmanager
def snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """What is read within is of one moment."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:
            connection.execute("COMMIT")


class Readers:
    def __init__(self, connections: list[sqlite3.Connection], address: SqliteAddress) -> None:
        self._address = address
        self._answer_s = 2 * address.busy_s + 10.0
        self._loop = asyncio.get_running_loop()
        self._looks: SimpleQueue[tuple[Look[Any], asyncio.Future[Any]] | None] = SimpleQueue()
        self._waiting = 0
        self._is_closed = False
        self._leaving = threading.Lock()
        self._threads = [
            threading.Thread(target=self._run, args=(connection,), name=f"reader of {address.url}", daemon=True)
            for connection in connections
        ]
        for thread in self._threads:
            thread.start()

    async def look(self, look: Look[T]) -> T:
        if self._is_closed:
            raise StoreUnreachable(self._address.url, "it is not open")
        if self._waiting >= QUEUE_LOOKS:
            raise StoreUnreachable(self._address.url, f"{self._waiting:,} others are waiting to read")
        future: asyncio.Future[T] = self._loop.create_future()
        patience = self._loop.call_later(self._answer_s, self._give_up, future)
        self._waiting += 1
        self._looks.put((look, future))
        try:
            return await future
        finally:
            self._waiting -= 1
            patience.cancel()

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            for _ in self._threads:
                self._looks.put(None)
        for thread in self._threads:
            await self._loop.run_in_executor(None, thread.join, CLOSING_S)

    def _give_up(self, future: asyncio.Future[Any]) -> None:
        if not future.done():
            future.set_exception(StoreUnreachable(self._address.url, f"nothing could be read for {self._answer_s:.0f} s"))

    @staticmethod
    def _settle(future: asyncio.Future[Any], found: Any, error: Exception | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(found)

    def _run(self, connection: sqlite3.Connection) -> None:
        try:
            while asked := self._looks.get():
                look, future = asked
                found, wrong = None, None
                if not future.done():
                    try:
                        found = look(connection)
                    except Exception as error:
                        wrong = told(error, self._address.url)
                try:
                    self._loop.call_soon_threadsafe(self._settle, future, found, wrong)
                except RuntimeError:  # the loop is closed: nobody waits for the answer
                    return
        finally:
            # One after the other: two that leave at once each take the other for somebody who stays, and neither writes the log back.
            with self._leaving:
                connection.close()
