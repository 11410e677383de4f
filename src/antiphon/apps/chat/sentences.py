"""What happens to a group, told in sentences for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from antiphon.model.events import ViewChange
from antiphon.model.ids import MemberId

_NAMED = 5
"""Names in a sentence; the others are counted."""


def change(change: ViewChange, me: MemberId, out_of_reach: Iterable[MemberId], call: Callable[[MemberId], str]) -> list[tuple[str, str]]:
    """The sentences for a view, each with its kind. `out_of_reach` are members that did not leave and may come back; `call` gives a
    member's name."""
    others = [member for member in change.view.members if member != me]
    if change.previous is None:
        here = f"You are here with {names(others, call)}." if others else "You are here, alone so far."
        return [("came", here)]
    told: list[tuple[str, str]] = []
    missing = set(out_of_reach)
    gone = [member for member in change.left if member not in missing]
    unreached = [member for member in change.left if member in missing]
    if gone:
        told.append(("left", f"{names(gone, call)} left."))
    if unreached:
        is_or_are = "is" if len(unreached) == 1 else "are"
        told.append(("split", f"{names(unreached, call)} {is_or_are} out of reach; here: {names(change.view.members, call)}."))
    if len(change.sides) > 1:
        own_first = sorted(change.sides, key=lambda side: me not in side)
        sides = " and ".join(f"({names(side, call)})" for side in own_first)
        told.append(("merge", f"{sides} are one group now. What was said on the other side takes its place above."))
    elif change.joined:
        told.append(("came", f"{names(change.joined, call)} came."))
    return told


def names(members: Sequence[MemberId], call: Callable[[MemberId], str]) -> str:
    """`ana`, `ana and ben`, `ana, ben and 7 others`, by name."""
    named = sorted(map(call, members))[:_NAMED]
    more = len(members) - len(named)
    if more:
        named.append(f"{more:,} other{'s' if more > 1 else ''}")
    if len(named) < 2:
        return "".join(named)
    return f"{', '.join(named[:-1])} and {named[-1]}"
