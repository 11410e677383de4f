"""The demo's report as one HTML page that needs nothing else: no network, no scripts, pictures inside, light and dark.

`page` only arranges what it is given; every figure on it was measured by the run that wrote it.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from antiphon import __version__
from antiphon.cli import comparison as comparisons
from antiphon.cli import spacetime
from antiphon.cli.story import READER, Story
from antiphon.sim.compare import Comparison
from antiphon.spark.report.style import style

Verdict = tuple[str, bool | None]
"""A sentence, and whether it is good news; None where it is none."""


def page(
    stories: Sequence[Story],
    comparison: Comparison,
    picture: str | None,
    swarm: Verdict,
    live: Verdict,
    proof: Verdict,
    proven: bool,
    commands: Sequence[str],
) -> str:
    """The whole page. `picture` is an SVG of the comparison, or None; `proven`: the proof has its page; `commands` are those that give
    these figures again."""
    drawings = "".join(
        f'<div class="card"><h3>{escape(story.order)}</h3><div class="scroll">{spacetime.draw(story)}</div></div>' for story in stories
    )
    shown = f'<div class="card scroll picture">{picture}</div>' if picture else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Antiphon: what an order is worth</title>
<style>{style("antiphon.cli")}</style>
</head>
<body><main>
<header>
<h1>Antiphon</h1>
<p>A group sings together when everyone agrees what comes after what. This page shows what each order promises, what it costs, and
whether the promises held when the network did its worst.</p>
</header>

<h2><small>1</small>Four friends, two questions, one slow line</h2>
<p>C asks about Delhi, then about Chennai. B and A have read both and answer one each. The line from C to {READER} is slow, so
{READER} has the answers before the questions. The same messages arrive at the same moments in all columns; only the order differs.</p>
<div class="pair">{"".join(_reading(story) for story in stories)}</div>
<p>Time runs to the right. Solid lines are questions, dashed ones answers. A dot is where a message is read; a ring is where it arrives
and must wait, and the bar shows how long.</p>
{drawings}

<h2><small>2</small>One conversation, five orders</h2>
<p>{escape(comparisons.subtitle(comparison))}. Every order sees the same arrivals and the same losses. <em>Held</em> is the share of
deliveries that had to wait although the message was there; <em>mean</em>, <em>p99</em> and <em>max</em> say how long, over all deliveries;
<em>early answers</em> were read before their question; <em>kept</em> says whether the order did what it promises.</p>
<div class="card scroll">{_table(comparison)}</div>
{shown}

<h2><small>3</small>Would it survive a bad day?</h2>
<p>A swarm of simulated groups with the real protocols, each in a world made from one number: loss, duplicates, reordering, slow
members and crashes. After each run every promise of its order is checked, message by message.</p>
{_verdict(swarm)}

<h2><small>4</small>And outside of the simulator?</h2>
<p>Three processes on one machine, over TCP, in one total order. While all of them were sending, the one that orders was ended with
<code>kill -9</code>.</p>
{_verdict(live)}

<h2><small>5</small>Says who?</h2>
<p>All of these groups recorded what they did. A Spark job that knows nothing of the protocols read the records of every member and checked
every promise once more.{" What it found is on a page of its own, <a href=proof.html>proof.html</a>." if proven else ""}</p>
{_verdict(proof)}

<h2><small>6</small>Get these figures again</h2>
<p>What was simulated comes from seeds: the same commands give the same figures on every machine. The processes are real, and so is
their time.</p>
<pre>{escape(chr(10).join(commands))}</pre>

<footer>Written by Antiphon {__version__}, <code>antiphon demo</code>.</footer>
</main></body></html>
"""


def _verdict(verdict: Verdict) -> str:
    sentence, good = verdict
    kind = "" if good is None else " good" if good else " bad"
    return f'<div class="card"><p class="verdict{kind}">{escape(sentence)}</p></div>'


def _reading(story: Story) -> str:
    """What the reader saw, as the reader saw it: an answer without its question stands alone, with one it is indented."""
    items: list[str] = []
    seen: set[str] = set()
    for line in story.read_by(READER):
        known = line.answers in seen
        remark = "" if line.answers is None or known else " <em>to what?</em>"
        if line.waited_s > 0:
            remark += f" <i>waited {1000 * line.waited_s:.0f} ms</i>"
        place = ' class="answer"' if known else ""
        at = f"{1000 * line.read_at:.0f} ms"
        items.append(f"<li><time>{at}</time><span{place}><b>{escape(line.author)}</b> {escape(line.text)}{remark}</span></li>")
        seen.add(line.text)
    return f'<div class="card"><h3>{escape(story.order)}: {READER} reads</h3><ol class="read">{"".join(items)}</ol></div>'


def _table(comparison: Comparison) -> str:
    head = "".join(f"<th>{escape(heading)}</th>" for heading in comparisons.HEADINGS)
    rows = []
    for result in comparison.results:
        cells = comparisons.row(result)
        classes = ["", *[""] * (len(cells) - 3), "good" if cells[-2] == "0" else "bad", "good" if cells[-1] == "all" else "bad"]
        rows.append(
            "<tr>" + "".join(f'<td class="{kind}">{escape(cell)}</td>' for kind, cell in zip(classes, cells, strict=True)) + "</tr>"
        )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
