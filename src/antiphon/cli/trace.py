"""`antiphon trace`: a look at what was recorded. Large traces, and what they prove, are for `antiphon pipeline`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from antiphon.cli import arguments, terminal
from antiphon.cli.main import BROKEN

app = typer.Typer(help="Look at traces: what nodes and simulated worlds recorded.", no_args_is_help=True)


@app.command()
def show(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The directory that was given as trace.")],
    rows: Annotated[int, typer.Option(metavar="COUNT", min=0, max=100_000, help="Also print the first so many rows.")] = 0,
    writer: Annotated[str, typer.Option(metavar="NAME", help="Only rows of the writers whose name begins so.")] = "",
    json: arguments.Json = False,
) -> None:
    """Say of every file in a directory whether it can be read, and of every writer what there is of it.

    Leaves with 1 when a file cannot be read, or a row of a writer is missing. A file that is being written counts as neither."""
    import msgspec

    from antiphon.trace.reader import read

    if not directory.is_dir():
        raise arguments.refused("DIR", str(directory), "there is no such directory")
    contents = read(directory)
    writers = contents.writers()
    unusable = [file for file in contents.files if file.reason]
    shown = [row for row in contents.rows() if row.writer.startswith(writer)][:rows] if rows else []
    if json:
        summaries = [{**msgspec.to_builtins(summary), "missing": summary.missing} for summary in writers]
        terminal.print_json({"files": contents.files, "writers": summaries, "rows": [row._asdict() for row in shown]})
    else:
        usable = len(contents.files) - len(unusable)
        terminal.out.print(f"{usable:,} files, {contents.table.num_rows:,} rows of {len(writers):,} writers.")
        table = Table("run", "writer", "ended")
        for heading in ("rows", "missing", "deliveries"):
            table.add_column(heading, justify="right")
        for summary in writers:
            figures = (f"{summary.rows:,}", f"{summary.missing:,}", f"{summary.deliveries:,}")
            style = "red" if summary.missing else ""
            table.add_row(escape(summary.run), escape(summary.writer), summary.ended or "no", *figures, style=style)
        if writers:
            terminal.out.print(table)
        for row in shown:
            told = {column: value for column, value in row._asdict().items() if value not in (None, 0) and column not in ("run", "writer")}
            terminal.out.print(f"{row.writer} {row.index}: {told}", markup=False, soft_wrap=True)
        for file in unusable:
            terminal.out.print(f"{file.path}: {file.reason}", style="red", markup=False, soft_wrap=True)
    if any(not file.reason.startswith("unfinished") for file in unusable) or any(summary.missing for summary in writers):
        raise typer.Exit(BROKEN)
