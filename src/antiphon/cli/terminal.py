"""Where commands write: results to stdout, progress and remarks to stderr, so that `--json` can always be piped."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Advance: TypeAlias = Callable[[int, int], None]
"""Told (done, total) as work goes on."""

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def program() -> str:
    """How to call Antiphon again: by its name where the shell finds it, otherwise as it was called, `.venv/bin/antiphon` for example."""
    called = sys.argv[0]
    return called if Path(called).name == "antiphon" and shutil.which("antiphon") is None else "antiphon"


def print_json(value: object) -> None:
    """One JSON document, floats and keys as they are, ending with a newline."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


@contextmanager
def progress(label: str) -> Iterator[Advance]:
    """A bar on stderr that goes away when the work is done; nothing where stderr is not a terminal."""
    bar = Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=32),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    )
    with bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
