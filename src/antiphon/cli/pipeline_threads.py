"""`antiphon pipeline threads`: the conversations."""

from __future__ import annotations

from typing import Annotated

import typer

from antiphon.cli import arguments, figures, spark, terminal

_LARGEST = 20
_GROUP = {
    "run": "run",
    "group": "group",
    "messages": "messages",
    "trees": "trees",
    "unanswered": "unanswered",
    "largest": "largest",
    "deepest": "deepest",
    "response_p50_ns": "response p50",
    "response_p90_ns": "p90",
    "response_max_ns": "max",
}
_TREE = {"group": "group", "sender": "begun by", "seqno": "number", "size": "messages", "depth": "depth", "participants": "people"}


def add(app: typer.Typer) -> None:
    app.command()(threads)


def threads(
    directory: figures.Traces,
    out: Annotated[
        str | None, typer.Option(metavar="DIRECTORY", help="Write the tables `messages` and `trees` there, as Parquet; it must be new.")
    ] = None,
    json: arguments.Json = False,
    master: spark.Master = None,
    remote: spark.Remote = None,
    settings: spark.Settings = None,
) -> None:
    """Rebuild who answered whom: the reply trees of every group in which somebody answers, their size, depth, participants and response
    times, and the questions that nobody answered."""
    from pyspark.sql import functions as F

    from antiphon.spark.tables import Tables
    from antiphon.spark.threads import threads as rebuild

    with spark.session("threads", master, remote, settings) as session:
        tables = Tables.of(session, directory)
        figures.require_rows(tables, directory)
        found = rebuild(tables)
        if out is not None:
            found.messages.write.parquet(f"{out.rstrip('/')}/messages")
            found.trees.write.parquet(f"{out.rstrip('/')}/trees")
        groups, shortened = figures.rows_of(found.groups.orderBy(F.desc("messages"), "run", "group"))
        largest, _ = figures.rows_of(found.trees.orderBy(F.desc("size"), "run", "group", "sender", "seqno"), _LARGEST)
    if json:
        terminal.print_json({"groups": groups, "largest": largest, "shortened": ["groups"] if shortened else []})
        return
    if not groups:
        terminal.out.print("nobody answered anybody in these traces")
        return
    terminal.out.print(figures.table("Who answers whom", _GROUP, groups))
    terminal.out.print(figures.table("The largest trees", _TREE, largest))
    if out is not None:
        terminal.err.print(f"tables written to {out}", markup=False)
