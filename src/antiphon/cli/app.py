"""The list of nouns."""

from __future__ import annotations

from typing import Annotated

import typer

from antiphon import __version__
from antiphon.cli import bench, demo, sim

app = typer.Typer(
    name="antiphon",
    help="Group communication for Python: ordered multicast, and a simulator that checks its promises. Start with: antiphon demo",
    epilog="Exit codes: 0 every checked promise held, 1 a promise was broken or a group stalled, 2 the command cannot be run like this.",
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.command("demo")(demo.demo)
app.add_typer(sim.app, name="sim")
app.add_typer(bench.app, name="bench")


@app.callback(invoke_without_command=True)
def antiphon(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    if version:
        typer.echo(f"antiphon {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())
