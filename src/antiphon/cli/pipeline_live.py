"""`antiphon pipeline live`: which promises are broken, while it happens."""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from antiphon.cli import arguments, spark, terminal
from antiphon.cli.main import BROKEN

if TYPE_CHECKING:
    from antiphon.spark.audit.verdict import Violation

_LOOK_S = 0.5


def add(app: typer.Typer) -> None:
    app.command()(live)


def live(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="The directory that the running nodes were given as trace.")],
    seconds: Annotated[float, typer.Option(metavar="S", min=0, help="Stop after so many seconds; 0: with Ctrl-C.")] = 0,
    json: arguments.Json = False,
    master: spark.Master = None,
    remote: spark.Remote = None,
    settings: spark.Settings = None,
) -> None:
    """Watch the trace of running groups, and say within seconds when a promise is broken, with the rows that prove it.

    Watches no_duplication, fifo, integrity, total and parent_before_child. Let the nodes finish a file of their trace every second
    (rotate_s). With --json each violation is a line. Leaves with 1 when any was found, with 0 when none was."""
    from antiphon.spark.live import SETTINGS, LiveAudit

    counted: Counter[str] = Counter()
    chosen = [*(f"{key}={value}" for key, value in SETTINGS.items()), *(settings or ())]
    with spark.session("live", master, remote, chosen) as session:
        audit = LiveAudit.start(session, directory)
        terminal.err.print(f"watching {directory}" + (f" for {seconds:g} s" if seconds else " until Ctrl-C"), markup=False)
        until = time.monotonic() + seconds if seconds else float("inf")
        try:
            while time.monotonic() < until:
                time.sleep(_LOOK_S)
                for violation in audit.found():
                    counted[violation.promise] += 1
                    _print(violation, json)
        except KeyboardInterrupt:
            terminal.err.print("stopped", markup=False)
        finally:
            audit.stop()
    if not json:
        told = ", ".join(f"{count:,} × {promise}" for promise, count in sorted(counted.items()))
        terminal.out.print(told or "no promise was seen broken", markup=False)
    if counted:
        raise typer.Exit(BROKEN)


def _print(violation: Violation, json: bool) -> None:
    import msgspec

    if json:
        sys.stdout.write(msgspec.json.encode(violation).decode() + "\n")
        sys.stdout.flush()
        return
    rows = ", ".join(f"{each.writer} #{each.index:,}" for each in violation.witness)
    group, sentence = escape(violation.group), escape(violation.sentence)
    terminal.out.print(f"[bold red]{violation.promise}[/bold red] {group}: {sentence} [dim]({escape(rows)})[/dim]", soft_wrap=True)
