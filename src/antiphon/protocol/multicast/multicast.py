"""What every multicast shares: sending batches, cutting and joining fragments, handing each message up once.

A multicast knows its streams, one per sender; `Stream` remembers what arrived. Subclasses say where frames go (`targets`) and what
is kept for repairs. Which received frames are taken depends on two things that `_choose_handlers` looks at: whether the view is ending
(`freeze`, then `aim`), whether this member is catching up (`hold`), and whether its application takes what is delivered (`read`). In
between, the usual handlers know of none of these.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from antiphon.errors import BadFrame
from antiphon.model import codec
from antiphon.model.events import Why
from antiphon.model.frames import Batch, Digest, Fragment, Nack, Record, Stamp
from antiphon.model.ids import MemberId, MessageId
from antiphon.model.view import View
from antiphon.protocol.multicast.flush import parse_target
from antiphon.protocol.multicast.hold import Hold
from antiphon.protocol.multicast.stream import Stream
from antiphon.protocol.outbox import Destination
from antiphon.protocol.stage import CLOCK_LIMIT_S, Context, OnAccept, Ordering

if TYPE_CHECKING:
    from antiphon.protocol.multicast.stability import Stability

_FRAGMENT_BYTES = 64
"""More than a fragment's fields take beside its ids and its part."""

Handler: TypeAlias = Callable[[Any, bytes, MemberId | None], bool | None]
"""Takes a frame. True: all that has come of it are events, and nothing is left to be done at the end of the turn; else there may be."""


