"""What an audit says: for each group and promise how much was looked at and what was broken, with the rows that prove it.

Plain data: `Verdicts.to_json` is what `antiphon pipeline audit --json` prints. Keeps at most `WITNESSES` violations in full for each group
and promise, and `VIOLATIONS` in all; the others are counted.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
from msgspec import Struct

WITNESSES = 10
"""Violations of one promise that are told in full for one group."""
VIOLATIONS = 1_000
"""Violations that are told in full, of all groups and promises."""

OF_TRACES = ("description", "positions")
"""Promises about the trace itself: members describe their group alike, and number their deliveries without a jump."""
PROMISES = (
    *OF_TRACES,
    *("integrity", "no_duplication", "validity", "agreement", "nothing_lost", "virtual_synchrony", "views"),
    *("fifo", "causal", "total", "parent_before_child", "minimality"),
    *("topic_numbers", "topic_order", "topic_nothing_lost", "topic_gaps", "topic_done"),
)
"""All promises that an audit checks, in the order of its report."""


class Witness(Struct, frozen=True, order=True):
    """One row of the trace."""

    run: str
    writer: str
    index: int


class Violation(Struct, frozen=True):
    """A promise that was not kept: what happened, in one sentence, and the rows that alone prove it. Where something is missing, the last
    of the rows is the one before which it should have been there. `amount`: how many messages, values or views it is about."""

    run: str
    group: str
    promise: str
    sentence: str
    witness: tuple[Witness, ...]
    amount: int = 1


class Verdict(Struct, frozen=True):
    """One promise to one group. `checked` counts deliveries, views or values that were judged."""

    run: str
    group: str
    promise: str
    checked: int
    violations: int = 0


class Unjudged(Struct, frozen=True):
    """A promise of one group for which the audit has no check."""

    run: str
    group: str
    promise: str


class Summary(Struct, frozen=True):
    """One promise to all groups."""

    checked: int = 0
    violations: int = 0
    witnesses: tuple[Violation, ...] = ()


class Verdicts(Struct, frozen=True):
    """`events` counts message deliveries, `rows` the rows that were read. `verdicts` has a line for each group and promise that was judged,
    `unjudged` one for each that was not."""

    events: int
    rows: int
    verdicts: tuple[Verdict, ...]
    promises: dict[str, Summary]
    unjudged: tuple[Unjudged, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether no violation was found; `complete` says whether all promises were judged."""
        return not any(summary.violations for summary in self.promises.values())

    @property
    def complete(self) -> bool:
        return not self.unjudged

    @property
    def unchecked(self) -> list[str]:
        """Promises that some group gives, and for which no group had anything to check."""
        return [name for name, summary in self.promises.items() if not summary.checked and not summary.violations]

    @property
    def kept(self) -> bool:
        """Whether there are promises, and every one of them was judged, had something to check, and was kept."""
        promised = any(name not in OF_TRACES for name in self.promises)
        return self.clean and self.complete and promised and not self.unchecked

    @property
    def not_judged(self) -> dict[str, int]:
        """By promise that was not judged: in how many groups."""
        return dict(sorted(Counter(one.promise for one in self.unjudged).items()))

    def outcome(self) -> str:
        """Return the result as a clause, with the promises that were not judged, and those that had nothing to check."""
        if self.kept:
            return "every promise was kept"
        said = "no violation was found" if self.clean else "promises were BROKEN"
        said += f"; not judged: {unjudged_in_words(self.not_judged)}" if self.unjudged else ""
        return said + (f"; nothing to check: {', '.join(self.unchecked)}" if self.unchecked else "")

    @property
    def violations(self) -> tuple[Violation, ...]:
        """Those that are told in full."""
        return tuple(violation for summary in self.promises.values() for violation in summary.witnesses)

    def of_group(self, run: str, group: str) -> dict[str, Verdict]:
        """What is said of one group, by promise."""
        return {verdict.promise: verdict for verdict in self.verdicts if verdict.run == run and verdict.group == group}

    def to_json(self) -> dict[str, Any]:
        """`{"groups": […], "promises": {…: {"checked", "violations", "witnesses"}}, "not_judged": {…: groups}, "unchecked": […],
        "events", "rows", "clean", "complete"}` in plain values."""
        unjudged: dict[tuple[str, str], list[str]] = {}
        for one in self.unjudged:
            unjudged.setdefault((one.run, one.group), []).append(one.promise)
        broken: dict[tuple[str, str], dict[str, list[int]]] = {}
        for verdict in self.verdicts:
            broken.setdefault((verdict.run, verdict.group), {})[verdict.promise] = [verdict.checked, verdict.violations]
        groups = [
            {
                "run": run,
                "group": group,
                "clean": not any(violations for _, violations in counts.values()),
                "not_judged": unjudged.get((run, group), []),
                "promises": {name: {"checked": checked, "violations": violations} for name, (checked, violations) in counts.items()},
            }
            for (run, group), counts in broken.items()
        ]
        promises = msgspec.to_builtins(self.promises)
        told = {"events": self.events, "rows": self.rows, "clean": self.clean, "complete": self.complete}
        return {"groups": groups, "promises": promises, "not_judged": self.not_judged, "unchecked": self.unchecked, **told}


def unjudged_in_words(groups_by_promise: dict[str, int]) -> str:
    """`heard_before (3 groups), lamport (1 group)`."""
    return ", ".join(f"{name} ({count:,} group{'' if count == 1 else 's'})" for name, count in groups_by_promise.items())
