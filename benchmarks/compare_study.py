"""Measures the study in docs/compare.md and writes its tables, so that no number there is typed by hand.

    .venv/bin/python benchmarks/compare_study.py FILE [--document docs/compare.md] [--limit 3000] [--rates 2,5,10,20,50]

FILE is a conversation as JSON lines. Every table stands in the document between `<!-- begin NAME -->` and `<!-- end -->`. Everything
comes from the seed, so a second run changes nothing. Takes about ten minutes for 3,000 messages.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from antiphon.model.options import Settings
from antiphon.sim.compare import Comparison, compare
from antiphon.sim.conversation import load

CONDITIONS: dict[str, dict[str, object]] = {
    "as people speak": {},
    "steady": {"unread": "unlink"},
    "impatient": {"unread": "unlink", "settings": Settings(batch_messages=1)},
}
NAMES = {"as people speak": "as people speak, patient repair", "steady": "steady, patient repair", "impatient": "steady, impatient repair"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("conversation", type=Path)
    parser.add_argument("--document", type=Path, default=Path("docs/compare.md"))
    parser.add_argument("--limit", type=int, default=3_000)
    parser.add_argument("--rates", default="2,5,10,20,50")
    given = parser.parse_args()
    talk = load(given.conversation, limit=given.limit)
    sweeps: dict[str, list[Comparison]] = {}
    for condition, options in CONDITIONS.items():
        sweeps[condition] = []
        for rate in map(float, given.rates.split(",")):
            print(f"{condition}, {rate:g}/s", file=sys.stderr, flush=True)
            one = compare(talk, loss=0.02, rate=rate, **options)  # type: ignore[arg-type]
            assert one.ok, [result.broken for result in one.results]
            sweeps[condition].append(one)
    text = given.document.read_text()
    for name, table in tables(sweeps).items():
        text, count = re.subn(
            rf"(<!-- begin {name} -->\n).*?(<!-- end -->)",
            lambda found, table=table: f"{found[1]}{table}\n{found[2]}",
            text,
            flags=re.DOTALL,
        )
        assert count == 1, f"{given.document} has {count} places for the table {name!r}"
    given.document.write_text(text)


def tables(sweeps: dict[str, list[Comparison]]) -> dict[str, str]:
    speak, steady, impatient = (sweeps[condition] for condition in CONDITIONS)
    return {
        "as people speak": "\n\n".join(
            [
                table("mean hold-back, ms", speak, ("unordered", "fifo", "causal", "total", "semantic"), mean, ratios),
                table("deliveries held, % (99th percentile of hold-back, ms)", speak, ("fifo", "causal", "total", "semantic"), held),
                table("early answers", speak, ("unordered", "fifo", "causal", "total", "semantic"), early),
                table("spoken per second (lines postponed)", speak, ("causal", "total", "semantic"), spoken),
            ]
        ),
        "steady": table("mean hold-back, ms (deliveries held, %)", steady, ("fifo", "causal", "total", "semantic"), mean_and_held, ratios),
        "impatient": table("mean hold-back, ms (data frames sent)", impatient, ("causal", "total", "semantic"), mean_and_frames, ratios),
        "expected": expected(sweeps),
    }


def table(
    heading: str,
    sweep: Sequence[Comparison],
    orders: Sequence[str],
    cell: Callable[[Comparison, str], str],
    more: Callable[[Sequence[Comparison]], list[list[str]]] | None = None,
) -> str:
    rows = [[heading, *(f"{one.rate:g}/s" for one in sweep)], ["---"] * (len(sweep) + 1)]
    for order in orders:
        bold = "**" if order == "semantic" else ""
        rows.append([f"{bold}{order}{bold}", *(f"{bold}{cell(one, order)}{bold}" for one in sweep)])
    return "\n".join(f"| {' | '.join(row)} |" for row in [*rows, *(more(sweep) if more else [])])


def mean(one: Comparison, order: str) -> str:
    return f"{one[order].hold_back.mean_s * 1000:.1f}"


def held(one: Comparison, order: str) -> str:
    hold_back = one[order].hold_back
    return f"{hold_back.held_share * 100:.1f} ({hold_back.p99_s * 1000:.0f})"


def early(one: Comparison, order: str) -> str:
    return f"{one[order].violations['parent_before_child']:,}"


def spoken(one: Comparison, order: str) -> str:
    return f"{one[order].spoken_rate:.1f} ({one[order].postponed:,})"


def mean_and_held(one: Comparison, order: str) -> str:
    return f"{mean(one, order)} ({one[order].hold_back.held_share * 100:.1f})"


def mean_and_frames(one: Comparison, order: str) -> str:
    return f"{mean(one, order)} ({one[order].frames['data']:,})"


def held_ratio(one: Comparison) -> float:
    return one["causal"].hold_back.held / one["semantic"].hold_back.held


def mean_ratio(one: Comparison) -> float:
    return one["total"].hold_back.mean_s / one["semantic"].hold_back.mean_s


def ratios(sweep: Sequence[Comparison]) -> list[list[str]]:
    return [
        ["held, causal / semantic", *(f"{held_ratio(one):.1f}" for one in sweep)],
        ["mean, total / semantic", *(f"{mean_ratio(one):.0f}" for one in sweep)],
    ]


def expected(sweeps: dict[str, list[Comparison]]) -> str:
    rows = [
        ["", "semantic", "causal", "total", "held, causal / semantic", "mean, total / semantic"],
        ["---"] * 6,
        ["rough model", "2.1 ms", "7.7 ms", "120 ms", "3–4", "18–250"],
    ]
    for condition, sweep in sweeps.items():
        middle = next(one for one in sweep if one.rate == 10)
        spans = [(min(map(ratio, sweep)), max(map(ratio, sweep))) for ratio in (held_ratio, mean_ratio)]
        rows.append(
            [
                NAMES[condition],
                *(f"{mean(middle, order)} ms" for order in ("semantic", "causal", "total")),
                f"{spans[0][0]:.1f}–{spans[0][1]:.1f}",
                f"{spans[1][0]:.0f}–{spans[1][1]:.0f}",
            ]
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    main()
