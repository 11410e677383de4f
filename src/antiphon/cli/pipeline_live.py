"""`antiphon pipeline live`: which promises are broken, while it happens."""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.markup import escape

from antiphon.cli import arguments, spark, terminal
from antiphon.cli.main import BROKEN, UNJUDGED

if TYPE_CHECKING:
    from antiphon.spark.audit.verdict import Unjudged, Violation

_LOOK_S = 0.5


def add(app: typer.Typer) -> None:
    app.command()(live)


def live(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="The directory that the running nodes were given as trace.")],
    seconds: Annotated[float, typer.Option(metavar="S", min=0, help="Stop after so many seconds; 0: with Ctrl-C.")] = 0,
    strict: arguments.Strict = False,
    json: arguments.Json = False,
    master: spark.Master = None,
    remote: spark.Remote = None,
    settings: spark.Settings = None,
) -> None:
    """Watch the trace of running groups, and say within seconds when a promise is broken, with the rows that prove it.

    Watches no_duplication, fifo, integrity, total and parent_before_child; the other promises are for `antiphon pipeline audit` afterwards.
    Promises for which neither has a check are listed as not judged. Let the nodes finish a file of their trace every second (rotate_s).
    With --json each violation, and each promise that is not judged, is a line. Exits with 0 if no violation was found, and 1 if any was;
    with --strict, with 3 if none was and a promise is not judged."""
    from antiphon.spark.live import SETTINGS, LiveAudit

    counted: Counter[str] = Counter()
    unjudged: list[Unjudged] = []
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
                for one in audit.not_judged[len(unjudged) :]:
                    unjudged.append(one)
                    _print_unjudged(one, json)
        except KeyboardInterrupt:
            terminal.err.print("stopped", markup=False)
        finally:
            audit.stop()
    if not json:
        told = ", ".join(f"{count:,} × {promise}" for promise, count in sorted(counted.items()))
        names = ", ".join(sorted({one.promise for one in unjudged}))
        terminal.out.print((told or "no promise was seen broken") + (f"; not judged: {names}" if names else ""), markup=False)
    if counted:
        raise typer.Exit(BROKEN)
    if strict and unjudged:
        raise typer.Exit(UNJUDGED)


def _print_unjudged(one: Unjudged, json: bool) -> None:
    if json:
        sys.stdout.write(msgspec.json.encode({"run": one.run, "group": one.group, "not_judged": one.promise}).decode() + "\n")
        sys.stdout.flush()
    else:
        terminal.out.print(f"not judged {one.promise} {one.group}: there is no check for this promise", markup=False, style="yellow")


def _print(violation: Violation, json: bool) -> None:
    if json:
        sys.stdout.write(msgspec.json.encode(violation).decode() + "\n")
        sys.stdout.flush()
        return
    rows = ", ".join(f"{each.writer} #{each.index:,}" for each in violation.witness)
    group, sentence = escape(violation.group), escape(violation.sentence)
    terminal.out.print(f"[bold red]{violation.promise}[/bold red] {group}: {sentence} [dim]({escape(rows)})[/dim]", soft_wrap=True)
