"""Promises about the views themselves: who is in which, in which order, and where everyone ends.

They speak of groups whose views a membership makes. A member that crashed, or was cut off while a view was being installed, may miss a view
that others have; nothing here forbids that. What must hold nevertheless is said below, rule by rule.

Cost: each looks at every installation once; `primary` compares every two views.
"""

from __future__ import annotations

from itertools import pairwise

from antiphon.model.ids import MemberId, name_of
from antiphon.model.view import View
from antiphon.sim.log import Viewed
from antiphon.sim.oracles.history import Life, Logs, Violation, history_of


def views(logs: Logs) -> list[Violation]:
    """A member is in every view it installs, and their ids grow, so two members that install the same two views do it in the same order.
    A view has the same members, in the same order, and the same sides at all who install it: who went with whom is no matter of opinion.
    Newcomers are in no side; every other member is in exactly one, and those of one side come from the same view. (The reverse need not
    hold: who was still catching up, or was stopped for want of a majority, comes alone.)"""
    history, found = history_of(logs), []
    first_by_id: dict[int, tuple[Life, Viewed]] = {}
    origin_by_side: dict[tuple[int, tuple[MemberId, ...]], tuple[Life, int]] = {}

    def blame(life: Life, why: str) -> None:
        found.append(Violation("views", life.member, (), why))

    for life in history.lives:
        previous: View | None = None
        for event in life.viewed:
            view = event.view
            if life.member not in view:
                blame(life, f"installed {view} and is not in it")
            if previous is not None and view.id <= previous.id:
                blame(life, f"installed {view} (id {view.id}) after {previous} (id {previous.id}), which is not older")
            if event.previous != (previous.id if previous is not None else 0):
                blame(life, f"came to {view} from {previous} and says it came from id {event.previous}")
            other, known = first_by_id.setdefault(view.id, (life, event))
            if known.view.members != view.members:
                blame(life, f"installed {view}, which at {name_of(other.member)} is {known.view}")
            elif known.sides != event.sides:
                blame(life, f"installed {view} with other sides than {name_of(other.member)}")
            if sum(life.member in side for side in event.sides) != (previous is not None):
                blame(life, f"came to {view} {'from ' + str(previous) if previous else 'as a newcomer'} and is in the wrong sides")
            for side in event.sides:
                if life.member in side:
                    other, origin = origin_by_side.setdefault((view.id, side), (life, event.previous))
                    if origin != event.previous:
                        blame(life, f"came to {view} on one side with {name_of(other.member)}, but from another view")
            previous = view
    return found


def primary(logs: Logs) -> list[Violation]:
    """Where only a majority goes on, there is one line of views: of any two that more than half of their members installed, one grew from
    the other. (A view that fewer installed may have been given up, and be known to those few only.) A new line may begin when everybody who
    had a view has crashed or left."""
    history, found = history_of(logs), []
    installers: dict[int, list[Life]] = {}
    for life in history.lives:
        for place in life.views:
            installers.setdefault(place, []).append(life)
    line = []
    for place, lives in installers.items():
        view = history.views[place]
        if view is not None and len(lives) >= view.majority:
            installed_at = min(event.at for life in lives for event in life.viewed if event.view.id == view.id)
            line.append((installed_at, view.id, place, view))
    line.sort(key=lambda entry: entry[:2])
    for (_, _, earlier, one), (installed_at, _, later, two) in pairwise(line):
        if earlier not in history.ancestors(later) and not _all_gone(history.lives, installed_at):
            witness = installers[later][0]
            found.append(Violation("primary", witness.member, (), f"installed {two}, which did not grow from {one}: two sides went on"))
    return found


def _all_gone(lives: list[Life], at: float) -> bool:
    """Whether everybody who had installed a view before `at` had crashed or left by then."""
    former = [life.log for life in lives if life.viewed and life.viewed[0].at < at]
    ends = [min(end for end in (log.crashed_at, log.departed_at, float("inf")) if end is not None) for log in former]
    return all(end <= at for end in ends)


def convergence(logs: Logs) -> list[Violation]:
    """When the network has been whole and quiet for long enough, all who live and have not left are in one view, and nobody else is."""
    history, found = history_of(logs), []
    staying = [life for life in history.lives if life.stayed]
    first: Life | None = None
    for life in staying:
        if not life.viewed:
            found.append(Violation("convergence", life.member, (), "never came into the group"))
            continue
        first = first or life
        view = life.viewed[-1].view
        if view.id != first.viewed[-1].view.id:
            why = f"ended in {view}, and {name_of(first.member)} in {first.viewed[-1].view}"
            found.append(Violation("convergence", life.member, (), why))
        gone = sorted(set(view.members) - {life.member for life in staying})
        if gone:
            why = f"ended in {view} with {', '.join(map(name_of, gone))}, who had gone"
            found.append(Violation("convergence", life.member, (), why))
    return found
