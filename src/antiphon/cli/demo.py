"""`antiphon demo`: the whole idea in less than a minute, on nothing but what is installed.

A story in which the order matters, the five orders side by side on a conversation, a swarm of faulty worlds, three real processes of which
one is killed, an audit of all that was recorded meanwhile, and two pages.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.columns import Columns
from rich.markup import escape
from rich.padding import Padding
from rich.panel import Panel
from rich.style import Style
from rich.text import Text

from antiphon.cli import arguments, live, proof, report, swarms, terminal
from antiphon.cli import comparison as comparisons
from antiphon.cli.main import BROKEN
from antiphon.cli.story import READER, Story, tell
from antiphon.errors import UsageError
from antiphon.sim import conversation as conversations
from antiphon.sim import plots
from antiphon.sim.compare import ORDERS, Comparison, compare
from antiphon.sim.swarm import auditable, default_cases

STORY_ORDERS = ("unordered", "causal", "semantic")
LOSS, RATE, SWARM_SEEDS = 0.02, 10.0, 120


def demo(
    out: Annotated[Path, typer.Option(metavar="DIRECTORY", help="Where the report page is written.")] = Path("antiphon-demo"),
    json: arguments.Json = False,
) -> None:
    """See what Antiphon is about, in a minute: a story, the orders side by side, a swarm, three processes, the audit of it all."""
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out} is a file: name a directory, for example --out antiphon-demo")
    out.mkdir(parents=True, exist_ok=True)
    stories = [tell(order) for order in STORY_ORDERS]
    if not json:
        _tell(stories)
    comparison = _compare()
    if not json:
        _show(comparison)
    traces = proof.directory(out)
    summary = swarms.work(list(map(auditable, default_cases(range(SWARM_SEEDS)))), trace=traces)
    verdict = swarms.verdict(summary)
    if not json:
        _judge(verdict, summary.ok)
    outcome = live.perform(traces)
    if not json:
        _watch(outcome)
    found = proof.prove(traces, out, _about(outcome))
    commands = (
        f"antiphon sim compare --loss {LOSS:g} --rate {RATE:g}",
        f"antiphon sim swarm --seeds 0:{SWARM_SEEDS} --trace {out / proof.TRACES}",
        f"antiphon pipeline audit {out / proof.TRACES}",
        "antiphon demo",
    )
    try:
        picture = plots.svg(comparison)
    except UsageError as missing:
        terminal.err.print(f"The report has no picture: {missing}", style="dim", markup=False, soft_wrap=True)
        picture = None
    page = out / "report.html"
    verdicts = (verdict, summary.ok), (outcome.verdict(), outcome.agreed), (found.sentence, found.kept)
    page.write_text(report.page(stories, comparison, picture, *verdicts, found.page is not None, commands), encoding="utf-8")
    if json:
        told = {"stories": stories, "comparison": comparison.as_dict(), "swarm": swarms.as_dict(summary)}
        terminal.print_json({**told, "live": outcome, "proof": found, "report": str(page)})
    else:
        _close(found, page)
    if not (summary.ok and comparison.ok and outcome.agreed and found.kept is not False):
        raise typer.Exit(BROKEN)


def _tell(stories: list[Story]) -> None:
    terminal.out.print("\n[bold]Antiphon[/]: a group sings together when everyone agrees what comes after what.\n")
    _head(1, "Four friends, two questions, one slow line")
    _say(
        "C asks about Delhi, then about Chennai; B and A read both and answer one each. "
        f"The line from C to {READER} is slow: the answers overtake the questions. In every order the same messages reach {READER} "
        f"at the same moments. What {READER} reads:"
    )
    terminal.out.print(Padding(Columns([_panel(story) for story in stories]), (1, 0, 1, 3)))
    _say(
        "[bold]unordered[/] shows answers to nothing. [bold]causal[/] is right, but Yes waits for Chennai too, because B had read "
        "it. [bold]semantic[/] waits for the question that is answered, and for nothing else.\n"
    )


def _panel(story: Story) -> Panel:
    """What the reader saw, line by line; an answer that follows its question is indented under it."""
    text = Text()
    seen: set[str] = set()
    for line in story.read_by(READER):
        text.append(f"{1000 * line.read_at:4.0f} ms  ", style="dim")
        if line.answers in seen:
            text.append("└ ")
        text.append(f"{line.author} ", style="bold")
        text.append(line.text)
        if line.answers is not None and line.answers not in seen:
            text.append("  ← to what?", style="red")
        elif line.waited_s > 0:
            text.append(f"  (waited {1000 * line.waited_s:.0f} ms)", style="dim")
        text.append("\n")
        seen.add(line.text)
    text.rstrip()
    border = "red" if story.order == "unordered" else "green"
    return Panel(text, title=f"[bold]{story.order}", title_align="left", width=40, border_style=border)


def _compare() -> Comparison:
    with terminal.progress("replaying a conversation") as advance:
        return compare(
            conversations.shipped(),
            loss=LOSS,
            rate=RATE,
            progress=lambda order, sent, lines: advance(ORDERS.index(order) * lines + sent, len(ORDERS) * lines),
        )


def _show(comparison: Comparison) -> None:
    _head(2, "A conversation of eight people, five orders, the same arrivals")
    _say(comparisons.subtitle(comparison))
    terminal.out.print(Padding(comparisons.table(comparison), (0, 0, 0, 3)))
    semantic, causal, total = (comparison[order].hold_back for order in ("semantic", "causal", "total"))
    _say(
        f"Of {semantic.deliveries:,} deliveries semantic order held {semantic.held:,}, causal {causal.held:,}, total {total.held:,}; "
        f"on average {1000 * semantic.mean_s:.1f}, {1000 * causal.mean_s:.1f} and {1000 * total.mean_s:.1f} ms.\n"
    )
    _head(3, "Would it survive a bad day?")
    _say(
        f"{SWARM_SEEDS} groups over every order and every multicast that repairs, with loss, duplicates, reordering, slow members and "
        "crashes; every promise is checked, message by message."
    )


def _judge(verdict: str, sound: bool) -> None:
    _say(f"[{'bold green' if sound else 'bold red'}]{verdict}\n")
    _head(4, "And outside of the simulator?")
    _say("Three processes on this machine, over TCP, in one total order; the one that orders is ended with kill -9.")


def _watch(outcome: live.Outcome) -> None:
    _say(f"[{'bold green' if outcome.agreed else 'bold red'}]{outcome.verdict()}\n")
    _head(5, "Says who?")
    _say(
        "All of them recorded what they did. A Spark job that knows nothing of the protocols reads the records of every member and checks "
        "every promise once more."
    )


def _about(outcome: live.Outcome) -> str:
    """What a reader of the audit's page has to know: its figures are of groups that were made to have a bad day."""
    return (
        f"{SWARM_SEEDS} of the groups are simulated, in worlds made to be bad: loss, duplicates, reordering, slow members, crashes. One is "
        f"real: {', '.join(outcome.names)}, three processes on this machine in one total order. The one that orders, {outcome.killed}, was "
        f"ended with kill -9 while all were sending, and the others went on without it after {outcome.noticed_s:.1f} s. Most of what they "
        "sent had to wait for that: the delays of the real group show a failure, not how quick total order is."
    )


