"""A participant's part in changes: it promises, freezes, fetches what it lacks, and installs.

| it has                    | what it takes                                                                                      |
|---------------------------|----------------------------------------------------------------------------------------------------|
| a view, no higher promise | any proposal with a higher ballot: promises, freezes, answers with its state                       |
| a promise                 | a higher ballot (promises that instead); the target and the Install of the promised ballot         |
| the promised view         | acknowledges until it hears that the view is stable                                                |

A late Install of a lower ballot is not taken: the state given for the higher one would no longer be true. But a proposal brings along the
Install of its coordinator's own view, and who had promised that view, and has taken nothing since, installs it before it answers.

Keeps the promise and the last Install. Everything is repeated until it is answered, by whoever needs the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from antiphon.errors import BadFrame
from antiphon.model import codec
from antiphon.model.control import Acknowledge, Flushed, Install, Prepare, Prepared, Propose, Refuse, Seat, Stable, State, Target
from antiphon.model.ids import Address, MemberId
from antiphon.model.view import TAG_BITS
from antiphon.protocol.timers import Timer

if TYPE_CHECKING:
    from antiphon.protocol.membership.membership import Membership

_PATIENCE = 1.5
"""How many times `change_s` a participant waits for a coordinator before it takes it for dead."""
_ACKNOWLEDGE_MAX_S = 2.0
_VIEWS_AHEAD = 1 << 24
"""Views that another side may have made while this one made none."""
_VIEWS_AHEAD_OF_NEWCOMER = 1 << 28
_VIEWS_BELIEVED = 1 << 10
"""A promise for a view further ahead than this is given up when nothing more is heard of it."""


class Agreement:
    def __init__(self, member: Membership) -> None:
        self._member, self._port = member, member.port
        self.promised = 0
        """The highest ballot promised; that of the installed view when no change is under way."""
        self.leader: Seat = (member.me, member.address)
        """Who proposed it, and where that is."""
        self.latest = b""
        """The Install of the current view, as it came."""
        self._pledged: dict[int, None] = {}
        """The ballots whose outcome would be what this member holds now."""
        self._prepared: tuple[int, bytes] = (0, b"")
        """The ballot whose Install is stored and not carried out, and the Install."""
        self.aimed = self._flushed = 0
        """The ballot whose target is known (0: none, and nothing to review), and the one whose target is held entirely."""
        self._given_up = 0
        """The last ballot whose promise was given up."""
        self._heard_at = 0.0
        self._watch: Timer | None = None
        self._acknowledging: Timer | None = None

    @property
    def view_id(self) -> int:
        return 0 if self._port.view is None else self._port.view.id

    @property
    def changing(self) -> bool:
        """Whether this member has promised a view that it has not installed."""
        return self.promised > self.view_id

    # -- what the coordinator says ---------------------------------------------------------------------------------------------

    def receive_propose(self, frame: Propose, source: Address) -> None:
        port = self._port
        seats = dict((*frame.seats, *frame.leaving))
        if port.me not in seats:
            port.drops["not_meant"] += 1
        elif seats.get(frame.member) != source:
            port.drops["forged"] += 1
        elif not self.plausible(frame.ballot):
            port.drops["malformed"] += 1
        elif frame.ballot == self._given_up:
            port.drops["stale"] += 1
        elif not frame.view and not self._member.founding.accepts(frame.seats):
            # A first view: a member that is in a view already never takes part in making another first one.
            self._member.post_to(source, Refuse(port.group, port.me, frame.ballot, 0, "unknown"))
        elif frame.ballot <= self.view_id or frame.ballot < self.promised:
            self._member.post_to(source, Refuse(port.group, port.me, frame.ballot, max(self.promised, self.view_id), "ballot"))
        else:
            self._member.coordinator.give_way(frame.ballot)
            if frame.latest:
                self.catch_up(frame.latest)
            port.learn({member: port.address_by_member.get(member, address) for member, address in seats.items()})
            self._promise(frame.ballot, (frame.member, source))
            if self._flushed == frame.ballot:
                self._post(Flushed(port.group, port.me, frame.ballot))
            else:
                self._post(self._state(frame))

    def receive_target(self, frame: Target, source: Address) -> None:
        endpoint = self._member.endpoint
        if (frame.ballot, source) != (self.promised, self.leader[1]) or frame.view != self.view_id or endpoint is None or not self.changing:
            self._port.drops["stale"] += 1
            return
        self._heard_at = self._port.now
        if self._flushed == frame.ballot:
            self._post(Flushed(self._port.group, self._port.me, frame.ballot))
        elif self.aimed != frame.ballot:
            self.aimed = frame.ballot
            # From here on this member may hold more than the outcome of an earlier ballot.
            self._pledged = {frame.ballot: None}
            # Its coordinator has seen what is stored here, and that not everyone had stored it.
            self._prepared = (0, b"")
            endpoint.aim(self._port.now, frame.have, frame.holders)

    def review(self) -> None:
        """At the end of a turn: says so when everything of the target is here."""
        endpoint = self._member.endpoint
        if self.aimed == self.promised != self._flushed and endpoint is not None and self.changing and endpoint.flushed:
            self._flushed = self.promised
            self._post(Flushed(self._port.group, self._port.me, self.promised))

    def receive_prepare(self, frame: Prepare, source: Address) -> None:
        """Stores the view, so that whoever comes next can finish it."""
        if (frame.ballot, source) != (self.promised, self.leader[1]) or not self.changing:
            self._port.drops["stale"] += 1
            return
        self._heard_at = self._port.now
        self._prepared = (frame.ballot, frame.install)
        self._post(Prepared(self._port.group, self._port.me, frame.ballot))

    def receive_install(self, frame: Install, wire: bytes, source: Address) -> None:
        if wire == self.latest:
            self._acknowledge(frame.view)
        elif (frame.view, source) != (self.promised, self.leader[1]) or not self.changing or not self._fits(frame):
            self._port.drops["stale"] += 1
        else:
            self._install(frame, wire)

    def receive_stable(self, frame: Stable, source: Address) -> None:
        view = self._port.view
        if view is None or self._port.address_by_member.get(view.members[0]) != source:
            self._port.drops["stranger"] += 1
        elif frame.view == self.view_id and not self.changing and not self._member.stable:
            if self._acknowledging is not None:
                self._acknowledging.cancel()
            self._member.on_stable()

    def catch_up(self, wire: bytes) -> bool:
        """Installs a view that this member promised, and of which it missed only the Install."""
        try:
            frame = codec.decode(wire)
        except BadFrame as bad:
            self._port.drops[bad.reason] += 1
            return False
        if type(frame) is not Install or frame.group != self._port.group or frame.view not in self._pledged or not self._fits(frame):
            return False
        if frame.view <= self.view_id:
            return False
        self._install(frame, wire)
        return True

    # -- inside ----------------------------------------------------------------------------------------------------------------

    def _promise(self, ballot: int, leader: Seat) -> None:
        self._heard_at = self._port.now
        if ballot != self.promised:
            self.promised, self.leader = ballot, leader
            self._pledged[ballot] = None
            self._member.freeze()
        if self._watch is None:
            self._watch_later()

    def _state(self, proposal: Propose) -> State:
        member, port = self._member, self._port
        latest, absent = b"", dict(member.absent)
        if proposal.view != self.view_id and port.view is not None:
            # The proposer is of another view: it may have missed this one, and knows neither its members nor where they are.
            absent.update((who, port.address_by_member[who]) for who in port.view.members if who != port.me)
            if proposal.member in port.view:
                latest = self.latest
        alone = proposal.view == self.view_id and port.view is not None and member.chain == ((port.view.id, port.view.members),)
        return State(
            port.group,
            port.me,
            proposal.ballot,
            self.view_id,
            [] if member.endpoint is None else member.endpoint.holdings(),
            0 if member.endpoint is None else member.endpoint.cast,
            member.delivered,
            member.synchronised,
            () if alone else member.chain,
            tuple(absent.items()),
            latest,
            0 if member.synchronised else member.past.check(),
            self._prepared[1] if self._prepared[0] > self.view_id else b"",
        )

    def _fits(self, frame: Install) -> bool:
        """Whether the frame describes a view that this member can be in, or out of."""
        members = {member: start for (member, _), start in zip(frame.seats, frame.starts, strict=False)}
        whole = bool(members) and len(frame.starts) == len(frame.seats) == len(members) and frame.options == self._port.options
        # In a view in which another address is this member's, nothing that it sends would count as its own.
        whole = whole and dict(frame.seats).get(self._port.me, self._member.address) == self._member.address
        endpoint = self._member.endpoint
        if whole and self._port.me in members:
            # A view that was made of an older state of this member is not for it.
            side = next((side for side in frame.sides if self._port.me in side.members), None)
            whole = side is not None and side.view == self.view_id
            if side is not None and endpoint is not None:
                whole = whole and endpoint.can_begin_after(members[self._port.me], minority=not side.ends)
        if not whole:
            self._port.drops["malformed"] += 1
        return whole

    def plausible(self, ballot: int) -> bool:
        """Whether so many views can have been made. A number out of the blue would leave none for those that come after it. A newcomer
        cannot know how many the group has made."""
        ahead = _VIEWS_AHEAD if self.view_id else _VIEWS_AHEAD_OF_NEWCOMER
        return ballot >> TAG_BITS <= (max(self.promised, self.view_id) >> TAG_BITS) + ahead

    def _install(self, frame: Install, wire: bytes) -> None:
        self.latest = wire
        self.promised = frame.view
        self._pledged.clear()
        self._prepared = (0, b"")
        self.aimed = self._flushed = 0
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        self._member.install(frame)
        self._acknowledge_after(self._port.settings.retry_s)
        self._acknowledge(frame.view)

    def caught_up(self) -> None:
        """This member has caught up: the view may be stable now."""
        if not self.changing and not self._member.stable:
            self._acknowledge(self.view_id)

    def found(self, frame: Install, wire: bytes) -> None:
        """The first view of a group, of its founder alone."""
        self.promised, self.latest = frame.view, wire
        self._member.install(frame)
        self._member.on_stable()

    def _acknowledge(self, view: int) -> None:
        """To the coordinator that made the view, and to its first member, which says when it is stable."""
        frame, members = Acknowledge(self._port.group, self._port.me, view, self._member.synchronised), self._port.view
        self._post(frame)
        if members is not None and members.id == view and members.members[0] != self.leader[0]:
            self._member.post(members.members[:1], frame)

    def _acknowledge_after(self, seconds: float) -> None:
        """Repeats the acknowledgement until the view is known to be stable."""
        if self._acknowledging is not None:
            self._acknowledging.cancel()

        def again() -> None:
            if not self._member.stable and not self._member.departed and not self.changing:
                self._acknowledge(self.view_id)
                self._acknowledge_after(min(seconds * 2, _ACKNOWLEDGE_MAX_S))

        self._acknowledging = self._port.call_in(seconds * self._port.rng.uniform(0.75, 1.25), again)

    def _watch_later(self) -> None:
        self._watch = self._port.call_in(self._port.settings.change_s / 2, self._look)

    def _look(self) -> None:
        self._watch = None
        if not self.changing or self._member.departed:
            return
        if self._port.now - self._heard_at >= _PATIENCE * self._port.settings.change_s:
            self._heard_at = self._port.now
            self._doubt_promise()
            self._member.coordinator.orphaned(self.leader[0])
        self._watch_later()

    def _doubt_promise(self) -> None:
        """Give up a promise that was forged, very probably: of a ballot so far ahead that others may not believe it, and so could never
        propose a higher one. Not if a view is stored here: it may be in force elsewhere. The same ballot is not promised again."""
        lowest = (self.view_id >> TAG_BITS) + 1 << TAG_BITS
        if self.view_id and self.promised - lowest > _VIEWS_BELIEVED << TAG_BITS and self._prepared[0] <= self.view_id:
            self._given_up = self.promised
            self.promised, self.leader = lowest, (self._port.me, self._member.address)
            self._pledged = {lowest: None}
            self.aimed = self._flushed = 0
            self._member.coordinator.forget_ballots(lowest)

    def _post(self, frame: codec.Frame) -> None:
        self._member.post_to(self.leader[1], frame)

    def awaits_other(self, member: MemberId) -> bool:
        """Whether this participant waits for the view of a coordinator other than `member` that was heard recently."""
        recently = self._port.now - self._heard_at < _PATIENCE * self._port.settings.change_s
        return self.changing and not self.is_leader(member) and recently

    def is_leader(self, member: MemberId) -> bool:
        return self.changing and self.leader[0] == member