class Multicast(ABC):
    promises: ClassVar[tuple[str, ...]] = ()
    """Names of what this multicast promises beyond every group's promises."""
    stability: Stability | None = None
    """Who keeps count of what the others have, where anybody does; wants to be flushed at the end of a turn with news."""

    def __init__(self, context: Context, ordering: Ordering, on_accept: OnAccept | None) -> None:
        self.context, self.ordering, self.settings = context, ordering, context.settings
        self.me, self.drops, self.sends = context.me, context.drops, context.outbox.sends
        self.frames_sent = 0
        """Data and record frames put on links, forwarded ones too: one for each member they go to."""
        self.hand_up = self.accept = self._accepting(on_accept)
        """To the ordering; and where new messages go at once, which is not always there."""
        self._to_all = type(self).targets is Multicast.targets
        self.usual: dict[type, Handler] = self.usual_handlers()
        self.handlers = dict(self.usual)
        """Who takes which frame now. The dictionary keeps its identity."""
        self.frozen = self.aimed = False
        """Whether the view is ending; and whether it was said what must be here then."""
        self.held: Hold | None = None
        self.reading = True
        """Whether the application takes what is delivered."""
        self.data: dict[MemberId, Stream] = {
            member: Stream(rank, member, context.cut.get(member, 0)) for rank, member in enumerate(context.view.members)
        }
        self.mine = self.data[self.me]
        self._others = len(self.data) - 1

    def _accepting(self, on_accept: OnAccept | None) -> OnAccept:
        accept = self.ordering.accept
        if on_accept is None:
            return accept
        watch = on_accept

        def watched(batch: Batch, low: int, high: int) -> None:
            watch(batch, low, high)
            accept(batch, low, high)

        return watched

    def usual_handlers(self) -> dict[type, Handler]:
        return {
            **dict.fromkeys((Record, Digest, Nack), self.receive_unexpected),
            Batch: self.receive_batch,
            Fragment: self.receive_fragment,
        }

    def _choose_handlers(self) -> None:
        self.handlers |= self.usual
        if self.frozen:
            self.handlers |= dict.fromkeys((Batch, Fragment, Record), self.receive_aimed if self.aimed else self.receive_flushing)
        elif self.held is not None:
            self.handlers |= dict.fromkeys((Batch, Fragment), self.receive_held)
        elif not self.reading:
            self.handlers |= dict.fromkeys((Batch, Fragment, Record), self.receive_unread)

    # -- sending ---------------------------------------------------------------------------------------------------------------

    def cast(self, batch: Batch) -> None:
        """Sends the batch on its way, and to the own ordering."""
        wire, stream, first = codec.encode(batch), self.mine, batch.first
        stream.high = stream.top = stream.known = last = first + len(batch.payloads) - 1
        wires = (wire,) if len(wire) <= self.settings.frame_bytes else self._fragments(batch, wire)
        self.keep(stream, first, last, wires)
        for part in wires:
            self.put_on_its_way(self.me, part)
        self.accept(batch, first, last)

    def is_calm(self) -> bool:
        """Whether nothing is left to be done at the end of the turn, after a batch was cast and its frames were taken."""
        return False

    def put_on_its_way(self, origin: MemberId, wire: bytes) -> None:
        """Sends a frame of `origin`'s to whoever gets it from here."""
        targets = None if self._to_all else self.targets(origin)
        if targets is None:
            self.frames_sent += self._others
            if self._others:
                self.sends.append((None, wire))
        elif targets:
            self.frames_sent += len(targets)
            self.sends.append((targets, wire))

    def targets(self, origin: MemberId) -> Destination:
        """To whom this member sends a frame of `origin`'s."""
        return None

    def keep(self, stream: Stream, first: int, last: int, wires: Sequence[bytes]) -> None:
        """Keeps a frame for repairs."""

    def frame_of(self, batch: Batch) -> bytes | None:
        """The frame that a batch of several messages came in, if it is kept here."""
        stream = self.data.get(batch.sender)
        if stream is None or batch.view != self.context.view.id or stream.lasts.get(batch.first) != batch.last:
            return None
        return stream.frames.get(batch.first)

    def _fragments(self, batch: Batch, wire: bytes) -> tuple[bytes, ...]:
        assert batch.first == batch.last, (
            f"a batch of {len(batch.payloads)} has {len(wire)} bytes: the draft lets only single messages exceed a frame"
        )
        room = self.settings.frame_bytes - _FRAGMENT_BYTES - len(self.me.encode()) - len(batch.group.encode())
        pieces = [wire[at : at + room] for at in range(0, len(wire), room)]
        fragments = (Fragment(batch.group, self.me, batch.view, batch.first, at, len(pieces), piece) for at, piece in enumerate(pieces))
        return tuple(map(codec.encode, fragments))

    # -- receiving -------------------------------------------------------------------------------------------------------------

    @abstractmethod
    def receive_batch(self, batch: Batch, wire: bytes, source: MemberId | None) -> bool | None:
        """Takes a frame of another member."""

    @abstractmethod
    def receive_fragment(self, fragment: Fragment, wire: bytes, source: MemberId | None) -> None:
        """Takes a frame of another member."""

    def receive_unexpected(self, frame: Record | Digest | Nack, wire: bytes, source: MemberId | None) -> None:
        """Takes a frame that this kind of multicast does not use."""
        self.drops["unexpected_frame"] += 1

    def receive_flushing(self, frame: Batch | Fragment | Record, wire: bytes, source: MemberId | None) -> None:
        """The view is ending, and it is not yet agreed what of it shall be here: nothing more is taken."""
        self.drops["flushing"] += 1

    def receive_aimed(self, frame: Batch | Fragment | Record, wire: bytes, source: MemberId | None) -> None:
        """The view is ending: only what was agreed on is taken."""
        self.drops["outside_target"] += 1

    def receive_held(self, frame: Batch | Fragment, wire: bytes, source: MemberId | None) -> None:
        """This member is catching up: frames are taken while there is room for them to wait."""
        if self.held is not None and self.held.full:
            self.drops["no_room"] += 1
        else:
            self.usual[type(frame)](frame, wire, source)

    def receive_unread(self, frame: Batch | Fragment | Record, wire: bytes, source: MemberId | None) -> None:
        """The application does not take what is delivered: nothing more is taken of others, so that they slow down."""
        self.drops["reader_paused"] += 1

    def adopt(self, sent_at: float) -> None:
        """Keeps the own clock ahead of what was received."""
        if sent_at > self.context.latest:
            if sent_at <= self.context.now + CLOCK_LIMIT_S:
                self.context.latest = sent_at
            else:
                self.drops["clock_ahead"] += 1

    def stream_of(self, frame: Batch | Fragment) -> Stream | None:
        """The stream of another member's frame; None, counted, when there is none."""
        stream = self.data.get(frame.sender)
        if stream is None or stream is self.mine:
            self.drops["not_a_member" if stream is None else "own_frame"] += 1
            return None
        return stream

    def refused(self, batch: Batch) -> bool:
        """Whether the ordering does not take the batch; counts why."""
        if batch.parents is None and batch.stamp is None and not self.ordering.crowded:
            return False
        reason = self.ordering.refuses(batch)
        if reason is None:
            return False
        self.drops[reason] += 1
        return True

    def add_part(self, stream: Stream, fragment: Fragment, wire: bytes) -> bool:
        """Keeps a part of a message; False when it was here already, or there was no room for it. Where nothing is asked for again the
        oldest half-arrived message makes room for others, otherwise the latest, so that the next one needed can become whole."""
        if fragment.first <= stream.high or fragment.first in stream.above:
            self.drops["duplicate"] += 1
            return False
        new, abandoned = stream.add_part(fragment, wire, self.settings.reassembly_bytes, max if self.repairs() else min)
        if abandoned:
            self.drops["abandoned_fragment"] += abandoned
        elif not new:
            self.drops["duplicate"] += 1
        return new

    def assembled(self, stream: Stream, number: int) -> tuple[Batch, list[bytes]] | None:
        """The message and its frames, once the last part is here."""
        count, by_index = stream.parts[number]
        if len(by_index) < count:
            return None
        wires = [by_index[index] for index in range(count)]
        stream.drop_parts(number)
        try:
            batch = batch_of(wires)
        except BadFrame as bad:
            self.drops[bad.reason] += 1
            return None
        if type(batch) is not Batch or batch.sender != stream.sender or batch.first != number or batch.last != number:
            self.drops["malformed"] += 1
            return None
        return batch, wires

    # -- the turn, the view ----------------------------------------------------------------------------------------------------

    def release(self) -> bool:
        """Hands up what has become safe; whether there was any."""
        return False

    def first_missing(self, members: Iterable[MemberId]) -> MessageId | None:
        """A message of these members that is missing here although a later one is not; None when there is none."""
        return None

    def freeze(self) -> None:
        """The view is ending: takes nothing more of it, until `aim` says what. Half-arrived messages are nobody's."""
        self.frozen, self.aimed = True, False
        for stream in self.data.values():
            self._abandon_parts(stream)
        self._choose_handlers()

    def holdings(self) -> list[list[int]]:
        """What is here of each stream of the view: the position without a gap, then the ranges above it."""
        return [stream.holding() for stream in self.data.values()]

    def aim(self, target: list[list[int]], holders: tuple[MemberId, ...]) -> None:
        """Those that go on have agreed to hold `target` of the view."""
        if parse_target(target, len(self.data)) is None:
            self.drops["malformed"] += 1
        else:
            self.aimed = True
            self._choose_handlers()

    @property
    def flushed(self) -> bool:
        """Whether all that was agreed on is here. Nobody asks for it where nothing is repaired."""
        return self.aimed

    def before_view(self) -> None:
        """Hands up whatever is held back only because of the old view."""
        if self.held is not None:
            self.held.hand_over()

    def drop_held(self) -> int:
        """Forgets whatever is held back below the ordering; says how many messages that were."""
        return self.held.drop() if self.held is not None else 0

    def kept_after(self) -> int:
        """After which number all own messages are kept."""
        return self.mine.high

    def sent_after(self, number: int) -> list[Batch]:
        """The own batches that hold anything after `number`, where they are kept."""
        return []

    def on_view(self, view: View, starts: dict[MemberId, int]) -> None:
        """Goes on in `view`: after `starts[sender]`, or where that is not said, from where each stream is."""
        old = self.data
        self.data = {}
        for rank, member in enumerate(view.members):
            stream = old.get(member)
            if stream is None or member in starts:
                stream = Stream(rank, member, starts.get(member, 0))
            stream.index = rank
            self.data[member] = stream
        for stream in old.values():
            self._abandon_parts(stream)
        self.mine = self.data[self.me]
        self._others = len(self.data) - 1
        self.frozen = self.aimed = False
        self._choose_handlers()

    def _abandon_parts(self, stream: Stream) -> None:
        for number in list(stream.parts):
            self.drops["abandoned_fragment"] += stream.drop_parts(number)

    # -- the reader ------------------------------------------------------------------------------------------------------------

    @property
    def resting(self) -> bool:
        """Whether nothing is taken because nobody reads. What the end of a view or catching up needs is taken all the same, or everyone
        would wait for this member's application: it is no more than the windows let be under way."""
        return not self.reading and not self.frozen and self.held is None

    def read(self, reading: bool) -> None:
        """Whether the application takes what is delivered, from now on."""
        if self.reading != reading:
            self.reading = reading
            self._choose_handlers()

    # -- catching up -----------------------------------------------------------------------------------------------------------

    def hold(self) -> None:
        """Keeps everything from the ordering until `end_hold`."""
        if self.held is None:
            self.held = Hold(self.hand_up, self.ordering.accept_record, self.settings.waiting_messages)
            self.lead_to(self.held.accept, self.held.accept_record)
            self._choose_handlers()

    def end_hold(self) -> None:
        if self.held is not None:
            self.held.hand_over()
            self.held = None
            self.lead_to(self.hand_up, self.ordering.accept_record)
            self._choose_handlers()

    def lead_to(self, accept: OnAccept, accept_record: Callable[[Record], None]) -> None:
        """Where messages and records go from here."""
        self.accept = accept

    def first_own_held(self) -> int | None:
        """The lowest own number that is held back below the ordering."""
        return self.held.first_of(self.me) if self.held is not None else None

    # -- for the ordering ------------------------------------------------------------------------------------------------------

    def cast_record(self, count: int, body: Stamp) -> None:
        raise AssertionError("an ordering that makes records was put over a multicast without them; the registry refuses that")

    def record_room(self) -> int:
        """How many more numbers the own record stream may use now."""
        return 0

    def want(self, ids: Iterable[MessageId]) -> None:
        """Asks for messages that must exist."""

    def repairs(self) -> bool:
        """Whether a missing message can still come."""
        return False

    def disproves(self, child: MessageId, parent: MessageId) -> bool:
        """Whether the sender of `parent` has said that it had received `child` and had not yet sent `parent`. Then `parent` is not asked
        for any longer."""
        return False

    # -- questions -------------------------------------------------------------------------------------------------------------

    @abstractmethod
    def credit(self, last: int) -> int:
        """How many messages may be sent after number `last`."""

    @abstractmethod
    def congestion(self) -> str:
        """Why there is no credit."""

    def level(self) -> bool:
        """Whether nothing is known to be missing here."""
        return True

    def positions(self) -> dict[MemberId, int]:
        """How far each sender's messages are here without a gap."""
        return {member: stream.high for member, stream in self.data.items()}

    def stable_positions(self) -> dict[MemberId, int]:
        """How far every member of the view is known to have each sender's messages."""
        return {}

    def known_stable(self) -> dict[MemberId, int]:
        """The same as it was when that was last worked out: asking changes nothing."""
        return {}

    def proven(self) -> int | None:
        """Up to which number the own messages are known to be everywhere; None where nobody keeps count."""
        return None

    def why(self, message: MessageId) -> Why:
        """Where a message is that the ordering does not hold."""
        stream = self.data.get(message.sender)
        if stream is None:
            return Why("unknown", "is of a sender that is not in the view")
        if self.held is not None and self.held.holds(message):
            return Why("held", "is here and waits until this member has caught up with what was sent before")
        if 0 < message.seqno <= stream.high or message.seqno in stream.above:
            return self.why_here()
        return Why("unknown", "has not been heard of")

    def why_here(self) -> Why:
        return Why("delivered", "was delivered here")

    def stats(self) -> dict[str, object]:
        return {"frames_sent": self.frames_sent}


def batch_of(wires: Sequence[bytes]) -> codec.Frame:
    """What a frame, or all fragments of one message, say."""
    if len(wires) == 1:
        return codec.decode(wires[0])
    return codec.decode(b"".join(codec.decode(wire).part for wire in wires), codec.MESSAGE_LIMIT)  # type: ignore[union-attr]
