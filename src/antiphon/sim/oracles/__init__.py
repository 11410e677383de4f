"""The oracles: one pure function per promise, which looks at what happened at each member and names every time it was broken.

They know nothing of the protocols; all they see are the logs. `check` asks those that a group's options promise, `check_all` asks
all of them, which is how one sees what an order does *not* promise.

| promise             | unordered | fifo | causal | total | semantic | judged          |
|---------------------|-----------|------|--------|-------|----------|-----------------|
| integrity           | ●         | ●    | ●      | ●     | ●        | always          |
| no_duplication      | ●         | ●    | ●      | ●     | ●        | always          |
| validity            | ●         | ●    | ●      | ●     | ●        | when settled    |
| agreement           | ○         | ○    | ○      | ○     | ○        | when settled    |
| virtual_synchrony   | ○         | ○    | ○      | ○     | ○        | always          |
| fifo                |           | ●    | ●      | ●     |          | always          |
| causal              |           |      | ●      | ●     |          | always          |
| total               |           |      |        | ●     |          | always          |
| parent_before_child |           |      | ●      | ●     | ●        | always          |
| minimality          | ●         |      |        |       | ●        | always          |

● always, ○ with the kinds of multicast that repair. A safe group promises the same, and of crashed members all of it: it waits for a
majority before the ordering sees a message, so that wait is no hold-back of the order.

Causal order brings parent before child with it, because nobody can answer what was not delivered to him. So does total order by a
sequencer, and causal precedence as well: a sender that delivered `m` held `m`'s number, so what it sends then can only be numbered
later; and what it sends itself is numbered in the order of its numbers. That argument needs no clock, but it needs that a
number which somebody acted upon survives: a new sequencer numbers what was left without one so that it stays true.

Where a membership makes the views, `check_group` asks the same promises of whole lives, what members caught up with included, and more:

| promise     | says                                                                      | judged                          |
|-------------|---------------------------------------------------------------------------|---------------------------------|
| views       | one view is one thing, and all who come from one view come on one side    | always                          |
| primary     | there is one line of views                                                | where only a majority goes on   |
| one_stream  | total order is one over all views                                         | … and delivery is safe          |
| convergence | all who are there end in one view                                         | when settled                    |
| orphans     | what answers a message that does not exist is delivered and marked        | semantic order, where repaired  |
| private     | a message to one arrives once, in its place, or comes back                | always; completely when settled |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from antiphon.errors import InvalidOption
from antiphon.model.control import Wants
from antiphon.model.ids import MemberId
from antiphon.model.options import GroupOptions
from antiphon.sim.log import MemberLog
from antiphon.sim.oracles.answers import minimality, orphans, parent_before_child
from antiphon.sim.oracles.completeness import agreement, integrity, no_duplication, validity, virtual_synchrony
from antiphon.sim.oracles.history import History, Violation
from antiphon.sim.oracles.order import causal, fifo, one_stream, total
from antiphon.sim.oracles.private import private
from antiphon.sim.oracles.views import convergence, primary, views

__all__ = [
    "ORACLES",
    "PROMISES",
    "REPAIRED",
    "Violation",
    "agreement",
    "causal",
    "check",
    "check_all",
    "check_group",
    "convergence",
    "fifo",
    "integrity",
    "minimality",
    "no_duplication",
    "one_stream",
    "orphans",
    "parent_before_child",
    "primary",
    "private",
    "promised",
    "total",
    "validity",
    "views",
    "virtual_synchrony",
]

_ALWAYS = frozenset({"integrity", "no_duplication", "validity"})

PROMISES: dict[str, frozenset[str]] = {
    "unordered": _ALWAYS | {"minimality"},
    "fifo": _ALWAYS | {"fifo"},
    "causal": _ALWAYS | {"fifo", "causal", "parent_before_child"},
    "total": _ALWAYS | {"fifo", "causal", "total", "parent_before_child"},
    "semantic": _ALWAYS | {"parent_before_child", "minimality"},
}
"""What each order promises, over any multicast; an order of your own adds its line."""

REPAIRED = frozenset({"agreement", "virtual_synchrony"})
"""What every kind of multicast but besteffort promises on top."""

_AT_THE_END = frozenset({"validity", "agreement"})

ORACLES: dict[str, Callable[[History, str, str], list[Violation]]] = {
    "integrity": lambda history, multicast, delivery: integrity(history),
    "no_duplication": lambda history, multicast, delivery: no_duplication(history),
    "validity": lambda history, multicast, delivery: validity(history),
    "agreement": lambda history, multicast, delivery: agreement(history, delivery),
    "virtual_synchrony": lambda history, multicast, delivery: virtual_synchrony(history),
    "fifo": lambda history, multicast, delivery: fifo(history),
    "causal": lambda history, multicast, delivery: causal(history),
    "total": lambda history, multicast, delivery: total(history, delivery),
    "parent_before_child": lambda history, multicast, delivery: parent_before_child(history, final=multicast != "besteffort"),
    "minimality": lambda history, multicast, delivery: minimality(history),
}
"""Every promise and who judges it, given the group's multicast and delivery."""


def promised(order: str, multicast: str) -> frozenset[str]:
    """The names of the promises that hold for a group with these options."""
    if order not in PROMISES:
        raise InvalidOption("order", order, f"it has no line in PROMISES; add one, or choose one of {', '.join(PROMISES)}")
    return PROMISES[order] if multicast == "besteffort" else PROMISES[order] | REPAIRED


def check(
    logs: Sequence[MemberLog], order: str, multicast: str = "reliable", delivery: str = "agreed", *, settled: bool = True
) -> list[Violation]:
    """Every promise of the group that the logs show broken; an empty list is a clean run. `settled=False` leaves out what can only
    be said at the end of a run: that nothing is missing."""
    names = promised(order, multicast)
    history = History(logs)
    return [
        violation
        for name, oracle in ORACLES.items()
        if name in names and (settled or name not in _AT_THE_END)
        for violation in oracle(history, multicast, delivery)
    ]


def check_group(
    logs: Sequence[MemberLog], options: GroupOptions, wants: Mapping[MemberId, Wants] | None = None, *, settled: bool = True
) -> list[Violation]:
    """Every promise of a group that the logs of its members show broken, where a membership made its views. `wants` says what members
    wanted of the time before they came; who is not in it wanted all."""
    names = promised(options.order, options.multicast)
    history = History(logs, wants or {})
    repairs = options.multicast != "besteffort"
    found = views(history)
    if options.partitions == "majority":
        found += primary(history)
        if "total" in names and options.delivery == "safe":
            found += one_stream(history)
    if settled:
        found += convergence(history)
    found += private(history, settled=settled, after=repairs)
    if options.order == "semantic" and repairs:
        found += orphans(history)
    for name, oracle in ORACLES.items():
        if name in names and (settled or name not in _AT_THE_END):
            found += oracle(history, options.multicast, options.delivery)
    return found


def check_all(logs: Sequence[MemberLog], multicast: str = "reliable", delivery: str = "agreed") -> dict[str, list[Violation]]:
    """The violations of every promise, promised or not, by the name of the promise."""
    history = History(logs)
    return {name: oracle(history, multicast, delivery) for name, oracle in ORACLES.items()}
