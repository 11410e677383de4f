"""One attempt of a coordinator to make a view.

| phase      | waits for                                   | then                                                                       |
|------------|---------------------------------------------|----------------------------------------------------------------------------|
| ASKING     | the state of every participant              | targets for those who lack something of their side                        |
| FLUSHING   | `Flushed` of each of them                   | installs the view; under the `majority` policy lets everybody store it first |
| PREPARING  | `Prepared` of those who leave, then of all  | installs the view                                                          |
| INSTALLING | the acknowledgement of every member         | is over                                                                    |
| OVER       | nothing: done, given up, or without a majority                                                                           |

What is not answered is repeated every `retry_s`. Who answers nothing for `change_s`, or a third of it if it is not of the coordinator's
view, is left out of the next attempt. Cost: a few frames
to and from each participant, each as long as the group is large.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from antiphon.errors import BadFrame
from antiphon.model import codec
from antiphon.model.control import Acknowledge, Flushed, Install, Prepare, Prepared, Propose, Seat, Side, State, Target
from antiphon.model.ids import Address, MemberId
from antiphon.protocol.membership.flush import cut_off, is_well_formed, union
from antiphon.protocol.membership.quorum import lacking

if TYPE_CHECKING:
    from antiphon.protocol.membership.membership import Membership


_LEFT_LIMIT = 64
"""Of those who have left, the latest are told to everyone: who missed a view need not look for them."""


_STRANGERS = 1 / 3
"""The share of `change_s` that a change waits for those who are not of its coordinator's view."""


class Phase(Enum):
    ASKING = "waits for states"
    FLUSHING = "waits until nobody lacks anything"
    PREPARING = "waits until everybody has stored the view"
    INSTALLING = "waits for acknowledgements"
    OVER = "is over"