def _close(found: proof.Proof, page: Path) -> None:
    _say(f"[{'bold green' if found.kept else 'bold red' if found.kept is False else 'yellow'}]{escape(found.sentence)}\n")
    _head(6, "The same with pictures")
    for path, about in ((str(page), "what an order is worth"), (found.page, "what these groups did")):
        if path is not None:
            link = Style(bold=True, link=Path(path).resolve().as_uri())
            terminal.out.print(Text.assemble("   ", (path, link), "  ", (about, "dim")), soft_wrap=True)
    terminal.out.print()
    _head(7, "Go on")
    for words, about in (
        ("sim swarm --seeds 0:500", "more bad days"),
        (f"pipeline audit {page.parent / proof.TRACES}", "every promise, one by one"),
        ("sim compare --rate 50", "the same conversation, five times as fast"),
        ("--help", "everything else; the twenty lines of Python are in README.md"),
    ):
        terminal.out.print(Text.assemble("   ", (f"{terminal.program()} {words}", "bold"), "  ", (about, "dim")), soft_wrap=True)
    terminal.out.print()


def _head(number: int, title: str) -> None:
    terminal.out.print(f"[bold cyan]{number}  {title}")


def _say(markup: str) -> None:
    terminal.out.print(Padding(markup, (0, 0, 0, 3)))
