"""The list of nouns."""

from __future__ import annotations

from typing import Annotated

import typer

from antiphon import __version__
from antiphon.cli import bench, chat, demo, doctor, node, pipeline, sim, store, topic, trace

app = typer.Typer(
    name="antiphon",
    help="Group communication for Python: groups, ordered multicast, and a simulator that checks its promises.\n\n"
    "Start with `antiphon demo`, or `antiphon chat`.",
    epilog="Every command explains itself with --help and prints JSON with --json. It leaves with 0 when every promise that it checked "
    "held, with 1 when one was broken or a group stalled, and with 2 when it cannot be run like this.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.command("demo")(demo.demo)
app.command("chat")(chat.chat)
app.add_typer(node.app, name="node")
app.add_typer(topic.app, name="topic")
app.add_typer(store.app, name="store")
app.add_typer(doctor.app, name="doctor")
app.add_typer(sim.app, name="sim")
app.add_typer(trace.app, name="trace")
app.add_typer(pipeline.app, name="pipeline")
app.add_typer(bench.app, name="bench")


@app.callback(invoke_without_command=True)
def antiphon(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", metavar="", help="Print the version and leave.")] = False,
) -> None:
    if version:
        typer.echo(f"antiphon {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())
