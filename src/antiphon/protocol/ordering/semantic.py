"""semantic (S_b): a message is delivered as soon as the messages it names are delivered, and never waits for anything else.

Keeps, per sender, two structures. The *ordering list*: the ranges of numbers that have come in (`Ranges`: one range while traffic is in
order). The *out-of-sequence store*: which of those wait, and, under each missing number, the messages that wait for it; O(1) to add, to
find and to take out. What is in the list and not in the store is delivered: so a message that waits costs the list no hole, and
a release no search. Releasing walks the subtree with an explicit stack, children in arrival order, a parent always before them:
O(q) for q released messages.

The store is bounded by `waiting_messages`. At the bound, what would have to wait is not taken (so its sender is slowed down and the
frame comes again later) unless something waits for it, and the missing parents are asked for. They are asked for anyway after
`parent_s`. Over besteffort they are given up as lost, both times.

**Parents that cannot come.** `check` refuses to send a message that names anything its sender has not delivered. A faulty peer may send
one all the same. Every member then delivers it as `Orphaned`, and decides so from what all members of the view share:

| the parent's sender             | the number                                       | the message is                                     |
|---------------------------------|--------------------------------------------------|----------------------------------------------------|
| is in the view                  | up to the start of the view                      | delivered: the parent is in the past of the group  |
| is in the view                  | was sent in this view                            | held until the parent is here                      |
| is in the view                  | is not yet sent, by its sender's own digest      | orphaned, at the first look after that digest      |
| is not in the view              | is in the past of the group                      | delivered                                          |
| is not in the view, or unknown  | is not in the past of the group                  | orphaned at once                                   |
| is the sender of the message    | is the message itself, or a later one            | orphaned at once                                   |

The past of the group is what was delivered in views that have ended. A member that joins later learns it by synchronisation, whatever it
wants of the messages themselves (`know`), before anything of its first view gets here; so all members give the same verdict. Messages
that name each other in a circle are released at a look: the one with the lowest id is orphaned, the others follow it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import compress
from typing import ClassVar, TypeAlias

from antiphon.errors import UnknownParent
from antiphon.model.events import Orphaned, Why
from antiphon.model.frames import Batch
from antiphon.model.ids import MemberId, MessageId
from antiphon.model.ranges import Ranges
from antiphon.model.recording import Waiting
from antiphon.model.view import View
from antiphon.protocol.stage import Context, Ordering


class _Several:
    """A waiting message that misses more than one other, and how many."""

    __slots__ = ("batch", "missing")

    def __init__(self, batch: Batch, missing: int) -> None:
        self.batch, self.missing = batch, missing

    def misses_more(self) -> bool:
        """One of the missing has come: are there others?"""
        self.missing -= 1
        return self.missing > 0


_Child: TypeAlias = tuple[Batch, int]
"""A waiting message. It names nothing that the garbage collector tracks, so any number of them cost it nothing."""


class _Sender:
    """What has come from one sender, what of it waits, and what waits for it."""

    __slots__ = ("accepted", "children", "level", "present", "waiting")

    def __init__(self, cut: int, present: bool = True) -> None:
        self.present = present
        """Whether it is in the view: of any other sender nothing can come any more."""
        self.level = cut
        """Everything up to here has come in."""
        self.accepted = Ranges()
        """What has come in beyond `level`."""
        self.waiting: dict[int, Batch | _Several] = {}
        self.children: dict[int, _Child | list[_Child]] = {}
        """Missing or waiting number to what waits for it, one or several in arrival order."""

    def add(self, low: int, high: int) -> None:
        if low == self.level + 1:
            self.level = high if not self.accepted.lows else self.accepted.pop_up_to(high)
        else:
            self.accepted.add(low, high)

    def hold(self, number: int, child: _Child) -> None:
        """Message `number` is awaited by `child`."""
        others = self.children.get(number)
        if others is None:
            self.children[number] = child
        elif type(others) is list:
            others.append(child)
        else:
            self.children[number] = [others, child]  # type: ignore[list-item]

    def move_children(self, number: int, stack: list[_Child]) -> None:
        """Puts those that wait for message `number` on a stack, so that the first to come is the first to be taken."""
        others = self.children.pop(number)
        if type(others) is list:
            stack += others[::-1]
        else:
            stack.append(others)  # type: ignore[arg-type]

    def has_child(self, number: int, child: _Child) -> bool:
        others = self.children.get(number)
        return child in others if type(others) is list else child == others

    def remove_child(self, number: int, child: _Child) -> None:
        """Message `number` is no longer awaited by `child`."""
        others = self.children[number]
        if type(others) is list and len(others) > 1:
            others.remove(child)
        else:
            del self.children[number]

    def is_delivered(self, number: int) -> bool:
        return (0 < number <= self.level or number in self.accepted) and number not in self.waiting

    def ordering_list(self) -> Ranges:
        """The delivered numbers as ranges."""
        delivered, waiting = Ranges(), Ranges((number, number) for number in sorted(self.waiting))
        for low, high in ((1, self.level), *self.accepted):
            for piece in waiting.missing(low, high):
                delivered.add(*piece)
        return delivered


class _Senders(dict[MemberId, _Sender]):
    """The senders of the view and of the past; any other sender counts as one of which nothing has come, nor will."""

    def __missing__(self, member: MemberId) -> _Sender:
        return _UNKNOWN


_UNKNOWN = _Sender(0, present=False)
_LOOKS = 8
"""While parents are missing, circles are looked for at every so many looks only: it costs a walk over the store."""
_PAST_LIMIT = 65_536
"""Senders that have left and are remembered, as many as the history remembers; the first to be known are forgotten first."""


class Semantic(Ordering):
    over_besteffort = True
    promises: ClassVar[tuple[str, ...] | None] = ("parent_before_child", "minimality")

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._senders = _Senders()
        self._held = 0
        self._limit = context.settings.waiting_messages
        self._missing_before: dict[MessageId, None] = {}
        """The parents that were missing at the last look."""
        self._looking = False
        self._looks = 0
        self._ask_at = context.now
        self._begin(context.view.members, context.cut)

    def _begin(self, members: tuple[MemberId, ...], starts: dict[MemberId, int]) -> None:
        """What lies before a start counts as delivered; who is not named and not new goes on."""
        senders = self._senders
        for sender in senders.values():
            sender.present = False
        for member in (*members, *starts):
            if member in starts or member not in senders:
                senders[member] = _Sender(starts.get(member, 0), present=False)
        for member in members:
            senders[member].present = True
        over = len(senders) - len(members) - _PAST_LIMIT
        if over > 0:
            for member in [member for member, sender in senders.items() if not sender.present][:over]:
                del senders[member]

    # -- sending ---------------------------------------------------------------------------------------------------------------

    def check(self, seqno: int, names: tuple[MessageId, ...]) -> None:
        for name in names:
            if name.sender == self.context.me:
                if not 1 <= name.seqno < seqno:
                    raise UnknownParent(name, "a message can follow only earlier messages of its own sender")
            elif not self.is_delivered(name):
                if not self._senders[name.sender].present:
                    raise UnknownParent(name, self._why_unknown())
                raise UnknownParent(name)

    def _why_unknown(self) -> str:
        if self.context.multicast.held is not None:
            return "its sender is not in the view, and this member is still catching up; send again when it has caught up"
        return "its sender is not in the view, and it is not in the past of this group; answer a message that was delivered in this group"

    def is_delivered(self, message: MessageId) -> bool:
        return self._senders[message[0]].is_delivered(message[1])

    # -- receiving -------------------------------------------------------------------------------------------------------------

    def refuses(self, batch: Batch) -> str | None:
        if batch.stamp is not None:
            return "unexpected_stamp"
        if self._held + len(batch.payloads) <= self._limit or self.context.flushing:
            return None
        numbers = range(batch.first, batch.last + 1)
        awaited = self._senders[batch.sender].children
        if any(number in awaited for number in numbers):
            # Something waits for this batch: refusing it for want of room would keep the room taken for ever.
            return None
        waits = sum(not all(self._leaves_before(name, batch, number) for name in batch.follows(number)) for number in numbers)
        if self._held + waits <= self._limit:
            return None
        if not self.context.multicast.repairs():
            # Nobody would send it again: what is waited for is given up instead.
            self._give_up(list(self._missing_parents()))
            return None
        if self.context.now >= self._ask_at:
            # Once in a while, not for every frame that finds no room: finding out what is missing costs a walk over the store.
            self._ask_at = self.context.now + self.context.settings.nack_s
            self.context.want(self._missing_parents())
        return "no_room"

    def _leaves_before(self, name: MessageId, batch: Batch, seqno: int) -> bool:
        """Whether message `seqno` of the batch need not wait for the one it names: that is delivered, stands before it in the batch, or
        cannot come."""
        if name.sender == batch.sender and batch.first <= name.seqno:
            return True
        return self.is_delivered(name) or not self._senders[name.sender].present

    def accept(self, batch: Batch, low: int, high: int) -> None:
        senders, deliver = self._senders, self.deliver
        mine = senders[batch.sender]
        mine.add(low, high)
        parents = batch.parents
        if parents is None:
            deliver((batch, low, high))
        else:
            whose = batch.whose
            if high - low + 1 < len(parents):
                parents, whose = parents[low - batch.first : high + 1 - batch.first], whose[low - batch.first : high + 1 - batch.first]
            named = [senders[member] for member in batch.named]
            after, waiting = batch.after, mine.waiting
            run, held = low, 0
            # Messages run … seqno-1 can be delivered and are not yet: they leave as one range. This loop is the one place that
            # looks at single messages; what is written out in it, instead of called, halves its cost.
            messages = zip(range(low, high + 1), parents, whose, strict=True)
            for seqno, number, index in messages if after is not None else compress(messages, parents):
                if after is not None and seqno in after:
                    lost = self._hold_several(mine, batch, seqno)
                    if lost is not None:
                        if not lost:
                            continue
                        if run < seqno:
                            deliver((batch, run, seqno - 1))
                        deliver(Orphaned(batch, seqno, lost))
                        run = seqno + 1
                        continue
                elif not number:
                    continue
                else:
                    sender = named[index]
                    if number <= sender.level:
                        if number not in sender.waiting and (sender is not mine or number < seqno):
                            continue
                    elif sender.accepted.lows and sender.is_delivered(number) and (sender is not mine or number < seqno):
                        continue
                    if not sender.present or (sender is mine and number >= seqno):
                        # It cannot come, as every member of the view sees: there is nothing to wait for.
                        if run < seqno:
                            deliver((batch, run, seqno - 1))
                        deliver(Orphaned(batch, seqno, (MessageId(batch.named[index], number),)))
                        run = seqno + 1
                        continue
                    waiting[seqno] = batch
                    held += 1
                    child = (batch, seqno)
                    if sender.children.setdefault(number, child) is not child:
                        sender.hold(number, child)
                if run < seqno:
                    deliver((batch, run, seqno - 1))
                run = seqno + 1
            if run <= high:
                deliver((batch, run, high))
            self._held += held
            if self._held and not self._looking:
                self._look_later()
        children = mine.children
        if children:
            waiting = mine.waiting
            # Whichever is shorter: a long chain has many children that wait, a long batch many messages for which none does.
            if len(children) < high - low:
                numbers = [number for number in children if low <= number <= high and number not in waiting]
            else:
                numbers = [number for number in range(low, high + 1) if number in children and number not in waiting]
            if numbers:
                self._release(mine, numbers)

    def _hold_several(self, mine: _Sender, batch: Batch, seqno: int) -> tuple[MessageId, ...] | None:
        """Holds a message that names several others, and returns None; if it need not wait, returns those of them that are lost."""
        missing: list[MessageId] = []
        lost: list[MessageId] = []
        for name in dict.fromkeys(batch.follows(seqno)):
            sender = self._senders[name[0]]
            if sender is mine and name[1] >= seqno:
                lost.append(name)
            elif not sender.is_delivered(name[1]):
                (missing if sender.present else lost).append(name)
        if not missing:
            return tuple(lost)
        mine.waiting[seqno] = batch if len(missing) == 1 and not lost else _Several(batch, len(missing))
        self._held += 1
        for whose, number in missing:
            self._senders[whose].hold(number, (batch, seqno))
        return None

    def _release(self, parent: _Sender, numbers: list[int]) -> None:
        """Delivers what waited for these messages of `parent` and, after each, what waited for it: depth first, in arrival order,
        without recursion."""
        deliver, senders, released = self.deliver, self._senders, 0
        stack: list[_Child] = []
        for number in reversed(numbers):
            parent.move_children(number, stack)
        before = None
        while stack:
            batch, seqno = stack.pop()
            if batch is not before:
                before, sender = batch, senders[batch.sender]
                waiting, children = sender.waiting, sender.children
            held = waiting.pop(seqno)
            if type(held) is not _Several:
                deliver((batch, seqno, seqno))
            elif held.misses_more():
                waiting[seqno] = held
                continue
            else:
                self._deliver_marked(batch, seqno)
            released += 1
            if seqno in children:
                sender.move_children(seqno, stack)
        self._held -= released

    def _deliver_marked(self, batch: Batch, seqno: int) -> None:
        """Delivers a message, marked if anything it names was given up."""
        lost = self._undelivered(batch, seqno)
        self.deliver(Orphaned(batch, seqno, lost) if lost else (batch, seqno, seqno))

    def _undelivered(self, batch: Batch, seqno: int) -> tuple[MessageId, ...]:
        """Those that a message names and that are not delivered, or cannot be before it."""
        sender = batch.sender
        return tuple(
            name for name in batch.follows(seqno) if not self.is_delivered(name) or (name.sender == sender and name.seqno >= seqno)
        )

    def know(self, sender: MemberId, low: int, high: int) -> None:
        known = self._senders.get(sender)
        if known is None:
            known = self._senders[sender] = _Sender(0, present=False)
        for first, last in known.accepted.missing(max(low, known.level + 1), high):
            known.add(first, last)
        numbers = [number for number in known.children if low <= number <= high and number not in known.waiting]
        if numbers:
            self._release(known, numbers)

    # -- parents that do not come ----------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Asks for the parents that have been missing for a whole interval, unless there are none; over besteffort gives them up."""
        self._looking = False
        missing = dict.fromkeys(self._missing_parents())
        overdue = [parent for parent in missing if parent in self._missing_before]
        if self.context.multicast.repairs():
            self.context.want([parent for parent in overdue if not self._disproves(parent)])
        else:
            self._give_up(overdue)
        self._looks += 1
        if self._held and (not missing or self._looks % _LOOKS == 0):
            self._open_circles()
        self._missing_before = missing
        if self._held:
            self._look_later()

    def _look_later(self) -> None:
        self._looking = True
        self.context.call_in(self.context.settings.parent_s, self._look)

    def _missing_parents(self) -> Iterator[MessageId]:
        """The parents that are waited for and not themselves waiting here."""
        for member, sender in self._senders.items():
            for number in sender.children:
                if number not in sender.waiting:
                    yield MessageId(member, number)

    def _give_up(self, parents: list[MessageId]) -> None:
        """Delivers what waits for parents that are lost, marked so."""
        for parent in parents:
            orphans: list[_Child] = []
            self._senders[parent.sender].move_children(parent.seqno, orphans)
            self._orphan(reversed(orphans))

    def _orphan(self, children: Iterable[_Child]) -> None:
        """One message that each of these waited for is not waited for any longer."""
        for batch, seqno in children:
            sender = self._senders[batch.sender]
            waiting = sender.waiting[seqno]
            if isinstance(waiting, _Several) and waiting.misses_more():
                continue
            del sender.waiting[seqno]
            self._held -= 1
            self._deliver_marked(batch, seqno)
            if seqno in sender.children:
                self._release(sender, [seqno])

    def _disproves(self, parent: MessageId) -> bool:
        """Delivers those that wait for a message which its sender had not sent when it received them, marked so; whether that is all."""
        sender, disproves = self._senders[parent.sender], self.context.multicast.disproves
        others = sender.children[parent.seqno]
        children: list[_Child] = others if type(others) is list else [others]  # type: ignore[list-item]
        false = [child for child in children if disproves(MessageId(child[0].sender, child[1]), parent)]
        for child in false:
            sender.remove_child(parent.seqno, child)
        self._orphan(false)
        return parent.seqno not in sender.children

    def _open_circles(self) -> None:
        """Delivers messages that wait for each other in a circle, which no correct member can send: all members find the same circles, and
        in each of them the message with the lowest id goes first, marked. Costs a look at everything that waits."""
        while circles := self._find_circles():
            for member, seqno, parent in circles:
                batch = self._waiting_batch(self._senders[member].waiting[seqno])
                self._senders[parent.sender].remove_child(parent.seqno, (batch, seqno))
                self._orphan([(batch, seqno)])

    def _find_circles(self) -> list[tuple[MemberId, int, MessageId]]:
        """Of each circle the message with the lowest id, and the one that it waits for."""
        found: list[tuple[MemberId, int, MessageId]] = []
        seen: set[MessageId] = set()
        for member, sender in self._senders.items():
            for seqno in sender.waiting:
                path: dict[MessageId, MessageId] = {}
                message = MessageId(member, seqno)
                while message not in seen and (held := self._senders[message.sender].waiting.get(message.seqno)) is not None:
                    seen.add(message)
                    path[message] = message = self._first_awaited(self._waiting_batch(held), message.seqno)
                if message in path:
                    circle = [message]
                    while (following := path[circle[-1]]) != message:
                        circle.append(following)
                    lowest = min(circle)
                    found.append((*lowest, path[lowest]))
        return found

    def _first_awaited(self, batch: Batch, seqno: int) -> MessageId:
        """The first of the messages for which a waiting one waits."""
        child = (batch, seqno)
        return next(name for name in batch.follows(seqno) if self._senders[name.sender].has_child(name.seqno, child))

    @staticmethod
    def _waiting_batch(waiting: Batch | _Several) -> Batch:
        return waiting.batch if isinstance(waiting, _Several) else waiting

    def on_view(self, view: View, previous: View, starts: dict[MemberId, int]) -> None:
        """All that exists of the old view is here now, so what is still missing is lost: what waits for it is delivered, marked so."""
        self._give_up(list(self._missing_parents()))
        if self._held:
            self._open_circles()
        assert not self._held, "what waits for nothing that is missing waits in a circle"
        self._begin(view.members, starts)

    # -- questions -------------------------------------------------------------------------------------------------------------

    def first_own_waiting(self) -> int | None:
        return min(self._senders[self.context.me].waiting, default=None)

    def why(self, message: MessageId) -> Why | None:
        waiting = self._senders[message.sender].waiting.get(message.seqno)
        if waiting is None:
            return None
        missing = self._undelivered(self._waiting_batch(waiting), message.seqno)
        return Why("held", f"waits for {' and '.join(map(str, missing))}, which it names", missing)

    def waits(self, batch: Batch, low: int, high: int) -> list[Waiting]:
        waiting = self._senders[batch.sender].waiting
        if not waiting:
            return []
        return [(seqno, seqno, self._undelivered(batch, seqno)) for seqno in range(low, high + 1) if seqno in waiting]

    @property
    def held(self) -> int:
        return self._held

    def state(self) -> dict[str, object]:
        delivered = {member: list(sender.ordering_list()) for member, sender in self._senders.items()}
        return {"held": self._held, "delivered_by_sender": delivered}
