"""The one writer of a process: a thread that takes all jobs that wait, and commits them together.

A job is a function of a `Transaction`. Each runs in a savepoint of its own, so its error is its own; then one COMMIT, which syncs the disk
once for all of them, and only then the answers, in one call into the event loop. While the disk syncs, the next jobs gather.

If nobody in the group asked for a sync, the commit does not sync (`synchronous=NORMAL`); the next one that does syncs the whole
write-ahead log, and so what was written before. If the transaction as a whole fails, because there is no room, the jobs are run again one
by one, and those that fit succeed. So a job changes nothing but the database.

Costs: about 0.1 ms per transaction beside the sync, most of it for the way to the thread and back, and 40 µs per job. Keeps: the jobs that
wait (`jobs.py`). A job without an answer after a while is given up with StoreUnreachable.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from antiphon.errors import BadStore, StoreUnreachable
from antiphon.store.sqlite.address import SqliteAddress
from antiphon.store.sqlite.clock import BootClock
from antiphon.store.sqlite.faults import is_full, told
from antiphon.store.sqlite.jobs import Job, JobQueue
from antiphon.store.sqlite.schema import WAL_BYTES
from antiphon.store.sqlite.transaction import Channel, Transaction, Work

T = TypeVar("T")
Told = Callable[[frozenset[Channel]], None]

CLOSING_S = 10.0
_CHECKPOINT_MS = 200
_COMMITS_PER_LOOK = 64


class Writer:
    def __init__(
        self, connection: sqlite3.Connection, file: tuple[int, int], address: SqliteAddress, clock: BootClock, ring: Told, rang: Told
    ) -> None:
        """`file` is the device and inode that the connection writes to. `ring` is called in the thread after each commit with what
        changed, to tell other processes; `rang` in the loop, before the answers."""
        self.commits = 0
        self._connection, self._address, self._clock, self._ring, self._rang = connection, address, clock, ring, rang
        self._answer_s = 2 * address.busy_s + 10.0
        self._loop = asyncio.get_running_loop()
        self._jobs = JobQueue(address.url, self._answer_s)
        self._syncs = True  # what `PRAGMA synchronous` says
        self._file = file
        connection.execute("PRAGMA busy_timeout=0")  # a transaction waits by itself
        self._thread = threading.Thread(target=self._run, name=f"writer of {address.url}", daemon=True)
        self._thread.start()

    async def submit(self, work: Work[T], *, synced: bool = True, weight: int = 0) -> tuple[T, bool]:
        """What the work returned, after its commit, and whether that synced. Cancelled, it has happened or will not: work that has been
        begun is waited for."""
        future: asyncio.Future[tuple[T, bool]] = self._loop.create_future()
        job = Job(work, synced, weight, future)
        await self._jobs.put(job)
        patience = self._loop.call_later(self._answer_s, self._give_up, job)
        try:
            return await future
        except asyncio.CancelledError:
            if not job.claim() and not job.is_settled:
                job.future = self._loop.create_future()
                with suppress(Exception):  # whatever comes of it, the caller has stopped listening
                    await job.future
            raise
        finally:
            patience.cancel()

    async def close(self) -> None:
        """Ends after what was submitted is answered."""
        self._jobs.close()
        await self._loop.run_in_executor(None, self._thread.join, CLOSING_S)

    def _give_up(self, job: Job) -> None:
        job.claim()  # if it was not begun it will not be
        if not job.future.done():
            job.future.set_exception(StoreUnreachable(self._address.url, f"nothing could be written for {self._answer_s:.0f} s"))

    # --- in the loop, called by the thread ---------------------------------------------------------------------------------------

    def _settle(self, jobs: Sequence[Job], outcomes: Sequence[Any], synced: bool, channels: frozenset[Channel]) -> None:
        self._rang(channels)
        for job, outcome in zip(jobs, outcomes, strict=True):
            self._jobs.settled(job)
            if job.future.done():
                continue
            if isinstance(outcome, Exception):
                job.future.set_exception(outcome)
            else:
                job.future.set_result((outcome, synced))

    # --- in the thread -----------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while group := self._jobs.gather():
                self._handle(group)
        finally:
            self._connection.close()

    def _handle(self, group: list[Job]) -> None:
        synced = any(job.synced for job in group)
        try:
            outcomes, channels = self._together(group, synced)
        except Exception as error:
            if len(group) > 1 and is_full(error):
                for job in group:
                    self._handle([job])
                return
            outcomes, channels = [told(error, self._address.url) for _ in group], frozenset()
        try:
            self._loop.call_soon_threadsafe(self._settle, group, outcomes, synced, channels)
        except RuntimeError:  # the loop is closed: nobody waits for the answer
            return
        if channels:
            with suppress(OSError):  # no socket more may be made: the others look by themselves
                self._ring(channels)
        if self.commits % _COMMITS_PER_LOOK == 0:
            self._bound_log()

    def _together(self, group: list[Job], synced: bool) -> tuple[list[Any], frozenset[Channel]]:
        connection = self._connection
        self._check_file()
        if synced != self._syncs:
            connection.execute(f"PRAGMA synchronous={'FULL' if synced else 'NORMAL'}")
            self._syncs = synced
        try:
            transaction = Transaction(connection, self._clock, self._address.busy_s)
            if len(group) > 1:
                outcomes = [self._apart(transaction, job) for job in group]
            else:
                outcomes = [group[0].work(transaction) if group[0].begins() else None]
            transaction.commit()
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        self.commits += 1
        return outcomes, frozenset(transaction.channels)

    def _apart(self, transaction: Transaction, job: Job) -> Any:
        if not job.begins():
            return None
        connection = self._connection
        connection.execute("SAVEPOINT job")
        try:
            outcome = job.work(transaction)
        except Exception as error:
            if not connection.in_transaction:  # SQLite has undone everything: there is no room, or the disk fails
                raise
            connection.execute("ROLLBACK TO job")
            connection.execute("RELEASE job")
            return told(error, self._address.url)
        connection.execute("RELEASE job")
        return outcome

    def _check_file(self) -> None:
        """SQLite goes on writing to a file that was deleted; what is acknowledged there is lost."""
        try:
            status = os.stat(self._address.path)
        except FileNotFoundError:
            raise BadStore(self._address.url, "the file was removed while it was open; close the store and open it again") from None
        if (status.st_dev, status.st_ino) != self._file:
            raise BadStore(self._address.url, "the file was replaced while it was open; close the store and open it again")

    def _bound_log(self) -> None:
        """The checkpoints after commits never come to the end of the log while other processes write all the time; this one holds them
        off until it has. If somebody reads for longer than it waits, the next one comes."""
        with suppress(OSError, sqlite3.Error):
            if os.stat(self._address.path + "-wal").st_size > WAL_BYTES:
                self._connection.execute(f"PRAGMA busy_timeout={_CHECKPOINT_MS}")
                try:
                    self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                finally:
                    self._connection.execute("PRAGMA busy_timeout=0")
