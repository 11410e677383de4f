"""When the members of a group have found together: the question that every partition and every crash ends with.

Cut links divide the members into sides; in one side all reach each other, there and back, through one another if need be. A side has
converged when all of it is in one stable view of just them, with nothing to catch up or to merge, and its endpoints are at rest. A
side that was stopped for want of a majority is where it can be. Members that sleep may be in the view, or not any more.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from antiphon.model.ids import name_of
from antiphon.protocol.membership.membership import Membership
from antiphon.protocol.membership.quorum import lacking
from antiphon.sim.rest import at_rest


def converged(membership_by_name: dict[str, Membership], asleep: Collection[str], cuts: Collection[tuple[str, str]]) -> bool:
    """Whether these members, all awake, have found together as far as the cuts let them."""
    return all(_agree([membership_by_name[name] for name in side], asleep) for side in sides(list(membership_by_name), cuts))


def sides(names: Sequence[str], cuts: Collection[tuple[str, str]]) -> list[list[str]]:
    """The parts into which cut links divide these nodes, in their order."""
    if not cuts:
        return [list(names)] if names else []
    reached = {name: _reached(name, names, cuts) for name in names}
    found: list[list[str]] = []
    for name in names:
        for side in found:
            if name in reached[side[0]] and side[0] in reached[name]:
                side.append(name)
                break
        else:
            found.append([name])
    return found


def _reached(source: str, names: Sequence[str], cuts: Collection[tuple[str, str]]) -> set[str]:
    reached, ahead = {source}, [source]
    while ahead:
        here = ahead.pop()
        for name in names:
            if name not in reached and (here, name) not in cuts:
                reached.add(name)
                ahead.append(name)
    return reached


def _agree(side: Sequence[Membership], asleep: Collection[str]) -> bool:
    few = lacking([membership.me for membership in side], [membership.chain for membership in side]) is not None
    if few and side[0].port.options.partitions == "majority":
        return not any(membership.quorum for membership in side)  # and all of them know
    view = side[0].view
    if view is None or not all(membership.stable and membership.settled and membership.view == view for membership in side):
        return False
    if {membership.me for membership in side} != {member for member in view.members if name_of(member) not in asleep}:
        return False
    endpoints = [membership.endpoint for membership in side if membership.endpoint is not None]
    return len(endpoints) == len(side) and at_rest(endpoints, endpoints[0].options)
