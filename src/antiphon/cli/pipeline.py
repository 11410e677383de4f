"""`antiphon pipeline`: what groups did, from their traces, with Spark: ingest, audit; and in files of their own, further jobs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer
from rich.markup import escape
from rich.table import Table

from antiphon.cli import (
    arguments,
    pipeline_delays,
    pipeline_live,
    pipeline_report,
    pipeline_sweep,
    pipeline_threads,
    spark,
    submit,
    terminal,
)
from antiphon.cli.main import BROKEN, UNJUDGED
from antiphon.errors import UsageError

if TYPE_CHECKING:
    from antiphon.spark.audit import Verdicts

app = typer.Typer(
    help="Turn traces into knowledge, with Spark: were the promises kept, how long did messages wait, what were the conversations?\n\n"
    "Spark runs on this machine unless --master names a cluster or --remote a Spark Connect server. A trace is a directory that a node "
    "(`antiphon node run --trace DIR`) or the simulator (`antiphon sim run --trace DIR`) was given.",
    no_args_is_help=True,
)

Traces: TypeAlias = Annotated[str, typer.Argument(metavar="DIR", help="A directory of traces, or a lake that ingest has made.")]
_SHOWN = 5


@app.command()
def ingest(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="A directory of traces.")],
    lake: Annotated[str, typer.Argument(metavar="LAKE", help="Where the tables are kept; made if it is not there.")],
    json: arguments.Json = False,
    master: spark.Master = None,
    remote: spark.Remote = None,
    settings: spark.Settings = None,
) -> None:
    """Take what is new in a directory of traces into tables. Run it as often as you like: each row is taken once, and what cannot be used
    is set aside with the reason."""
    import msgspec

    from antiphon.spark.ingest import ingest as take

    with spark.session("ingest", master, remote, settings) as session:
        done = take(session, directory, lake)
    if json:
        terminal.print_json(msgspec.to_builtins(done))
        return
    if not done.files:
        terminal.out.print(f"nothing new in {directory}: {lake} is as it was", markup=False)
    else:
        where = f"{done.writers:,} writers of {done.runs:,} runs"
        terminal.out.print(f"{done.rows:,} rows from {done.files:,} new files; {lake} now has {where}", markup=False)
    _print_aside(done.aside, done.waiting)
    if done.clock_jumps:
        terminal.out.print(f"clocks jumped {done.clock_jumps:,} times: delays across a jump mean nothing")


@app.command()
def audit(
    directory: Traces,
    strict: arguments.Strict = False,
    json: arguments.Json = False,
    master: spark.Master = None,
    remote: spark.Remote = None,
    settings: spark.Settings = None,
) -> None:
    """Check the promises of each group over everything that was recorded, and show the rows that prove a broken one. Promises for which
    the audit has no check, of an order of your own, are listed as not judged.

    Exits with 0 if no violation was found, 1 if a promise was broken, and 2 if there is nothing that could be audited; with --strict, with
    3 if no violation was found and a promise was not judged."""
    from antiphon.spark.audit import audit as judge
    from antiphon.spark.tables import Tables

    with spark.session("audit", master, remote, settings) as session:
        tables = Tables.of(session, directory)
        aside = Counter({row.reason: row["count"] for row in tables.aside.groupBy("reason").count().collect()})
        if tables.writers.isEmpty():
            found = ", ".join(f"{count:,} × {reason}" for reason, count in sorted(aside.items()))
            raise UsageError(f"{directory} has no trace that could be audited ({found or 'there are no files'}): was it given as --trace?")
        verdicts = judge(tables)
    if not verdicts.verdicts:
        raise UsageError(f"{directory} has {verdicts.rows:,} rows of nodes that were in no group and had no topic: nothing was promised")
    if json:
        terminal.print_json({**verdicts.to_json(), "aside": dict(sorted(aside.items()))})
    else:
        _print_verdicts(verdicts)
        _print_aside(aside, 0)
    if not verdicts.clean:
        raise typer.Exit(BROKEN)
    if strict and not verdicts.complete:
        raise typer.Exit(UNJUDGED)


@app.command()
def program() -> None:
    """Print the file that spark-submit takes: spark-submit --master URL "$(antiphon pipeline program)" audit DIR"""
    typer.echo(submit.__file__)


def _print_verdicts(verdicts: Verdicts) -> None:
    table = Table("promise")
    for heading in ("checked", "violations"):
        table.add_column(heading, justify="right")
    for name, summary in verdicts.promises.items():
        table.add_row(name, f"{summary.checked:,}", f"{summary.violations:,}", style="bold red" if summary.violations else "")
    for name in verdicts.not_judged:
        table.add_row(escape(name), "not judged", "", style="yellow")
    terminal.out.print(table)
    groups = len({(verdict.run, verdict.group) for verdict in verdicts.verdicts})
    told = f"{verdicts.events:,} deliveries in {groups:,} groups ({verdicts.rows:,} rows)"
    terminal.out.print(f"{told}: {verdicts.outcome()}", markup=False)
    for name, summary in verdicts.promises.items():
        for violation in summary.witnesses[:_SHOWN]:
            rows = ", ".join(f"{each.writer} #{each.index:,}" for each in violation.witness)
            terminal.out.print(f"[bold]{name}[/bold] {escape(violation.group)}: {escape(violation.sentence)} [dim]({escape(rows)})[/dim]")
        if summary.violations > len(summary.witnesses[:_SHOWN]) > 0:
            terminal.out.print(f"[dim]… {summary.violations:,} violations of {name} in all; --json shows more[/dim]")


def _print_aside(aside: dict[str, int], waiting: int) -> None:
    if aside:
        counts = ", ".join(f"{count:,} × {reason}" for reason, count in sorted(aside.items()))
        terminal.out.print(f"set aside: {counts}{f' ({waiting:,} files may still be taken later)' if waiting else ''}", markup=False)


# Every other job has a file of its own, which adds its verbs here.
for _job in (pipeline_delays, pipeline_threads, pipeline_sweep, pipeline_report, pipeline_live):
    _job.add(app)
