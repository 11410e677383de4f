"""Durable topics in one SQLite file, for the processes of one machine.

Theory of operation. Every process has one writer thread with one connection, a few reader threads with theirs, and a socket beside the
file. A call that changes something is a job of the writer: the writer takes all jobs that wait, runs each in a savepoint of one
transaction, commits, and only then are they answered (`writer.py`): one sync of the disk for as many as came meanwhile. A call that only
looks is a job of a reader thread. After a commit the writer rings at the sockets of the other processes, whose waiting readers then look
again (`wake.py`); who misses the ring looks by itself a quarter of a second later.

Values lie in one b-tree in the order of (topic, number) (`schema.py`), so that publishing appends, reading scans, and collecting removes a
piece of the beginning, whatever the length of the topic. Time is the machine's boot-time clock plus an offset in the file (`clock.py`).

`SqliteBackend` (`backend.py`) is the face; what a call does inside its transaction is in `publishing.py`, `subscribing.py`,
`collecting.py`, `recording.py` and `reading.py`.
"""

from __future__ import annotations

from antiphon.store.sqlite.backend import SqliteBackend

__all__ = ["SqliteBackend"]
