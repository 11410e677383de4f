"""`antiphon pipeline report`: one page with what all jobs found."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli import arguments, figures, spark, terminal
from antiphon.cli.main import BROKEN, UNJUDGED


def add(app: typer.Typer) -> None:
    app.command()(report)


def report(
    directory: figures.Traces,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where the page is written.")] = Path("report.html"),
    sweep: Annotated[str | None, typer.Option(metavar="DIRECTORY", help="Results of `antiphon pipeline sweep` to show as well.")] = None,
    title: Annotated[str, typer.Option(metavar="TEXT", help="What stands on top of the page.")] = "",
    strict: arguments.Strict = False,
    json: arguments.Json = False,
    master: spark.Master = None,
    remote: spark.Remote = None,
    settings: spark.Settings = None,
) -> None:
    """Write one HTML page with the audit, the delays, the conversations and, if you like, a sweep: for somebody who was not there.

    The page needs no network and no other file. Exits with 1 if the audit found a broken promise; with --strict, with 3 if it found none
    and a promise was not judged."""
    import msgspec

    from antiphon.spark.report.findings import gather
    from antiphon.spark.report.page import page
    from antiphon.spark.tables import Tables

    arguments.writable(out, "--out", (".html", ".htm"))
    with spark.session("report", master, remote, settings) as session:
        tables = Tables.of(session, directory)
        figures.require_rows(tables, directory)
        results = None
        if sweep is not None:
            from antiphon.spark.sweep import results_in

            results = results_in(session, sweep)
            if results.isEmpty():
                raise arguments.refused("--sweep", sweep, "there are no results; make some with antiphon pipeline sweep OUT")
        found = gather(tables, directory, results)
    again = ["antiphon pipeline report", shlex.quote(directory), *(["--sweep", shlex.quote(sweep)] if sweep else [])]
    out.write_text(page(found, title, [" ".join(again)]), encoding="utf-8")
    verdicts = found.verdicts
    assert verdicts is not None, "gather asks the audit"
    if json:
        result = {"page": str(out), "clean": verdicts.clean, "complete": verdicts.complete, "findings": msgspec.to_builtins(found)}
        terminal.print_json(result)
    else:
        terminal.out.print(f"{out} is written: {verdicts.outcome()}", markup=False)
    if not verdicts.clean:
        raise typer.Exit(BROKEN)
    if strict and not verdicts.complete:
        raise typer.Exit(UNJUDGED)
