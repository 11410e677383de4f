"""When a side may go on under the `majority` policy.

A majority is counted over the last stable view and over every view installed since, because a member that has installed a view cannot
know whether the others have: were only the stable one counted, {A, B} of a new view {A, B, C} and {C, D, E} of the old view
{A, B, C, D, E} could both go on. Of two members, the first is the majority.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from antiphon.model.ids import MemberId

Chain = tuple[tuple[int, tuple[MemberId, ...]], ...]
"""Ids and members of the last view known to be stable, and of those installed since, oldest first."""


def is_majority(present: Collection[str], members: tuple[str, ...]) -> bool:
    """Whether those present are more than half of the members, or the first of two."""
    here = sum(member in present for member in members)
    return 2 * here > len(members) or (len(members) == 2 and here == 1 and members[0] in present)


def lacking(present: Collection[MemberId], chains: Iterable[Chain]) -> tuple[int, int] | None:
    """How many are present, of how many, in the first view in which they are no majority; None when they are in all that count."""
    chains = [chain for chain in chains if chain]
    if not chains:
        return None
    settled = max(chain[0][0] for chain in chains)
    for _, members in sorted({entry for chain in chains for entry in chain if entry[0] >= settled}):
        if not is_majority(present, members):
            return sum(member in present for member in members), len(members)
    return None
