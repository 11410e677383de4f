"""`antiphon pipeline live`: which promises are broken, while it happens."""

from __future__ import annotations

import sys
import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.markup import escape

from antiphon.cli import arguments, spark, terminal
from antiphon.cli.main import BROKEN, UNJUDGED

if TYPE_CHECKING:
    from antiphon.spark.audit.verdict import Unjudged, Violation
    from antiphon.spark.live import LiveAudit

_LOOK_S = 0.5
_IN_WORDS = {"not_judged": "not judged, live or afterwards", "left_to_audit": "left to `antiphon pipeline audit`"}


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

    Judges no_duplication, fifo, integrity, total and parent_before_child. Every other promise of a group is listed: as left to `antiphon
    pipeline audit` afterwards, or as not judged where neither has a check. Let the nodes finish a file of their trace every second
    (rotate_s). With --json each violation, and each promise that is left or not judged, is a line.

    Exits with 0 if no violation was found, and 1 if any was; with --strict, with 3 if none was and any promise is left to the audit or not
    judged. Every group has some that are: with --strict only the audit afterwards leaves with 0."""
    from antiphon.spark.live import SETTINGS, LiveAudit

    counted: Counter[str] = Counter()
    told: Counter[str] = Counter()
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
                _list_others(audit, told, json)
        except KeyboardInterrupt:
            terminal.err.print("stopped", markup=False)
        finally:
            audit.stop()
    others = {what: sorted({one.promise for one in listed}) for what, listed in _others(audit).items()}
    if not json:
        said = ", ".join(f"{count:,} × {promise}" for promise, count in sorted(counted.items())) or "no promise was seen broken"
        said += "".join(f"; {_IN_WORDS[what]}: {', '.join(names)}" for what, names in others.items() if names)
        terminal.out.print(said, markup=False)
    if counted:
        raise typer.Exit(BROKEN)
    if strict and any(others.values()):
        raise typer.Exit(UNJUDGED)


def _others(audit: LiveAudit) -> dict[str, list[Unjudged]]:
    return {"not_judged": audit.not_judged, "left_to_audit": audit.left_to_audit}


def _list_others(audit: LiveAudit, told: Counter[str], json: bool) -> None:
    """Print the promises that are not judged here and were not listed yet: in JSON one on a line, in text those of a group."""
    for what, listed in _others(audit).items():
        fresh, told[what] = listed[told[what] :], len(listed)
        if json:
            for one in fresh:
                sys.stdout.write(msgspec.json.encode({"run": one.run, "group": one.group, what: one.promise}).decode() + "\n")
            sys.stdout.flush()
            continue
        names_by_group: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for one in fresh:
            names_by_group[one.run, one.group].append(one.promise)
        for (_, group), names in names_by_group.items():
            terminal.out.print(f"{group}: {_IN_WORDS[what]}: {', '.join(names)}", markup=False, style="yellow", soft_wrap=True)


def _print(violation: Violation, json: bool) -> None:
    if json:
        sys.stdout.write(msgspec.json.encode(violation).decode() + "\n")
        sys.stdout.flush()
        return
    rows = ", ".join(f"{each.writer} #{each.index:,}" for each in violation.witness)
    group, sentence = escape(violation.group), escape(violation.sentence)
    terminal.out.print(f"[bold red]{violation.promise}[/bold red] {group}: {sentence} [dim]({escape(rows)})[/dim]", soft_wrap=True)
