"""What every command on Spark shares: where it runs, and what is seen of it meanwhile. One session per command."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

import typer
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from antiphon.cli import arguments, terminal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Master: TypeAlias = Annotated[
    str | None, typer.Option("--master", metavar="URL", help="Where Spark runs: local[4], spark://HOST:7077. Without: on this machine.")
]
Remote: TypeAlias = Annotated[str | None, typer.Option("--remote", metavar="URL", help="A Spark Connect server: sc://HOST:15002.")]
Settings: TypeAlias = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting of Spark, for example spark.driver.memory=8g.")
]

Show: TypeAlias = Callable[[str, int, int], None]
"""What is being done, tasks done, tasks known."""
_LOOK_S = 0.3


@contextmanager
def session(
    label: str, master: str | None = None, remote: str | None = None, settings: Sequence[str] | None = None
) -> Iterator[SparkSession]:
    """A session, and on stderr how far it has come: nothing where stderr is not a terminal."""
    from antiphon.spark.session import open_session

    chosen = chosen_settings(settings)
    with _bar(label) as show:
        show("starting Spark", 0, 0)
        with open_session(master=master, remote=remote, name=f"antiphon {label}", settings=chosen) as spark, _watched(spark, label, show):
            yield spark


def chosen_settings(settings: Sequence[str] | None) -> dict[str, str]:
    return dict(_setting(text) for text in settings or ())


def _setting(text: str) -> tuple[str, str]:
    key, mark, value = text.partition("=")
    if not mark or not key.startswith("spark."):
        raise arguments.refused("--set", text, "write a setting of Spark and its value, for example spark.driver.memory=8g")
    return key, value


@contextmanager
def _bar(label: str) -> Iterator[Show]:
    columns = (SpinnerColumn(), TextColumn("[bold]{task.description}"), BarColumn(bar_width=24), TextColumn("{task.fields[tasks]}"))
    bar = Progress(*columns, TimeElapsedColumn(), console=terminal.err, transient=True, disable=not terminal.err.is_terminal)
    with bar:
        task = bar.add_task(label, total=None, tasks="")

        def show(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total or None, tasks=f"{done:,} of {total:,} tasks" if total else "")

        yield show


@contextmanager
def _watched(spark: SparkSession, label: str, show: Show) -> Iterator[None]:
    if not terminal.err.is_terminal:
        yield
        return
    if not hasattr(spark, "_jsparkSession"):  # Spark Connect: the server tells

        def told(stages: Any, inflight_tasks: int, operation_id: str | None, done: bool) -> None:  # the names are the handler's contract
            show(label, sum(stage.num_completed_tasks for stage in stages or ()), sum(stage.num_tasks for stage in stages or ()))

        spark.registerProgressHandler(cast(Any, told))
        try:
            yield
        finally:
            spark.removeProgressHandler(cast(Any, told))
        return
    leave = threading.Event()
    watcher = threading.Thread(target=_watch, args=(spark, label, show, leave), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        leave.set()
        watcher.join(timeout=5)


def _watch(spark: SparkSession, label: str, show: Show, leave: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    while not leave.wait(_LOOK_S):
        try:
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        except Exception:  # whatever Java says here must not end the command
            return
        known = [stage for stage in stages if stage is not None]
        show(label, sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known))
