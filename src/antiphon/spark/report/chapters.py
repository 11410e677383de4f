"""The chapters of the page: each takes the findings and gives a question and its answer, or None where nothing was found."""

from __future__ import annotations

from html import escape
from typing import TypeAlias

from antiphon.model.ids import name_of
from antiphon.sim.plots import COLOURS
from antiphon.spark.histogram import ERROR
from antiphon.spark.occurrences import REAL, SIMULATED
from antiphon.spark.report import pictures
from antiphon.spark.report.figures import several, share
from antiphon.spark.report.findings import Findings, Row
from antiphon.spark.report.sections import columns, more, picture, table

Chapter: TypeAlias = tuple[str, str] | None
VIOLATIONS_TOLD = 50
_MEASURES = {"end_to_end": "end to end", "travel": "on the way", "hold_back": "held back"}
_WORLDS = {
    SIMULATED: "<h3>Simulated groups</h3><p>Their time is virtual: what they took comes from the network and the faults that were chosen "
    "for them, and is the same on every machine.</p>",
    REAL: "<h3>Real groups</h3><p>By the clocks of the machines that they ran on. What failed meanwhile, and how much was sent at once, is "
    "part of what they took.</p>",
}

_SHORTENED = {
    "by_group": "the largest groups",
    "by_member": "the members that waited longest",
    "by_time": "delays as time went on",
    "largest": "the largest trees",
    "occupancy": "messages that wait",
    "rates": "what it cost",
    "views": "changes of view",
}


def promises(found: Findings) -> Chapter:
    verdicts = found.verdicts
    if verdicts is None:
        return None
    rows: list[Row] = [
        {
            "promise": name.replace("_", " "),
            "checked": summary.checked,
            "violations": summary.violations,
            "verdict": "BROKEN" if summary.violations else "kept",
        }
        for name, summary in verdicts.promises.items()
        if summary.checked or summary.violations
    ]
    rows += [
        {"promise": name.replace("_", " "), "verdict": f"not judged in {several(count, 'group', 'groups')}"}
        for name, count in verdicts.not_judged.items()
    ]
    told = "".join(
        f"<li><b>{escape(violation.promise.replace('_', ' '))}</b>, {escape(name_of(violation.group))}: {escape(violation.sentence)} "
        f"<small>{escape(', '.join(f'{name_of(row.writer)} #{row.index:,}' for row in violation.witness))}</small></li>"
        for violation in verdicts.violations[:VIOLATIONS_TOLD]
    )
    return "Were the promises kept?", (
        "<p>Each promise of each group, checked over everything that its members recorded. What a member that crashed had not done yet is "
        "not held against it.</p>"
        + table(columns("promise, checked, violations, verdict"), rows, mark="verdict", limit=len(rows))
        + (f'<h3>What proves it</h3><ol class="witnesses">{told}</ol>' if told else "")
    )


def delays(found: Findings) -> Chapter:
    if not found.by_order:
        return None
    worlds = found.worlds()
    measured = "p50_ns: p50, p99_ns: p99, max_ns: max"
    clocks = "source: from, destination: to, messages, quickest_ns: quickest, ahead_ns: clock ahead by, error_ns: give or take"
    return "How long did messages take?", (
        "<p><em>End to end</em> is from one application to the other. A part of it is spent <em>on the way</em>, repairs included; for the "
        "rest the message was there and was <em>held back</em> for the sake of the order. Percentiles are at most "
        f"{100 * ERROR:.1f} % off.</p>"
        + "".join((_WORLDS[world] if len(worlds) > 1 else "") + _delays_in(found, world) for world in worlds)
        + more("The largest groups, end to end", columns(f"run, world, group, order, deliveries, {measured}"), found.by_group)
        + more(
            "The members that waited longest, end to end", columns(f"run, world, group, member, deliveries, {measured}"), found.by_member
        )
        + (
            "<p>Between machines a delay is as good as their clocks; it is corrected by what messages in both directions show.</p>"
            + table(columns(clocks), found.clocks)
            if found.clocks
            else ""
        )
    )


def _delays_in(found: Findings, world: str) -> str:
    places = {order: place for place, order in enumerate(COLOURS)}
    here = [row for row in found.by_order if row["world"] == world]
    ranked = sorted(here, key=lambda row: (places.get(row["order"], len(places)), list(_MEASURES).index(row["measure"])))
    rows: list[Row] = [{**row, "measure": _MEASURES[row["measure"]], "some": share(row["above_zero"])} for row in ranked]
    shown = "order, measure, deliveries, some: above 0, mean_ns: mean, p50_ns: p50, p90_ns: p90, p99_ns: p99, p999_ns: p99.9, max_ns: max"
    return (
        table(columns(shown), rows, limit=len(rows))
        + picture(pictures.distribution([row for row in found.shape if row["world"] == world]))
        + picture(pictures.groups([row for row in found.by_group if row["world"] == world]))
        + picture(pictures.over_time([row for row in found.by_time if row["world"] == world]))
    )


