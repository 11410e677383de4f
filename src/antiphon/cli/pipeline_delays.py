"""`antiphon pipeline delays`: how long messages took, and where they waited."""

from __future__ import annotations

from typing import Annotated

import typer

from antiphon.cli import arguments, figures, spark, terminal

_BY = ("group", "order", "member", "time")
_MEASURED = {
    "measure": "measure",
    "deliveries": "deliveries",
    "mean_ns": "mean",
    "p50_ns": "p50",
    "p90_ns": "p90",
    "p99_ns": "p99",
    "p999_ns": "p99.9",
    "max_ns": "max",
}
_KEYS = {
    "group": {"run": "run", "group": "group", "order": "order"},
    "order": {"order": "order"},
    "member": {"run": "run", "group": "group", "member": "member"},
    "time": {"run": "run", "order": "order", "since_s": "since (s)"},
}
_COUNTS = ("sent", "received", "delivered", "recovered", "lost", "duplicates", "dropped", "asked", "resent")


def add(app: typer.Typer) -> None:
    app.command()(delays)


def delays(
    directory: figures.Traces,
    by: Annotated[
        str, typer.Option(metavar="WORD", help=f"What to tell apart: {', '.join(_BY)}.", autocompletion=lambda: list(_BY))
    ] = "group",
    bucket: Annotated[
        str | None, typer.Option(metavar="TIME", help="With --by time: how long a piece of time is, for example 10s.")
    ] = None,
    json: arguments.Json = False,
    master: spark.Master = None,
    remote: spark.Remote = None,
    settings: spark.Settings = None,
) -> None:
    """Show how long messages took from end to end, how long they travelled, and how long the order held them back.

    Also: what was sent again or came twice, how full buffers were, how long changes of view took, and how far clocks are apart.
    Percentiles are at most 1.1 % off."""
    if by not in _BY:
        raise arguments.refused("--by", by, f"choose one of {', '.join(_BY)}")
    bucket_s = arguments.seconds(bucket, "--bucket") if bucket is not None else None
    if bucket_s is not None and not bucket_s > 0:
        raise arguments.refused("--bucket", bucket, "give a time above 0, for example 10s")
    from antiphon.spark.delays import delays as measure
    from antiphon.spark.tables import Tables

    with spark.session("delays", master, remote, settings) as session:
        tables = Tables.of(session, directory)
        figures.require_rows(tables, directory)
        found = measure(tables, bucket_s)
        asked = {"group": found.by_group, "order": found.by_order, "member": found.by_member, "time": found.by_time}[by]
        taken = {
            f"by_{by}": asked(),
            **({"by_order": found.by_order()} if by != "order" else {}),
            "rates": found.rates,
            "occupancy": found.occupancy,
            "views": found.views,
            "clocks": found.clocks,
        }
        rows = {name: figures.rows_of(table) for name, table in taken.items()}
    if json:
        more = sorted(name for name, (_, left) in rows.items() if left)
        terminal.print_json({"bucket_s": found.bucket_s, **{name: some for name, (some, _) in rows.items()}, "shortened": more})
        return
    show = terminal.out.print
    asked_for = rows[f"by_{by}"][0]
    worlds = {"world": "world"} if len({row["world"] for row in asked_for}) > 1 else {}
    show(figures.table(f"How long, by {by}", {**worlds, **_KEYS[by], **_MEASURED}, asked_for))
    show(figures.table("Frames and messages", {key: key for key in ("group", "member", *_COUNTS)}, rows["rates"][0]))
    if rows["occupancy"][0]:
        headings = {"group": "group", "place": "where", "samples": "samples", "mean": "mean", "p99": "p99", "most": "most", "most_at": "at"}
        show(figures.table("Messages that wait", headings, rows["occupancy"][0]))
    headings = {
        "group": "group",
        "view": "view",
        "size": "members",
        "spread_ns": "all had it",
        "caught_up_ns": "caught up",
        "stable_ns": "stable",
    }
    show(figures.table("Changes of view", headings, rows["views"][0]))
    if rows["clocks"][0]:
        headings = {"source": "clock of", "destination": "seen from", "ahead_ns": "is behind by", "error_ns": "give or take"}
        show(figures.table("Clocks of machines", headings, rows["clocks"][0]))
