"""Writes a recorder's rows to files, in a thread of its own.

Every `PAUSE_S` the thread takes what is in the recorder's queue and makes Arrow columns of it, a thousand rows at a time so that it never
keeps the node's thread waiting for long. A file is complete, and seen, when it has `rotate_rows` rows or `rotate_bytes` bytes, at most
`rotate_s` seconds and a pause after its first row, and at the end; a crash loses the open one.

A disk that is slow lets the recorder's queue fill, one that fails costs the rows of a file: rows are missed, which the trace shows and
`stats` counts. The node goes on, always.

Keeps `GROUP_ROWS` rows as Arrow columns. Cost: about 4 µs per row, half of it outside Python's lock.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from antiphon.trace.columns import Columns
from antiphon.trace.files import MANNER, UNFINISHED, finish, need_pyarrow, path_of
from antiphon.trace.recorder import Recorder
from antiphon.trace.row import Taken

if TYPE_CHECKING:
    import pyarrow

PAUSE_S = 0.5
CHUNK_ROWS = 1_024
GROUP_ROWS = 65_536
"""Rows that are written at once: a row group of the file."""


class Writer:
    def __init__(
        self, recorder: Recorder, directory: Path, *, rotate_s: float = 5.0, rotate_rows: int = 1_000_000, rotate_bytes: int = 64 << 20
    ) -> None:
        need_pyarrow()
        self._recorder, self._directory = recorder, directory
        self._rotate_s, self._rotate_rows, self._rotate_bytes = rotate_s, rotate_rows, rotate_bytes
        self.rows = self.files = self.lost = 0
        """Rows and files that are complete; rows that could not be written."""
        self.error = ""
        """What went wrong last."""
        self._columns: Columns | None = None
        self._file: _File | None = None
        self._numbered = 0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="antiphon-trace", daemon=True)

    def start(self) -> None:
        """Begins to write. Raises the OSError that says why nothing can be written there."""
        path_of(self._directory, self._recorder.run, "writer", 0).parent.mkdir(parents=True, exist_ok=True)
        self._thread.start()

    def stop(self) -> None:
        """Lets the thread write what there is, and end; does not wait for it."""
        self._ending.set()

    def close(self, timeout: float = 10.0) -> bool:
        """Writes what there is and waits for it; whether all was written in time."""
        self.stop()
        if self._thread.is_alive():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def stats(self) -> dict[str, object]:
        """Counters, plain values. `dropped` rows found no room in the queue, `lost` ones could not be written."""
        waiting, dropped = len(self._recorder.rows), self._recorder.dropped
        return {"rows": self.rows, "files": self.files, "waiting": waiting, "dropped": dropped, "lost": self.lost, "error": self.error}

    # -- the thread ------------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            ending = self._ending.wait(PAUSE_S)
            self._take()
            file = self._file
            if file is not None and (ending or file.age_s() >= self._rotate_s):
                self._finish()
            if ending:
                return

    def _take(self) -> None:
        queue = self._recorder.rows
        while waiting := len(queue):
            take = queue.popleft
            self._put([take() for _ in range(min(waiting, CHUNK_ROWS))])
            time.sleep(0)  # the node's thread may want to go on

    def _put(self, rows: list[Taken]) -> None:
        if self._columns is None:
            self._columns = Columns(self._recorder.run, self._recorder.writer)
        if self._file is None:
            path = path_of(self._directory, self._recorder.run, self._recorder.writer, self._numbered)
            self._numbered += 1
            self._file = _File(path)
        file, before = self._file, self._file.rows
        try:
            file.add(self._columns.batch(rows))
        except Exception as error:
            # Whatever the disk or a row does to us, the node goes on, and the numbers show that rows are missing.
            self._lose(file, before + len(rows), error)
            return
        # Its age is looked at here, too: where rows come as fast as they are written the queue is never empty.
        if file.rows >= self._rotate_rows or file.bytes >= self._rotate_bytes or file.age_s() >= self._rotate_s:
            self._finish()

    def _finish(self) -> None:
        file, self._file = self._file, None
        if file is None:
            return
        try:
            file.finish()
        except Exception as error:
            self._lose(file, file.rows, error)
        else:
            self.rows += file.rows
            self.files += 1

    def _lose(self, file: _File, rows: int, error: Exception) -> None:
        self.lost += rows
        self.error = f"{type(error).__name__}: {error}"
        self._file = None
        file.abandon()


class _File:
    """One file while it is written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._unfinished = path.with_name(path.name + UNFINISHED)
        self._began_at = time.monotonic()
        self._writer: Any = None
        self._batches: list[pyarrow.RecordBatch] = []
        self._waiting = 0
        self.rows = self.bytes = 0

    def age_s(self) -> float:
        return time.monotonic() - self._began_at

    def add(self, batch: pyarrow.RecordBatch) -> None:
        self._batches.append(batch)
        self.rows += batch.num_rows
        self.bytes += batch.nbytes
        self._waiting += batch.num_rows
        if self._waiting >= GROUP_ROWS:
            self._flush()

    def finish(self) -> None:
        if self._batches:  # the last ones may have just made up a group
            self._flush()
        self._writer.close()
        finish(self._unfinished, self._path)

    def abandon(self) -> None:
        """Forgets the file; what cannot even be removed stays behind, with a name that says it is unfinished."""
        try:
            if self._writer is not None:
                self._writer.close()
            self._unfinished.unlink(missing_ok=True)
        except Exception:
            self._writer = None

    def _flush(self) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        table = pa.Table.from_batches(self._batches).unify_dictionaries()
        if self._writer is None:
            self._writer = parquet.ParquetWriter(self._unfinished, table.schema, **MANNER)
        self._writer.write_table(table)
        self._batches, self._waiting = [], 0
