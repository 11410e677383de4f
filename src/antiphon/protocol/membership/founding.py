"""Founding a group together: the first view has all founders in it.

Under the `majority` policy a node that founds a group alone may found a second one while the first is only out of its reach. So
`join(create=True)` names the founders (`GroupOptions.expect`: their number, or their names), and the group begins with a view of all of
them, as in etcd's static bootstrap or with Corosync's `wait_for_all`:

1. A founder that finds no member of the group announces itself as a candidate, to every node and to its contacts.
2. When candidates of all founders are heard, the one with the smallest name proposes the first view to them. It is agreed on like any
   other view of this policy (`change`): every founder promises the ballot, stores the view, and only then is it installed.
3. A candidate keeps asking known members of the group to let it in (`joining`). A member answers a candidate with the description of the
   group, and refuses to take part in founding it.

There is one line of views because the founders' names are fixed: a second first view needs the promise of every founder, and a founder
that is in a view does not give one. A founder that restarts is a new candidate; it replaces its former self. If all of them restart,
they found the group again; but not if one of them remembers (`former`) a view in which those that are no candidates are a majority, for
these may be in the group still.

Keeps one entry per candidate, at most one more than there are founders. Sends one announcement per interval, from `retry_s` growing to
`_PAUSE_MAX_S`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from antiphon.model import codec
from antiphon.model.control import FoundingCandidate, Seat
from antiphon.model.events import JoinWaiting
from antiphon.model.ids import Address, MemberId, name_of
from antiphon.model.options import GroupOptions
from antiphon.protocol.membership.quorum import is_majority
from antiphon.protocol.timers import Timer

if TYPE_CHECKING:
    from antiphon.protocol.membership.membership import Membership

WAITING_S = 1.0
"""A join that lasts this long says what it waits for."""
_PAUSE_MAX_S = 1.0
_FRESH = 4.0
"""A candidate that was not heard for this many of the longest intervals is forgotten."""


class Founding:
    def __init__(self, member: Membership) -> None:
        self._member, self._port = member, member.port
        self.active = False
        """Whether this member is a candidate."""
        self.former: tuple[str, ...] = ()
        """The names in the last view that an earlier start of this node was in, in join order; empty if that is not known."""
        self._contacts: tuple[Address, ...] = ()
        self._heard_by_name: dict[str, tuple[MemberId, Address, float]] = {}
        """Other candidates: member id, address, and when they were last heard."""
        self._pause_s = self._port.settings.retry_s
        self._began = 0.0
        self._said = False
        self._timer: Timer | None = None
        self._on_founded: Callable[[], None] = lambda: None

    def begin(self, contacts: Sequence[Address], on_founded: Callable[[], None]) -> None:
        """Become a candidate, and look for members of the group at the same time. `on_founded` is called at the founder that proposed the
        first view when it is installed."""
        self.active, self._began, self._on_founded = True, self._port.now, on_founded
        self._contacts = tuple(contacts)
        self._member.joining.begin(())
        self._announce()

    def end(self) -> None:
        """Stop: this member has a view, or has departed."""
        change = self._member.coordinator.change
        if self.active and change is not None and change.ballot == self._member.agreement.view_id:
            self._on_founded()
        self.active = False
        if self._timer is not None:
            self._timer.cancel()

    def receive_candidate(self, frame: FoundingCandidate, source: Address) -> None:
        """Take the announcement of another candidate; `NodeCore` answers those that come when this member is in a view."""
        port = self._port
        name, mine = name_of(frame.member), name_of(port.me)
        if not self.active or frame.member == port.me:
            return
        if source != frame.address:
            port.drops["stranger"] += 1
        elif frame.options != port.options:
            port.send_to((source,), self._candidacy())  # so that the other one is told, too
            self._member.departure.depart(f"{name} at {source} wants to found it with {contradiction(port.options, frame.options)}")
        elif name == mine:
            if source != self._member.address:
                port.send_to((source,), self._candidacy())
                self._member.departure.depart(f"another founder is called {name}, too, at {source}: give each node a name of its own")
        elif not port.options.may_found(name):
            port.drops["not_a_founder"] += 1
        else:
            known = self._heard_by_name.get(name)
            self._heard_by_name[name] = (frame.member, frame.address, port.now)
            if known is None or known[0] != frame.member:
                port.send_to((frame.address,), self._candidacy())  # it may not have heard this one
                self._pause_s = port.settings.retry_s
            self._review()

    def failed(self, missing: Sequence[MemberId]) -> None:
        """The first view was not made because `missing` did not take part: they must be heard again."""
        self._heard_by_name = {name: entry for name, entry in self._heard_by_name.items() if entry[0] not in missing}

    def accepts(self, seats: Sequence[Seat]) -> bool:
        """Whether this member takes part in a first view with these seats."""
        options, names = self._port.options, {name_of(member) for member, _ in seats}
        whole = len(names) == len(seats) == options.founders and all(options.may_found(name) for name in names)
        return self.active and self._port.view is None and whole and not self._others_may_go_on(names)

    def reason(self) -> str:
        """Say how many founders are there, and which, or why they do not found the group."""
        options = self._port.options
        here = sorted((name_of(self._port.me), *self._fresh()))
        if len(here) == options.founders and self._others_may_go_on(here):
            others = ", ".join(sorted(set(self.former) - set(here)))
            return (
                f"all founders were heard ({', '.join(here)}), but when this node was in the group last, others were most of its members "
                f"({others}) and may go on with it. If the group is over, remove what this node's directory has of it, to found it anew"
            )
        missing = "" if isinstance(options.expect, int) else f"; missing: {', '.join(sorted(set(options.expect) - set(here)))}"
        return f"{len(here)} of {options.founders} founders were heard ({', '.join(here)}{missing}), and no member of the group"

    # -- inside ----------------------------------------------------------------------------------------------------------------

    def _announce(self) -> None:
        port = self._port
        if not self.active:
            return
        wire = self._candidacy()
        port.announce(wire)
        addresses = (*self._contacts, *(address for _, address, _ in self._heard_by_name.values()))
        port.send_to(tuple(address for address in dict.fromkeys(addresses) if address != self._member.address), wire)
        if not self._said and port.now - self._began >= WAITING_S:
            self._said = True
            port.tell(JoinWaiting(port.group, self.reason()))
        self._timer = port.call_in(self._pause_s * port.rng.uniform(0.75, 1.25), self._announce)
        self._pause_s = min(2 * self._pause_s, max(_PAUSE_MAX_S, port.settings.retry_s))
        self._review()

    def _candidacy(self) -> bytes:
        return codec.encode(FoundingCandidate(self._port.group, self._port.me, self._member.address, self._port.options))

    def _fresh(self) -> dict[str, tuple[MemberId, Address, float]]:
        since = self._port.now - _FRESH * max(_PAUSE_MAX_S, self._port.settings.retry_s)
        self._heard_by_name = {name: entry for name, entry in self._heard_by_name.items() if entry[2] >= since}
        return self._heard_by_name

    def _review(self) -> None:
        """Propose the first view if all founders are here and this one has the smallest name."""
        port, coordinator, agreement = self._port, self._member.coordinator, self._member.agreement
        seat_by_name: dict[str, Seat] = {name: (who, where) for name, (who, where, _) in self._fresh().items()}
        seat_by_name[name_of(port.me)] = (port.me, self._member.address)
        names, founders = sorted(seat_by_name), port.options.founders
        if len(names) > founders:
            why = f"{len(names)} nodes want to found it ({', '.join(names)}), and expect={founders}"
            self._member.departure.depart(f"{why}: give all of them the same number, or a list of names")
        elif len(names) == founders and seat_by_name[names[0]][0] == port.me:
            busy = coordinator.change is not None and coordinator.change.under_way
            if not busy and not self._others_may_go_on(names) and not agreement.awaits_other(port.me):
                coordinator.found_together(dict(seat_by_name[name] for name in names))

    def _others_may_go_on(self, candidates: Collection[str]) -> bool:
        """Whether members of the last view that is remembered could have gone on without any of the candidates."""
        return is_majority(set(self.former).difference(candidates), self.former)


def contradiction(mine: GroupOptions, theirs: GroupOptions) -> str:
    """Name the options in which two founders differ, with both values."""
    ours, others = structs.asdict(mine), structs.asdict(theirs)
    differ = [field for field in ours if ours[field] != others[field]]
    here, there = (", ".join(f"{field}={_shown(values[field])}" for field in differ) for values in (ours, others))
    return f"{there}, and this node with {here}: give all founders the same options"


def _shown(value: object) -> str:
    return repr(list(value)) if isinstance(value, tuple) else repr(value)
