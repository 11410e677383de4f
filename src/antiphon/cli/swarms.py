"""`antiphon sim swarm`: many worlds, each from one seed, each judged by the oracles.

What a flag leaves open is spread over the seeds: both kinds of worlds, every order, every multicast that repairs, both deliveries, both
policies for partitions, mixed faults. The command that is printed for a failing seed leaves nothing open, so it replays exactly that
world.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from antiphon.cli import arguments, terminal
from antiphon.cli.main import BROKEN
from antiphon.protocol.registry import MULTICASTS, ORDERS
from antiphon.sim.swarm import (
    FAULTS,
    KINDS,
    NODE_FAULTS,
    Case,
    Outcome,
    Summary,
    auditable,
    campaign,
    default_cases,
    replay_command,
)
from antiphon.sim.swarm import load as load_file

JOBS_LIMIT = 256
_FAILURES_SHOWN = 5


def swarm(
    seeds: Annotated[
        str, typer.Option(metavar="FIRST:END", help="The seeds to run, END not included; each is a world of its own.")
    ] = "0:100",
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="views: groups whose views are given to them; nodes: they find each other and agree on views themselves. Without it "
            "even seeds are the one, odd seeds the other.",
            autocompletion=lambda: list(KINDS),
        ),
    ] = None,
    order: Annotated[
        str | None,
        typer.Option(metavar="NAME", help=f"One order for all seeds: {', '.join(ORDERS)}.", autocompletion=lambda: list(ORDERS)),
    ] = None,
    multicast: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help=f"One multicast for all seeds: {', '.join(MULTICASTS)}.", autocompletion=lambda: list(MULTICASTS)
        ),
    ] = None,
    members: Annotated[
        int | None, typer.Option(metavar="COUNT", help="Members of each group, 2 … 64; without it each seed draws up to 12.")
    ] = None,
    faults: Annotated[
        str,
        typer.Option(
            metavar="LIST",
            help=f"Any of {','.join(FAULTS)}, and for nodes {','.join(NODE_FAULTS[len(FAULTS) :])}, with commas between; none; or mix, "
            "a draw per seed.",
        ),
    ] = "mix",
    delivery: Annotated[
        str | None, typer.Option(metavar="NAME", help="agreed or safe, for all seeds.", autocompletion=lambda: ["agreed", "safe"])
    ] = None,
    partitions: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="continue or majority: which side of a split network goes on; for nodes.",
            autocompletion=lambda: ["continue", "majority"],
        ),
    ] = None,
    messages: Annotated[
        int | None, typer.Option(metavar="COUNT", help="Messages of each conversation; without it each seed draws up to 120.")
    ] = None,
    load: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="A Python file with an order of your own, whose function register() makes it known; see docs/write-an-ordering.md. "
            "Repeat it for several files.",
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(metavar="COUNT", help="Worlds at a time; 0 is one per processor.")] = 0,
    resume: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep outcomes in this file, and skip those that are in it already.")
    ] = None,
    trace: arguments.Trace = None,
    json: arguments.Json = False,
) -> None:
    """Run one faulty world per seed and check every promise of its order, message by message.

    What you leave out is spread over the seeds: every order, every multicast that repairs, both deliveries. Leaves with 1 when a promise
    is broken or a group stalls, and prints the command that replays the first such seed."""
    files = list(dict.fromkeys(str(arguments.existing(file, "--load")) for file in load or ()))
    for file in files:
        load_file(file)
    if order is not None and order not in ORDERS:
        raise arguments.refused("--order", order, f"choose one of {', '.join(ORDERS)}, or bring your own with --load FILE")
    if kind is not None and kind not in KINDS:
        raise arguments.refused("--kind", kind, f"choose {' or '.join(KINDS)}, or leave it out for both")
    if partitions is not None and kind != "nodes":
        raise arguments.refused("--partitions", partitions, "only nodes make their views themselves; add --kind nodes")
    given: dict[str, object] = {"order": order, "multicast": multicast, "members": members, "delivery": delivery, "messages": messages}
    given["partitions"] = partitions
    fixed: dict[str, object] = {name: value for name, value in given.items() if value is not None}
    if multicast == "besteffort":
        if order is None:
            raise arguments.refused("--multicast", multicast, "not every order can do with it; add --order unordered or --order semantic")
        fixed.setdefault("delivery", "agreed")
    if faults != "mix":
        fixed["faults"] = () if faults == "none" else tuple(word.strip() for word in faults.split(","))
    if not 0 <= jobs <= JOBS_LIMIT:
        raise arguments.refused("--jobs", jobs, f"choose 1 to {JOBS_LIMIT}, or 0 for one per processor")
    cases = [msgspec.structs.replace(case, **fixed) for case in default_cases(arguments.seeds(seeds), kind)]
    if trace is not None and faults == "mix":
        cases = [auditable(case) for case in cases]
    try:
        summary = work(cases, jobs, resume, files, trace)
    except KeyboardInterrupt:
        if resume is not None:
            terminal.err.print(f"The outcomes so far are in {resume}: the same command goes on from there.", markup=False, soft_wrap=True)
        raise
    if json:
        terminal.print_json(as_dict(summary))
    else:
        terminal.out.print(verdict(summary), style="green" if summary.ok else "bold red", markup=False, soft_wrap=True)
        for failure in summary.failures[:_FAILURES_SHOWN]:
            terminal.out.print(f"{failure}\n  replay: {replay_command(failure.case, files)}", markup=False, soft_wrap=True)
    if not summary.ok:
        raise typer.Exit(BROKEN)


def work(
    cases: list[Case], jobs: int = 0, resume: Path | None = None, load: Sequence[str] = (), trace: Path | None = None
) -> Summary:
    """Runs the cases behind a progress bar."""
    done = 0
    with terminal.progress("swarming") as advance:
        advance(0, len(cases))

        def count(outcome: Outcome) -> None:
            nonlocal done
            done += 1
            advance(done, len(cases))

        return campaign(cases, jobs=jobs, progress=count, resume=resume, load=load, trace=trace)


def verdict(summary: Summary) -> str:
    """The summary in one sentence."""
    told = f"{summary.seeds:,} worlds, {summary.deliveries:,} deliveries, {summary.virtual_s:,.0f} virtual seconds: "
    if summary.ok:
        return told + "every promise kept, nobody stalled."
    return told + f"{summary.violations:,} violations, {summary.stalled:,} stalled, {summary.errors:,} errors."


def as_dict(summary: Summary) -> dict[str, object]:
    """Plain values, as `--json` prints them; each failure with the command that replays it."""
    plain: dict[str, object] = msgspec.to_builtins(summary)
    failures = [{**msgspec.to_builtins(failure), "replay": replay_command(failure.case, summary.load)} for failure in summary.failures]
    return {"ok": summary.ok, **plain, "failures": failures}
