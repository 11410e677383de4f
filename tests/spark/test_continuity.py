"""Which rows make up a writer's trace: decided from a few numbers, so shown on a few numbers."""

from __future__ import annotations

from antiphon.spark.continuity import Aside, Continuation, continue_writers
from antiphon.spark.stretch import UNSOUND, Stretch

S = 1_000_000_000


def stretch(
    path: str, index: int, rows: int, writer: str = "ana", *, run: str = "r", at: int | None = None, wall: int | None = None
) -> Stretch:
    """Ten rows a second from the writer's start on, on clocks that agree unless told otherwise."""
    begins = index * S // 10 if at is None else at
    ends = begins + (rows - 1) * S // 10
    drift = 0 if wall is None else wall - begins
    times = (begins, ends, begins + drift, ends + drift)
    return Stretch(path, f"file:///{path}", None, run, writer, 0, rows - 1, index, rows, False, False, *times, 0, rows)


def taken(result: Continuation) -> list[tuple[str, int, int]]:
    return [(take.stretch.path, take.first, take.last) for take in result.takes]


def test_files_in_any_order_are_one_trace() -> None:
    """A directory is listed in whatever order: rows would be called missing that are there."""
    result = continue_writers([stretch("c", 20, 10), stretch("a", 0, 10), stretch("b", 10, 10)])
    assert taken(result) == [("a", 0, 9), ("b", 10, 19), ("c", 20, 29)]
    assert result.aside == []
    assert (result.writers["r", "ana"].rows, result.writers["r", "ana"].contiguous) == (30, 29)


def test_after_a_hole_nothing_is_taken() -> None:
    """A message whose delivery was in the lost file would be reported as never delivered."""
    result = continue_writers([stretch("a", 0, 10), stretch("c", 20, 10), stretch("d", 30, 5)])
    assert taken(result) == [("a", 0, 9)]
    assert result.aside == [Aside("c", 10, "missing index", 10), Aside("d", 10, "missing index", 5)]
    assert result.waiting == {"c", "d"}
    assert result.writers["r", "ana"].contiguous == 9


def test_what_is_there_twice_is_taken_once() -> None:
    """A copied file would make every delivery in it a duplicate."""
    result = continue_writers([stretch("a", 0, 10), stretch("copy-of-a", 0, 10), stretch("b", 5, 10)])
    assert taken(result) == [("a", 0, 9), ("b", 10, 14)]
    assert result.aside == [Aside("b", 5, "duplicate index", 5), Aside("copy-of-a", 0, "duplicate index", 10)]
    assert result.writers["r", "ana"].rows == 15


def test_a_trace_without_its_beginning_has_no_rows() -> None:
    """Judging from the middle of a trace, everything before would count as absent."""
    result = continue_writers([stretch("b", 10, 10)])
    assert taken(result) == []
    assert result.writers == {}
    assert result.aside == [Aside("b", 0, "missing index", 10)]


def test_runs_and_writers_do_not_fill_each_others_holes() -> None:
    """Two runs in one folder would be mixed into one that never happened."""
    others = [stretch("b", 10, 10, run="q"), stretch("c", 10, 10, "ben"), stretch("d", 0, 5, run="q")]
    result = continue_writers([stretch("a", 0, 10), *others])
    assert {key: writer.contiguous for key, writer in result.writers.items()} == {("r", "ana"): 9, ("q", "ana"): 4}


def test_an_ingest_goes_on_where_the_last_one_was() -> None:
    """Every ingest would have to read all files again, or would find all new ones to be after a hole."""
    first = continue_writers([stretch("a", 0, 10), stretch("c", 20, 10)])
    second = continue_writers([stretch("b", 10, 10), stretch("c", 20, 10)], first.writers)
    assert taken(second) == [("b", 10, 19), ("c", 20, 29)]
    assert second.writers["r", "ana"].rows == 30
    assert first.writers["r", "ana"].rows == 10, "what was known is not changed"


def test_a_clock_that_jumps_between_two_files_is_counted() -> None:
    """Delays would be computed over a jump of the clock, and nobody would be told."""
    result = continue_writers([stretch("a", 0, 10), stretch("b", 10, 10, wall=3_600 * S), stretch("c", 20, 10, at=0, wall=3_600 * S)])
    assert result.writers["r", "ana"].clock_jumps == 2
    calm = continue_writers([stretch("a", 0, 10), stretch("b", 10, 10)])
    assert calm.writers["r", "ana"].clock_jumps == 0


def test_how_a_writer_ended_is_what_its_last_rows_say() -> None:
    """A node that was closed in order would be judged as one that crashed, or the reverse."""
    end = stretch("b", 10, 1)
    end.closed = True
    died = stretch("x", 0, 4, "ben")
    died.crashed = True
    writers = continue_writers([end, stretch("a", 0, 10), died, stretch("y", 0, 3, "cem")]).writers
    ends = [(writers["r", name].closed, writers["r", name].crashed) for name in ("ana", "ben", "cem")]
    assert ends == [(True, False), (False, True), (False, False)]


def test_a_reason_is_kept_with_its_place() -> None:
    """A file would be gone without anybody being told why."""
    result = continue_writers([Stretch.aside("a", "file:///a", "corrupt", 512), Stretch.aside("b", "file:///b", UNSOUND, 3, row=0)])
    assert result.aside == [Aside("a", None, "corrupt", 512), Aside("b", 0, UNSOUND, 3)]