def cost(found: Findings) -> Chapter:
    if not found.rates:
        return None
    rows: list[Row] = [
        {
            **row,
            **{f"{name}_told": f"{row[name]:,} ({share(row[name] / max(row['received'], 1))})" for name in ("resent", "duplicates")},
        }
        for row in found.rates
    ]
    shown = (
        "run, group, members: recorded by, sent, delivered, recovered: caught up, lost: told lost, asked: asked for, "
        "resent_told: sent again, duplicates_told: came twice, dropped"
    )
    return "What did it cost?", (
        "<p>Messages are counted at every member; repairs, duplicates (also as a share of what was received) and drops in frames, of which "
        "one may carry many messages. "
        "<em>Caught up</em> was delivered by synchronisation after an absence; <em>told lost</em> are messages that a member was told will "
        "never come.</p>"
        + table(columns(shown), rows)
        + more(
            "Messages that wait, when somebody looked",
            columns("run, group, place: where, samples, mean, p99, most, most_at: at"),
            found.occupancy,
        )
    )


def membership(found: Findings) -> Chapter:
    if not found.views:
        return None
    rows: list[Row] = [{**row, "view": str(row["view"])} for row in found.views]  # an id, not an amount
    shown = (
        "run, group, view, size: members, installed: installed by, spread_ns: until all had it, caught_up_ns: until caught up, "
        "stable_ns: until stable, unstable: never knew"
    )
    return "How did membership change?", (
        "<p>A change of view is over when everybody has the new view, has caught up with what others have, and knows that everybody has. "
        "The slowest come first; members that crashed, or went on to the next view before, never knew.</p>" + table(columns(shown), rows)
    )


def conversations(found: Findings) -> Chapter:
    if not found.conversations:
        return None
    shown = (
        "run, group, messages, trees, unanswered, largest, deepest, response_p50_ns: answered after (p50), response_p90_ns: p90, "
        "response_max_ns: max"
    )
    trees = "run, group, sender: begun by, seqno: number, size: messages, depth, participants: people, lasted_ns: lasted"
    lasting: list[Row] = [{**row, "lasted_ns": row["last_ns"] - row["first_ns"]} for row in found.largest]
    return "What were the conversations?", (
        "<p>Who answered whom. A tree is a message that answers none, with all answers to it and to them. A tree of one message is a "
        "question that nobody answered.</p>"
        + table(columns(shown), found.conversations)
        + picture(pictures.conversations(found.sizes, found.depths))
        + more("The largest trees", columns(f"{trees}, first_answer_ns: first answer after"), lasting)
    )


def sweep(found: Findings) -> Chapter:
    if not found.sweep:
        return None
    rows: list[Row] = [
        {
            **row,
            "held": share(row["held_share"]),
            "lost": share(row["loss"]),
            **{f"{name}_ns": 1e9 * row[f"{name}_s"] for name in ("hold_mean", "hold_p99", "end_to_end_mean")},
        }
        for row in found.sweep
    ]
    shown = (
        "order, multicast, members, rate: messages/s, lost: frames lost, seeds: runs, held: held back, hold_mean_ns: mean, "
        "hold_p99_ns: p99, end_to_end_mean_ns: end to end, frames_per_delivery: frames each, broken"
    )
    return "How do the orders scale?", (
        f"<p>{sum(row['seeds'] for row in found.sweep):,} simulations with the real protocols, every combination with several seeds; the "
        "figures are means over the seeds.</p>"
        + picture(pictures.sweep(found.sweep))
        + more("All combinations", columns(shown), rows, limit=len(rows))
    )


def traces(found: Findings) -> Chapter:
    shown = "run, world, writers: nodes, rows, span_ns: lasted, crashed, cut_off: cut off or running, clock_jumps: clock jumps"
    aside = (
        table(columns("reason, times, amount: rows or bytes"), found.aside)
        if found.aside
        else "<p>Every file and every row could be used.</p>"
    )
    cut = ", ".join(_SHORTENED.get(name, name) for name in sorted(found.shortened))
    shortened = f'<p class="note">Of some tables only the first rows are on this page: {escape(cut)}.</p>'
    return "What is this made from?", (
        "<p>From the rows of the runs below. What could not be used was set aside, and nothing was judged by its absence.</p>"
        + table(columns(shown), found.runs)
        + (f"<h3>Set aside</h3>{aside}" if found.aside else aside)
        + (shortened if found.shortened else "")
    )


CHAPTERS = (promises, delays, cost, membership, conversations, sweep, traces)
