"""A stretch: the longest piece of one writer's rows in one file whose indexes follow each other. `Survey` finds those of a file.

A file as a writer leaves it is one stretch, whatever its size. Keeps: one record batch, and the stretches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

CLOCK_JUMP_NS = 1_000_000_000
RANGED = ("send", "receive", "hold", "deliver", "gap", "publish", "read")
NEEDED = ("run", "writer", "index", "kind", "at", "wall", "hlc")
UNSOUND = "unsound row"
MESSAGES_LIMIT = 1 << 22
"""Messages that one row may stand for: those of one turn. Jobs that look at single messages would make as many of them as a row says."""
WIDE = ("gap", "read")
WIDE_LIMIT = 1 << 48
"""And of what is told to be missing, whose messages nobody looks at."""


@dataclass
class Stretch:
    """Rows `row … last_row` of a file as far as they are `writer`'s: `rows` of them, with the indexes `index, index + 1, …`. Or, with a
    `reason`, why `rows` rows of the file (all of it where `run` is null) were set aside; bytes, if nobody knows how many rows it has."""

    path: str
    uri: str
    reason: str | None
    run: str | None
    writer: str | None
    row: int
    last_row: int
    index: int
    rows: int
    closed: bool
    crashed: bool
    first_at: int
    last_at: int
    first_wall: int
    last_wall: int
    clock_jumps: int
    file_rows: int
    """Rows in the whole file: when all of them are taken, it can be read without looking at which."""

    @classmethod
    def aside(cls, path: str, uri: str, reason: str, amount: int, row: int = 0) -> Stretch:
        return cls(path, uri, reason, None, None, row, 0, 0, amount, False, False, 0, 0, 0, 0, 0, 0)

    @property
    def last_index(self) -> int:
        return self.index + self.rows - 1


class Survey:
    """Puts the stretches of one file together, record batch after record batch."""

    def __init__(self, path: str, uri: str) -> None:
        self.stretches: list[Stretch] = []
        self._path, self._uri = path, uri
        self._open_by_writer: dict[tuple[str, str], Stretch] = {}
        self._rows = 0
        self._unsound = 0
        self._first_unsound = -1

    def add(self, batch: Any) -> None:
        import numpy as np

        sound = _sound(batch)
        keys, writers = _writers(batch)
        numbers = {name: batch.column(name).fill_null(0).to_numpy(zero_copy_only=False) for name in ("index", "at", "wall")}
        kinds = _encoded(batch.column("kind"))
        words = kinds.dictionary.to_pylist()
        ends = {word: np.asarray(kinds.indices.fill_null(-1)) == words.index(word) for word in ("close", "crash") if word in words}
        if not sound.all():
            if not self._unsound:
                self._first_unsound = self._rows + int(np.argmin(sound))
            self._unsound += int((~sound).sum())
        # Each writer's rows together and in their order: a file of many small groups has thousands of writers.
        rows = np.flatnonzero(sound)
        if len(writers) != 1:
            rows = rows[np.argsort(keys[rows], kind="stable")]
        for chosen in np.split(rows, np.flatnonzero(np.diff(keys[rows])) + 1):
            if len(chosen):
                self._add_rows(writers[int(keys[chosen[0]])], chosen, numbers, ends)
        self._rows += batch.num_rows

    def _add_rows(self, key: tuple[str, str], chosen: Any, numbers: dict[str, Any], ends: dict[str, Any]) -> None:
        import numpy as np

        index, at, wall = (numbers[name][chosen] for name in ("index", "at", "wall"))
        breaks = np.flatnonzero(np.diff(index) != 1) + 1
        for piece in np.split(np.arange(len(chosen)), breaks):
            low, high = int(piece[0]), int(piece[-1])
            steps = np.diff(at[low : high + 1]), np.diff(wall[low : high + 1])
            closed, crashed = (word in ends and ends[word][chosen[low : high + 1]] for word in ("close", "crash"))
            self._join(
                Stretch(
                    *(self._path, self._uri, None, *key, self._rows + int(chosen[low]), self._rows + int(chosen[high])),
                    *(int(index[low]), high - low + 1, bool(closed is not False and closed[-1]), bool(np.any(crashed))),
                    *(int(at[low]), int(at[high]), int(wall[low]), int(wall[high])),
                    *(int(((np.abs(steps[1] - steps[0]) > CLOCK_JUMP_NS) | (steps[0] < 0)).sum()), 0),
                )
            )

    def _join(self, new: Stretch) -> None:
        assert new.run is not None
        assert new.writer is not None
        open_one = self._open_by_writer.get((new.run, new.writer))
        if open_one is not None and open_one.last_index + 1 == new.index:
            open_one.clock_jumps += new.clock_jumps + jumped(open_one.last_at, open_one.last_wall, new)
            open_one.rows += new.rows
            open_one.crashed |= new.crashed
            for name in ("last_row", "closed", "last_at", "last_wall"):
                setattr(open_one, name, getattr(new, name))
        else:
            self._open_by_writer[new.run, new.writer] = new
            self.stretches.append(new)

    def finish(self) -> list[Stretch]:
        found = self.stretches
        for stretch in found:
            stretch.file_rows = self._rows
        if self._unsound:
            found.append(Stretch.aside(self._path, self._uri, UNSOUND, self._unsound, self._first_unsound))
        return found


def jumped(last_at: int, last_wall: int, after: Stretch) -> bool:
    """Whether a clock jumped between a row and the first row of the stretch that follows."""
    step_at = after.first_at - last_at
    return step_at < 0 or abs(after.first_wall - last_wall - step_at) > CLOCK_JUMP_NS


def _encoded(column: Any) -> Any:
    import pyarrow as pa

    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


def _writers(batch: Any) -> tuple[Any, dict[int, tuple[str, str]]]:
    """A number per row for who wrote it, and who each number is."""
    import numpy as np

    runs, writers = _encoded(batch.column("run")), _encoded(batch.column("writer"))
    width = len(writers.dictionary) + 1
    keys = np.asarray(runs.indices.fill_null(-1)).astype(np.int64) * width + np.asarray(writers.indices.fill_null(-1))
    known = {}
    for key in np.unique(keys).tolist():
        run, writer = divmod(key, width)
        if run >= 0 and writer < width - 1:
            known[key] = (runs.dictionary[run].as_py(), writers.dictionary[writer].as_py())
    return keys, known


def _sound(batch: Any) -> Any:
    """Which rows say who, what and when, and name no range that ends before it begins or cannot be. For Spark: `tables.sound`."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    good = np.ones(batch.num_rows, bool)
    for name in NEEDED:
        if batch.column(name).null_count:
            good &= np.asarray(batch.column(name).is_valid())
    first, last = (batch.column(name).fill_null(0).to_numpy(zero_copy_only=False) for name in ("first", "last"))
    good &= batch.column("index").fill_null(-1).to_numpy(zero_copy_only=False) >= 0
    wrong, length = (last < first) | (first < 0), last - first
    if wrong.any() or (length >= MESSAGES_LIMIT).any():
        kinds = batch.column("kind").cast(pa.string())
        ranged, wide = (np.asarray(pc.is_in(kinds, pa.array(some)).fill_null(False)) for some in (RANGED, WIDE))
        good &= ~(ranged & (wrong | (length >= np.where(wide, WIDE_LIMIT, MESSAGES_LIMIT))))
    return good
