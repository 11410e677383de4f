"""`antiphon sim`: groups in virtual time; scenarios, swarms, and the orders side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli import arguments, swarms, terminal
from antiphon.cli.main import BROKEN

app = typer.Typer(
    help="Run groups in virtual time, with the real protocols: a scenario, the orders side by side, or a swarm of faulty worlds.",
    no_args_is_help=True,
)

@app.command()
def run(
    scenario: Annotated[Path, typer.Argument(help="A scenario file, for example one of tests/scenarios.", metavar="SCENARIO")],
    rewrite: Annotated[
        bool, typer.Option("--rewrite", metavar="", help="Write what happened into the file as its new expectation.")
    ] = False,
    trace: arguments.Trace = None,
    json: arguments.Json = False,
) -> None:
    """Run a scenario file and compare what happens with what it expects.

    Leaves with 1 when it comes out differently or a promise of its order is broken."""
    from antiphon.sim.scenario import run_file

    result = run_file(arguments.existing(scenario, "SCENARIO"), rewrite=rewrite, trace=trace)
    violations = [str(violation) for violation in result.violations]
    if json:
        terminal.print_json({"ok": result.ok, "differences": result.differences, "violations": violations, "text": result.text})
    else:
        terminal.out.print(result.text, markup=False, soft_wrap=True)
        for line in (*result.differences, *violations):
            terminal.out.print(line, markup=False, soft_wrap=True, style="red")
        if result.ok:
            terminal.out.print("[green]as expected")
        else:
            terminal.out.print(f"[bold red]not as expected[/]; if this is right: antiphon sim run {scenario} --rewrite", soft_wrap=True)
    if not result.ok:
        raise typer.Exit(BROKEN)


@app.command()
def compare(
    conversation: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="JSON lines with id, author, parents and text, gzipped or not. Without it: the one that Antiphon brings along.",
        ),
    ] = None,
    loss: Annotated[float, typer.Option(metavar="SHARE", help="Share of frames that are lost, from 0 to below 1.")] = 0.02,
    rate: Annotated[float, typer.Option(metavar="NUMBER", help="Messages per second of the whole group.")] = 10.0,
    delay: Annotated[str, typer.Option(metavar="LOW:HIGH", help="Shortest and longest delay of a frame.")] = "20ms:200ms",
    members: Annotated[int, typer.Option(metavar="COUNT", help="Members of the group, 2 … 64; the authors are spread over them.")] = 8,
    limit: Annotated[int | None, typer.Option(metavar="COUNT", help="Replay only the first so many messages.")] = None,
    multicast: Annotated[str, typer.Option(metavar="NAME", help="How messages travel: reliable, flood or tree.")] = "reliable",
    unread: Annotated[
        str,
        typer.Option(
            metavar="WORD", help="What to do with an answer whose question its author has not read yet: postpone it, or unlink the two."
        ),
    ] = "postpone",
    seed: Annotated[int, typer.Option(metavar="NUMBER", help="The number that all chance comes from.")] = 1,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw a picture to this file (.svg or .png).")] = None,
    json: arguments.Json = False,
) -> None:
    """Replay one conversation under every order, with the same arrivals, and show what each order costs and breaks.

    Leaves with 1 when an order breaks one of its own promises."""
    from antiphon.cli import comparison as comparisons
    from antiphon.sim import conversation as conversations
    from antiphon.sim.compare import ORDERS
    from antiphon.sim.compare import compare as run_comparison

    delay_s = arguments.interval(delay, "--delay")
    if plot is not None:
        arguments.writable(plot, "--plot", (".svg", ".png"))
    if conversation is None:
        source = conversations.shipped()
    else:
        source = conversations.load(arguments.existing(conversation, "--conversation"), limit)
    with terminal.progress("replaying") as advance:
        result = run_comparison(
            source,
            loss=loss,
            rate=rate,
            delay=delay_s,
            members=members,
            seed=seed,
            limit=limit,
            multicast=multicast,
            unread=unread,
            progress=lambda order, sent, lines: advance(ORDERS.index(order) * lines + sent, len(ORDERS) * lines),
        )
    if plot is not None:
        from antiphon.sim.plots import plot as draw

        draw(result, plot)
    if json:
        terminal.print_json(result.as_dict())
    else:
        terminal.out.print(comparisons.subtitle(result), soft_wrap=True)
        terminal.out.print(comparisons.table(result))
        if plot is not None:
            terminal.err.print(f"picture written to {plot}", markup=False)
    if not result.ok:
        raise typer.Exit(BROKEN)


app.command("swarm")(swarms.swarm)