class Change:
    def __init__(self, member: Membership, ballot: int, seats: tuple[Seat, ...], leaving: tuple[Seat, ...]) -> None:
        self._member, self._port = member, member.port
        self.ballot, self.seats, self.leaving = ballot, seats, leaving
        self.phase = Phase.ASKING
        self.participants: dict[MemberId, Address] = dict((*seats, *leaving))
        self._states: dict[MemberId, State] = {}
        self._targets: dict[MemberId, Target] = {}
        """Who has yet to fetch what."""
        self._unprepared: dict[MemberId, None] = {}
        self._unacknowledged: dict[MemberId, None] = {}
        self.hopeless = frozenset(who for who in member.coordinator.hopeless if who in self.participants)
        """Who comes along without what others hold of its view: it could not get that before."""
        self._since = self._port.now
        """When there was progress last."""

    def begin(self) -> None:
        self._member.post(self.participants, self._proposal())
        self._retry_later()

    def give_up(self) -> None:
        self.phase = Phase.OVER

    @property
    def under_way(self) -> bool:
        """Whether the view is not made yet."""
        return self.phase in (Phase.ASKING, Phase.FLUSHING, Phase.PREPARING)

    # -- answers ---------------------------------------------------------------------------------------------------------------

    def receive_state(self, frame: State, source: Address) -> None:
        if self.phase is not Phase.ASKING or frame.ballot != self.ballot or self.participants.get(frame.member) != source:
            return
        level = [state for state in self._states.values() if state.view == frame.view]
        if not is_well_formed(frame.have, len(level[0].have) if level else len(frame.have)):
            self._port.drops["malformed"] += 1
            return
        if frame.member not in self._states:
            self._since = self._port.now
        self._states[frame.member] = frame
        if len(self._states) == len(self.participants):
            self._flush()

    def receive_flushed(self, frame: Flushed, source: Address) -> None:
        if self.participants.get(frame.member) != source:
            return
        if self.phase is Phase.FLUSHING and frame.ballot == self.ballot and self._targets.pop(frame.member, None) is not None:
            self._since = self._port.now
            if not self._targets:
                self._install()

    def receive_prepared(self, frame: Prepared, source: Address) -> None:
        if self.phase is not Phase.PREPARING or frame.ballot != self.ballot or self.participants.get(frame.member) != source:
            return
        if self._unprepared.pop(frame.member, self) is None:
            self._since = self._port.now
            if not self._unprepared:
                self._carry_out()
            elif frame.member in dict(self.leaving):
                self._member.post(self._storing(), self._preparation())

    def receive_acknowledge(self, frame: Acknowledge) -> None:
        if frame.view != self.ballot or self.phase is not Phase.INSTALLING:
            return
        if self._unacknowledged.pop(frame.member, self) is None and not self._unacknowledged:
            self.phase = Phase.OVER
            self._member.coordinator.finished(self)

    # -- phases ----------------------------------------------------------------------------------------------------------------

    def _proposal(self) -> Propose:
        latest = self._member.coordinator.unfinished or (b"" if self._member.stable else self._member.agreement.latest)
        return Propose(
            self._port.group, self._port.me, self.ballot, self._member.agreement.view_id, self.seats, self.leaving, latest
        )

    def _flush(self) -> None:
        present = [member for member, state in self._states.items() if state.view]
        if self._port.options.partitions == "majority" and present:
            chains = [state.stable or self._member.chain for state in self._states.values() if state.view]
            short = lacking(present, chains)
            unfinished = self._unfinished(majority=short is None)
            if unfinished and unfinished != self._member.coordinator.unfinished:
                self.phase = Phase.OVER
                self._member.coordinator.finish_first(unfinished)
                return
            if short is not None:
                self.phase = Phase.OVER
                self._member.coordinator.stopped(self, *short)
                return
        self.phase, self._since = Phase.FLUSHING, self._port.now
        for view, members in self._ending().items():
            whole = self._sent_of(view, union(self._states[member].have for member in members))
            for member in members:
                if self._states[member].have != whole:
                    self._targets[member] = Target(self._port.group, self._port.me, self.ballot, view, whole, tuple(members))
        for member, target in self._targets.items():
            self._member.post((member,), target)
        if not self._targets:
            self._install()

    def _sent_of(self, view: int, whole: list[list[int]]) -> list[list[int]]:
        """Holdings of this member's view without what the streams' senders, as far as they take part, say that they never sent."""
        current = self._port.view
        if current is None or current.id != view:
            return whole
        true = list(whole)
        for index in range(len(whole)):
            state = self._states.get(current.members[index % len(current.members)])
            if state is not None and state.view == view and index < len(state.have):
                true[index] = cut_off(whole[index], state.have[index][0])
        return true

    def _unfinished(self, majority: bool) -> bytes:
        """The Install of a view that may have been carried out elsewhere: one that all its participants who are here have stored. Without a
        majority only one that all its members have stored: C, alone, has stored a view of B and C, and cannot know that B has not, and has
        gone on with A in another."""
        stored: dict[int, bytes] = {}
        for state in self._states.values():
            install = _install_of(state.prepared)
            # A first view is never finished by others: without its members' majority nobody has gone on in it, and each of its members
            # hands on its Install.
            grown = install is not None and any(side.view for side in install.sides)
            if install is not None and grown and install.group == self._port.group and install.view > state.view:
                stored[install.view] = state.prepared
        for ballot, wire in sorted(stored.items(), reverse=True):
            install = _install_of(wire)
            assert install is not None, "it was read a moment ago"
            present = [self._states[who] for side in install.sides for who in side.members if who in self._states]
            stored_here = all(state.view >= ballot or state.prepared == wire for state in present)
            overtaken = any(state.view > ballot for state in self._states.values())
            if stored_here and not overtaken and (majority or all(who in self._states for who, _ in install.seats)):
                return wire
        return b""

    def _ending(self) -> dict[int, list[MemberId]]:
        """Old views to those who come from them level, and deliver what they hold of them."""
        sides: dict[int, list[MemberId]] = {}
        for member in self.participants:
            state = self._states[member]
            if state.view and state.synchronised:
                sides.setdefault(state.view, []).append(member)
        seated = dict(self.seats)
        for view, members in sides.items():
            # Somebody must say how the view ended.
            level = [who for who in members if who not in self.hopeless]
            sides[view] = level if any(who in seated for who in level) else [who for who in members if who in seated][:1] or members[:1]
        sides = {view: members for view, members in sides.items() if any(member in seated for member in members)}
        if self._port.options.partitions == "majority":
            # Only one side can have gone on: the others were stopped, and what they hold is not theirs to order.
            latest = max((state.view for state in self._states.values()), default=0)
            return {latest: sides[latest]} if latest in sides else {}
        return sides

    def _install(self) -> None:
        member, port = self._member, self._port
        ending = self._ending()
        seated = dict(self.seats)
        apart = [who for who in self.participants if self._states[who].view and who not in ending.get(self._states[who].view, ())]
        sides = [Side(view, tuple(who for who in members if who in seated)) for view, members in ending.items()]
        # Those who are catching up, and have got equally far, are one side: newcomers by the dozen would all have to hear each other.
        alike: dict[tuple[int, object], list[MemberId]] = {}
        for who in apart:
            if who in seated:
                state = self._states[who]
                alike.setdefault((state.view, who if state.synchronised else state.check), []).append(who)
        sides += [Side(view, tuple(members), False) for (view, _), members in alike.items()]
        sides.append(Side(0, tuple(who for who in seated if not self._states[who].view)))
        absent: dict[MemberId, Address] = {}
        for state in self._states.values():
            absent.update(state.absent)
        # Whoever of the old view is not in the new one, even if it was heard again meanwhile: it must be looked for.
        before = set() if port.view is None else set(port.view.members)
        absent.update((who, where) for who, where in port.address_by_member.items() if who in before)
        frame = Install(
            port.group,
            port.me,
            self.ballot,
            self.seats,
            # Who is apart sends again what it has not delivered itself: others may have it, and those leave it out.
            [self._states[who].delivered if who in apart else self._states[who].sent for who in seated],
            tuple(side for side in sides if side.members),
            port.options,
            tuple(sorted(before.symmetric_difference(seated))),
            member.still_absent(absent, self.seats, self.leaving),
            (*member.left, *dict(self.leaving))[-_LEFT_LIMIT:],
            member.description,
            member.origin or member.new_origin(),
        )
        self._frame = frame
        if port.options.partitions == "majority":
            # Whoever makes the next view must know of this one, should it be carried out here and nowhere else.
            self.phase, self._since = Phase.PREPARING, port.now
            self._unprepared = dict.fromkeys(self.participants)
            member.post(self._storing(), self._preparation())
        else:
            self._carry_out()

    def _storing(self) -> list[MemberId]:
        """Who is to store the view next: those who leave with it, before anyone who will be in it. Else A of {A, B, C}, having lost C, may
        store the view {A} that B leaves with, be cut off, and finish it alone; B, who has not stored it, and C are a majority as well."""
        leaving = dict(self.leaving)
        return [who for who in self._unprepared if who in leaving] or list(self._unprepared)

    def _preparation(self) -> Prepare:
        return Prepare(self._port.group, self._port.me, self.ballot, codec.encode(self._frame))

    def _carry_out(self) -> None:
        self.phase, self._since = Phase.INSTALLING, self._port.now
        self._unacknowledged = dict.fromkeys(dict(self.seats))
        self._member.post(self.participants, self._frame)

    # -- what does not come ----------------------------------------------------------------------------------------------------

    def silent(self) -> list[MemberId]:
        """Those who owe an answer."""
        if self.phase is Phase.ASKING:
            return [member for member in self.participants if member not in self._states]
        if self.phase is Phase.FLUSHING:
            return list(self._targets)
        if self.phase is Phase.PREPARING:
            return self._storing()
        return list(self._unacknowledged)

    def _note_unflushed(self) -> None:
        self._member.coordinator.note_unflushed({who: self._states[who].have for who in self._targets})

    def _retry_later(self) -> None:
        self._port.call_in(self._port.settings.retry_s * self._port.rng.uniform(0.75, 1.25), self._retry)

    def _retry(self) -> None:
        if self.phase is Phase.OVER:
            return
        waited = self._port.now - self._since
        silent = self.silent()
        strangers = [who for who in silent if self._port.view is None or who not in self._port.view]
        if self.under_way and strangers and waited >= _STRANGERS * self._port.settings.change_s:
            # The members of this view should not wait long for those who are not in it yet: they can come again.
            if self.phase is Phase.FLUSHING:
                self._note_unflushed()
            self.phase = Phase.OVER
            self._member.coordinator.unanswered(self, strangers)
            return
        if waited >= self._port.settings.change_s and silent:
            installing, flushing = self.phase is Phase.INSTALLING, self.phase is Phase.FLUSHING
            if flushing:
                self._note_unflushed()
            self.phase = Phase.OVER
            # Who does not acknowledge a view is silent in it, and failure detection takes care of it.
            if not installing:
                self._member.coordinator.unanswered(self, silent)
            else:
                self._member.coordinator.finished(self)
            return
        if self.phase is Phase.ASKING:
            self._member.post(silent, self._proposal())
        elif self.phase is Phase.FLUSHING:
            for member, target in self._targets.items():
                self._member.post((member,), target)
            # The others wait, too: a coordinator that is heard is not taken for dead.
            self._member.post([who for who in self.participants if who not in self._targets], self._proposal())
        elif self.phase is Phase.PREPARING:
            self._member.post(silent, self._preparation())
        else:
            self._member.post([*silent, *dict(self.leaving)], self._frame)
        self._retry_later()


def _install_of(wire: bytes) -> Install | None:
    """The Install in a participant's store."""
    try:
        frame = codec.decode(wire) if wire else None
    except BadFrame:
        return None
    return frame if isinstance(frame, Install) else None
