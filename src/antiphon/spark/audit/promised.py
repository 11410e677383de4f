"""The promises of a group, by name, as its trace states them: this selects the checks.

A `group` row carries the names (`promises`). Rows of older traces have none; for those the names follow from the order, the multicast and
the delivery, where the order is one of the five in `BY_ORDER`. For any other order the order's own name stands for its promises. Names
that no check knows are reported as not judged.

This is data, written from the guarantee cards: neither the protocols nor the simulator's oracles are asked.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

COMMON = ("integrity", "no_duplication", "validity", "views")
BY_REPAIR = ("agreement", "nothing_lost", "virtual_synchrony")
"""What every multicast but `besteffort` adds."""
BY_ORDER = {
    "unordered": ("minimality",),
    "fifo": ("fifo",),
    "causal": ("fifo", "causal", "parent_before_child"),
    "total": ("fifo", "causal", "total", "parent_before_child"),
    "semantic": ("parent_before_child", "minimality"),
}
SAFE = "safe"
"""Strengthens `agreement` and `total`: what a crashed member delivered counts entirely. Judged with those two."""
KNOWN = frozenset({*COMMON, *BY_REPAIR, SAFE, *(name for names in BY_ORDER.values() for name in names)})
_WAITING = frozenset({"fifo", "causal", "total"})
_NOT_SHARED = ("wants",)
"""What a description says of the member, not of the group."""
_STATED = ("name", "multicast", "delivery", "partitions")
"""What the descriptions of every version state: where one member states it, all do."""


WANTS = ("founder", "all", "none", "last", "since", "state")
"""What a member may want of the time before it came."""
MULTICASTS = ("besteffort", "reliable", "flood", "tree")
DELIVERIES = ("agreed", SAFE)


class Description(NamedTuple):
    """What one `group` row says. `readable`: it is a JSON object that names an order; and the multicast, the delivery, the promises and
    what the member wants, where it states them, make sense. Every group gives some promise, so an empty list makes none."""

    readable: bool
    promises: frozenset[str]
    options: dict[str, Any]

    @property
    def wants(self) -> str:
        """What the member wants of the time before it came; empty where the row cannot be read."""
        return str(self.options.get("wants") or "all") if self.readable else ""

    @property
    def shared(self) -> dict[str, str]:
        """What all members of a group must say alike, each value as JSON. The promises are among it where they are stated, or follow from
        the order: who states none gives those that follow."""
        options = {**dict.fromkeys(_STATED), **self.options}
        shared = {name: json.dumps(value, sort_keys=True) for name, value in options.items() if name not in _NOT_SHARED}
        if "promises" in options or options["order"] in BY_ORDER:
            shared["promises"] = json.dumps(sorted(self.promises))
        return shared


UNREADABLE = Description(False, frozenset(), {})


def described(note: str | None) -> Description:
    """Read the `note` of a `group` row."""
    try:
        options = json.loads(note or "")
    except ValueError:
        return UNREADABLE
    if not isinstance(options, dict) or not isinstance(options.get("order"), str) or not options["order"]:
        return UNREADABLE
    if "wants" in options and options["wants"] not in WANTS:
        return UNREADABLE
    if any(options.get(name) not in (None, *known) for name, known in (("multicast", MULTICASTS), ("delivery", DELIVERIES))):
        return UNREADABLE
    if "promises" not in options:
        return Description(True, _derived(options), options)
    names = options["promises"]
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        return UNREADABLE
    return Description(True, frozenset(names), options)


def _derived(options: Mapping[str, Any]) -> frozenset[str]:
    order = options["order"]
    repaired = BY_REPAIR if options.get("multicast") != "besteffort" else ()
    return frozenset({*COMMON, *repaired, *([SAFE] if options.get("delivery") == "safe" else []), *BY_ORDER.get(order, (order,))})


def agreed(descriptions: Iterable[Description]) -> frozenset[str]:
    """Return the promises that most of the readable descriptions give; of several such sets the first by name."""
    counts: Counter[tuple[str, ...]] = Counter(tuple(sorted(one.promises)) for one in descriptions if one.readable)
    ranked = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    return frozenset(ranked[0][0] if ranked else ())


def is_judged(name: str, promises: frozenset[str]) -> bool:
    """Return whether the audit has a check for this promise of a group with these promises. What `minimality` means is known where a
    message waits for nothing, or for its parents only."""
    return name in KNOWN and not (name == "minimality" and promises & _WAITING)


def not_judged(promises: frozenset[str]) -> list[str]:
    return sorted(name for name in promises if not is_judged(name, promises))
