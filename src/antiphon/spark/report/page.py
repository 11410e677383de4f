"""The report as one HTML page that needs nothing else: no network, no scripts, pictures inside, light and dark.

`page` only arranges what it is given. A section for which nothing was found is left out; what was shortened says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape

from antiphon.spark.audit.verdict import unjudged_in_words
from antiphon.spark.report.chapters import CHAPTERS
from antiphon.spark.report.figures import cell, duration, several
from antiphon.spark.report.findings import Findings
from antiphon.spark.report.sections import section
from antiphon.spark.report.style import style


def page(found: Findings, title: str = "", commands: Sequence[str] = (), about: str = "") -> str:
    """The whole page. `commands` are those that make it again; `about` is what no trace can say: what these groups were made to do."""
    told = [chapter for chapter in (write(found) for write in CHAPTERS) if chapter is not None]
    numbered = "".join(section(number, heading, body) for number, (heading, body) in enumerate(told, 1))
    again = f"<pre>{escape(chr(10).join(commands))}</pre>" if commands else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title or "What the groups did")}</title>
<style>{style("antiphon.spark.report")}</style>
</head>
<body><main>
<header>
<h1>{escape(title or "What the groups did")}</h1>
<p>{_subtitle(found)}</p>
</header>
{_headline(found)}
{f"<p>{escape(about)}</p>" if about else ""}
{numbered}
<footer>Written by Antiphon, <code>antiphon pipeline report</code>. {_origin(about)}{again}</footer>
</main></body></html>
"""


def _origin(about: str) -> str:
    return f"Everything {'but the first paragraph' if about else 'on this page'} comes from the traces alone."


def _subtitle(found: Findings) -> str:
    writers = sum(run["writers"] for run in found.runs)
    rows = sum(run["rows"] for run in found.runs)
    runs = several(len(found.runs), "run", "runs") if "runs" not in found.shortened else f"more than {len(found.runs):,} runs"
    runs_in = Counter(run.get("world") for run in found.runs)
    if len(runs_in) > 1 and "runs" not in found.shortened:
        runs += f" ({', '.join(f'{count:,} {world}' for world, count in runs_in.most_common())})"
    return f"{runs}, {several(writers, 'node', 'nodes')}, {rows:,} rows of trace, from <code>{escape(found.source)}</code>."


def _headline(found: Findings) -> str:
    """The figures that one would say first."""
    verdicts = found.verdicts
    boxes = []
    if verdicts is not None:
        groups = len({(verdict.run, verdict.group) for verdict in verdicts.verdicts})
        boxes += [("deliveries", cell(verdicts.events)), ("groups", cell(groups))]
    worlds = found.worlds()
    for world in worlds:
        rows = [row for row in found.by_order if (row["measure"], row["world"]) == ("end_to_end", world)]
        where = f", {world}" if len(worlds) > 1 else ""
        quickest, slowest = (duration(choose(row["p50_ns"] for row in rows)) for choose in (min, max))
        several_orders = quickest != slowest
        boxes += [
            (f"median{' by order' if several_orders else ''}{where}", f"{quickest} … {slowest}" if several_orders else slowest),
            (f"99 % within{where}", duration(max(row["p99_ns"] for row in rows))),
        ]
    figures = "".join(f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>" for name, value in boxes)
    verdict = ""
    if verdicts is not None:
        broken = sum(summary.violations for summary in verdicts.promises.values())
        kept = "Every promise was kept." if verdicts.kept else "No violation was found."
        said = kept if verdicts.clean else f"Promises were broken: {several(broken, 'violation', 'violations')}."
        if verdicts.not_judged:
            said += f" Not judged: {escape(unjudged_in_words(verdicts.not_judged))}."
        if verdicts.unchecked:
            said += f" Nothing to check: {', '.join(name.replace('_', ' ') for name in verdicts.unchecked)}."
        verdict = f'<p class="verdict {"good" if verdicts.clean and verdicts.complete else "bad"}">{said}</p>'
    return f'<div class="card headline">{verdict}<div class="figures">{figures}</div></div>'
