"""What was delivered here, epoch by epoch: for those who come later, for those who come back, and for `messages()`.

Keeps up to `history_messages` messages and `history_bytes` bytes: batches of many messages as the frames they came in (`Packed`), of
others the payloads. Above either bound the oldest pieces of the oldest epochs are forgotten. *That* they existed is kept: `have` says per
sender which numbers need not come again, because they were delivered, lie before this member's time (`skip`), or are lost to it
(`lose`). With `retention="ids"` no payload is kept at all, only who sent which numbers and when. Of epochs the newest 4,096 are known, and
65,536 senders; a sender forgotten beyond that could be delivered anew by somebody who remembers it longer.

Cost: `add` 0.6 µs, and for a batch that is not kept as its frame 10 to 20 ns per message; it does not depend on how much is kept. Listing
in the canonical order sorts each closed epoch once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from zlib import crc32

import msgspec

from antiphon.model.control import Epoch, Holdings
from antiphon.model.events import Delivery
from antiphon.model.frames import SEQNO_LIMIT, Batch
from antiphon.model.ids import MemberId, MessageId
from antiphon.model.options import Settings
from antiphon.model.ranges import Ranges
from antiphon.protocol.sync.archive import Archive
from antiphon.protocol.sync.canonical import Packed, Piece, Stub
from antiphon.protocol.sync.chapter import OPEN, Chapter, bytes_of
from antiphon.protocol.sync.ledger import Ledger

SENDER_LIMIT = 65_536
_MANY = 16
"""A batch of more messages is kept as its frame."""
_FRESH = 16
"""Deliveries that are entered together. One that is more than this part of an eighth of what may be kept is entered at once."""
_LATER = 512
"""The same for single small messages, at most: who waits for one should not wait until others before it are entered."""


class History:
    def __init__(
        self, order: str, settings: Settings, *, one_line: bool = False, frame_of: Callable[[Batch], bytes | None] = lambda batch: None
    ) -> None:
        """`one_line`: what anybody delivers in an epoch is a beginning of the one way in which it ends. `frame_of` gives the frame that a
        batch came in, where it is still at hand."""
        self.total = order == "total"
        self.adopted = Ledger()
        """What a state stands for that the application was given."""
        self._one_line = one_line
        self._frame_of = frame_of
        self._ids_only = settings.retention == "ids"
        self._have, self._absent = Ledger(), Ledger()
        """Everything that need not come again, and what of it is not kept here."""
        self._archive = Archive(self.total, settings, self._absent)
        self._fresh: list[Piece] = []
        self._fresh_sizes: list[int] = []
        """Delivered, and not yet in the archive, with their bytes: kept beyond the bounds, so they must be few."""
        self._few_messages, self._few_bytes = settings.history_messages // 8 // _FRESH, settings.history_bytes // 8 // _FRESH
        """What a delivery has at most that may be entered later: fewer messages than that, and no more bytes."""
        self._later, self._later_bytes = min(settings.history_messages // 8, _LATER), settings.history_bytes // 8 // _LATER
        """How many single messages may be entered later, and how long each may be."""
        self._came_in = 0
        """The view in which this member was told that something lies before its time; 0: it wants the whole past."""
        self._last_by_sender: Mapping[MemberId, int] = {}
        """How far the senders of the current epoch had come before it, as far as they said so."""
        self._live_by_sender: dict[MemberId, Ranges] = {}
        self._live_from: dict[MemberId, int] = {}
        """Who was delivered in the current epoch: the sender's ranges in `have`, and its lowest number in the epoch. A sender's numbers in
        an epoch are above all its earlier ones."""

    # -- writing ---------------------------------------------------------------------------------------------------------------

    def begin(self, epoch: Epoch) -> None:
        """A new view: what is added from here on belongs to it. Ends the epoch before, if nobody has."""
        self.close(epoch.id)
        self._archive.begin(epoch)

    def close(self, next_view: int) -> None:
        """The current epoch has ended, and `next_view` will follow."""
        self._settle()
        if self._archive.current is not None:
            if self.total:
                # In one line a member that was stopped, and goes on in a later view than the others, has not ended the epoch in another
                # way. Under a name of its own the beginning it knows would be told as an outcome beside that of the others; and where
                # some of either is forgotten, what it lacks would come by time, in an order that nobody else delivered it in.
                self._archive.current.close(self._archive.current.epoch.id if self._one_line else next_view)
            self._live_by_sender.clear()
            self._live_from.clear()
            self._archive.current = None

    def add(self, batch: Batch, low: int, high: int) -> None:
        """Messages `low … high` of `batch` were delivered in the current epoch."""
        ranges = self._live_by_sender.get(batch.sender)
        if ranges is not None and ranges.highs[-1] == low - 1:
            ranges.highs[-1] = high
        else:
            self._have.add(batch.sender, low, high)
            self._live_by_sender[batch.sender] = self._have.ranges_by_sender[batch.sender]
            self._live_from[batch.sender] = min(self._live_from.get(batch.sender, low), low)
        self._keep((batch, low, high))

    def follow(self, piece: Delivery) -> bool:
        """Adds messages that are the next of a sender of which everything before is here, and nothing beyond; whether they are that."""
        batch, low, high = piece
        ranges = self._live_by_sender.get(batch.sender)
        if ranges is None:
            return False
        highs = ranges.highs
        if highs[-1] != low - 1 or len(highs) > 1 or ranges.lows[0] > 1:
            return False
        highs[0] = high
        fresh = self._fresh
        # The way of single small messages that come one by one, written out; of all others see `_keep`.
        if low == high and len(fresh) < self._later and (size := len(batch.payloads[low - batch.first])) <= self._later_bytes:
            fresh.append(piece)
            self._fresh_sizes.append(size)
        else:
            self._keep(piece)
        return True

    def review(self) -> None:
        """Enters what was delivered, if there is enough of it. To be called when nobody waits for a message."""
        if len(self._fresh) >= _FRESH:
            self._settle()

    def recover(
        self, epoch: int, batch: Batch | Stub, low: int, high: int, outcome: int = OPEN, position: int = 0
    ) -> list[tuple[int, int]]:
        """Enters messages that synchronisation brought and says which of them are new here: these are to be delivered. In total order they
        lie at `position` of an outcome, and that is entered for those that are not new as well; a stub is a place alone."""
        news = [] if type(batch) is Stub else self.lacks(batch.sender, low, high)
        kept = Stub(batch.sender, batch.sent_at) if self._ids_only else batch
        for first, last in news:
            self._have.add(batch.sender, first, last)
            if self._ids_only:
                self._absent.add(batch.sender, first, last)
        if self.total and outcome != OPEN:
            self._archive.place(epoch, outcome, position, kept, low, high, news)
        elif news:
            self._archive.enter(epoch, kept, news)
        self._bound_senders()
        return news

    def doubt(self) -> None:
        """Before new members are asked: what was told with a gap may be told whole. A gap stays that may be made of messages which this
        member lacks, because it did not want them or they were lost to it."""
        if self.total:
            self._archive.doubt(len(self.cut()))

    def skip(self, holdings: Holdings) -> None:
        """These messages lie before this member's time, or are not wanted."""
        self._come(Ledger.read(holdings) or Ledger())

    def lose(self, holdings: Holdings) -> None:
        """These messages will not come any more; the application has been told."""
        self._enter_absent(Ledger.read(holdings) or Ledger())

    def adopt(self, holdings: Holdings, live_from: dict[MemberId, int], unread: Ledger | None = None) -> None:
        """The application was given a state that stands for these messages, those from `live_from` on sent in the current epoch; or was
        given the `unread` ones of them with it. None of them is kept here."""
        ledger = Ledger.read(holdings) or Ledger()
        self.adopted.merge(ledger if unread is None else ledger.without(unread))
        self._come(ledger)
        live = 0
        for sender, low in live_from.items():
            if sender in self._have.ranges_by_sender:
                self._live_from[sender] = min(self._live_from.get(sender, low), low)
                live += sum(high - max(start, low) + 1 for start, high in ledger.ranges_by_sender.get(sender, ()) if high >= low)
        if self._archive.current is not None:
            # The state was taken at one point of the epoch: what is delivered here takes the places after it.
            self._archive.current.outcome(OPEN).jump(live)
            if live:
                self._archive.forgotten_epoch = max(self._archive.forgotten_epoch, self._archive.current.epoch.id)

    def learn(self, epochs: Iterable[Epoch]) -> None:
        """There are, or were, these views."""
        self._archive.learn(epochs)

    # -- what is here ----------------------------------------------------------------------------------------------------------

    def have(self) -> Holdings:
        """Per sender the numbers that need not come (again)."""
        return self._have.flat()

    def check(self) -> int:
        """A number that is equal at members that have the same, and hardly ever otherwise."""
        return crc32(msgspec.msgpack.encode(sorted(self.have().items())))

    def before(self) -> Ledger:
        """`have` without the current epoch, whose messages are live traffic. Not to be changed."""
        if not self._live_from:
            return self._have
        live = Ledger()
        for sender, low in self._live_from.items():
            live.add(sender, low, self._have.highest(sender))
        return self._have.without(live)

    def live_from(self) -> dict[MemberId, int]:
        """From which number on each sender's messages belong to the current epoch, for those of which any are here."""
        return dict(self._live_from)

    def unknown(self, ledger: Ledger) -> Ledger:
        """What of it is not in `have`."""
        return ledger.without(self._have)

    def absent(self) -> Ledger:
        """The part of `have` that cannot be given to anybody. Not to be changed."""
        self._settle()
        return self._absent

    def cut(self) -> Ledger:
        """In total order: the part of `have` whose places need not be told, because no message of it is kept. Not to be changed."""
        return self.absent() if self.total and not self._ids_only else Ledger()

    def covers(self, sender: MemberId, low: int, high: int) -> list[tuple[int, int]]:
        """The parts of `low … high` that were neither delivered nor skipped nor lost, in order."""
        return self._have.missing(sender, low, high)

    def lacks(self, sender: MemberId, low: int, high: int) -> list[tuple[int, int]]:
        """The same of messages of earlier epochs, without those that `bound` excludes."""
        last = min(high, self._last_by_sender.get(sender, high))
        return self._have.missing(sender, low, last) if low <= last else []

    def missing_parents(self, batch: Batch, seqno: int) -> tuple[MessageId, ...]:
        """Return the messages that message `seqno` of `batch` names and that are not in `have`, or can only come after it."""
        sender, have = batch.sender, self._have
        return tuple(
            name
            for name in dict.fromkeys(batch.follows(seqno))
            if (name.sender == sender and name.seqno >= seqno) or have.missing(name.sender, name.seqno, name.seqno)
        )

    def beyond(self, sender: MemberId, number: int) -> list[tuple[int, int]]:
        """The sender's numbers after this one that need not come (again), as ranges."""
        ranges = self._have.ranges_by_sender.get(sender)
        return [] if ranges is None else [(max(low, number + 1), high) for low, high in ranges if high > number]

    def bound(self, last_by_sender: Mapping[MemberId, int]) -> None:
        """An epoch begins, and before it these senders had sent no more than this, as they said themselves. What is known of them beyond
        that was forged: it is forgotten, and not taken from others until the next epoch, because the true messages are still to come."""
        self._last_by_sender = last_by_sender
        for ledger in (self._have, self._absent):
            ledger.cut_off(last_by_sender)

    def possible(self, ledger: Ledger) -> Ledger:
        """Remove from the ledger the messages that `bound` excludes, and return it."""
        ledger.cut_off(self._last_by_sender)
        return ledger

    def excluded(self) -> Ledger:
        """Return the messages that `bound` excludes. The archive may hold some; nobody can take them."""
        ledger = Ledger()
        for sender, last in self._last_by_sender.items():
            ledger.add(sender, last + 1, SEQNO_LIMIT)
        return ledger

    def delivered_up_to(self, sender: MemberId) -> int:
        """The last number of the sender before the first that is still to come."""
        ranges = self._have.ranges_by_sender.get(sender)
        return ranges.highs[0] if ranges is not None and ranges.lows[0] == 1 else 0

    # -- the canonical order ---------------------------------------------------------------------------------------------------

    def messages(self) -> list[Delivery]:
        """Everything that is kept, in the canonical order: the same list at all members that keep the same messages."""
        self._settle()
        sizes = self.sizes()
        listed = (piece for chapter in self._archive.chapters() for piece in chapter.listed(self.total, sizes))
        return [
            (kept.unpacked() if isinstance(kept, Packed) else kept, low, high) for kept, low, high in listed if not isinstance(kept, Stub)
        ]

    def epochs(self) -> list[Epoch]:
        """The views that are known, by id."""
        return self._archive.epochs()

    def outcomes(self) -> list[tuple[int, int, int]]:
        """In total order: (epoch, next view, how many of its messages are known), for all that have ended."""
        return self._archive.outcomes() if self.total else []

    def known(self, epoch: int, following: int) -> int:
        """In total order: how many messages of an outcome are known."""
        return self._archive.known(epoch, following)

    def leaps_from(self, known_by_outcome: Mapping[tuple[int, int], int], epochs: Set[int] | None = None) -> bool:
        """In total order: whether somebody who knows this much of the outcomes could be told one (of these epochs) only with a gap."""
        return self.total and any(
            outcome.forgotten > known_by_outcome.get((chapter.epoch.id, following), 0)
            for chapter in self.chapters()
            if epochs is None or chapter.epoch.id in epochs
            for following, outcome in chapter.outcomes.items()
            if following != OPEN
        )

    def missed(self, epochs: Set[int]) -> bool:
        """In total order: whether one of these epochs, or its beginning, lies before this member's time. Of its end no more is known here
        than what somebody happened to tell, be it the one who asks for it."""
        return self.total and not self._archive.line(self._came_in).isdisjoint(epochs)

    def chapters(self) -> Iterator[Chapter]:
        """The epochs that have ended, in the canonical order."""
        return (chapter for chapter in self._archive.chapters() if chapter is not self._archive.current)

    def sizes(self) -> dict[int, int]:
        """How many members each known view had."""
        return self._archive.sizes()

    @property
    def entered(self) -> int:
        """How many messages and places synchronisation has brought."""
        return self._archive.entered

    def forgot_since(self, epoch: int) -> bool:
        """Whether messages of this epoch or a later one have been forgotten, or may be among those that never came."""
        self._settle()
        return bool(epoch) and self._archive.forgotten_epoch >= epoch

    @property
    def forgotten_at(self) -> float:
        """No message that was forgotten was sent later than this."""
        self._settle()
        return self._archive.forgotten_at

    def stats(self) -> dict[str, object]:
        self._settle()
        archive = self._archive
        return {"history_messages": archive.messages, "history_bytes": archive.bytes, "history_epochs": len(archive.epochs())}

    # -- inside ----------------------------------------------------------------------------------------------------------------

    def _keep(self, piece: Delivery) -> None:
        batch, low, high = piece
        if high - low >= _MANY and high - low + 1 == len(batch.payloads) and (wire := self._frame_of(batch)) is not None:
            self._fresh.append((Packed(batch.sender, batch.sent_at, low, wire), low, high))
            size = len(wire)
        else:
            self._fresh.append(piece)
            # Counted now, while the payloads are in the processor's cache.
            size = len(batch.payloads[low - batch.first]) if low == high else bytes_of(batch, low, high)
        self._fresh_sizes.append(size)
        if size > self._few_bytes or high - low >= self._few_messages or len(self._fresh) >= _FRESH:
            self._settle()

    def _settle(self) -> None:
        """Enters what was delivered since the last time."""
        if self._fresh:
            pieces, sizes = self._fresh, self._fresh_sizes
            self._fresh, self._fresh_sizes = [], []
            if self._ids_only:
                sizes = [0] * len(pieces)
                pieces = [(Stub(batch.sender, batch.sent_at), low, high) for batch, low, high in pieces]
                for kept, low, high in pieces:
                    self._absent.add(kept.sender, low, high)
            self._archive.write(pieces, sizes)
            self._bound_senders()

    def _come(self, ledger: Ledger) -> None:
        """This member is in its first views, and these messages lie before its time."""
        if ledger and self._archive.current is not None:
            self._came_in = self._archive.current.epoch.id
        self._enter_absent(ledger)

    def _enter_absent(self, ledger: Ledger) -> None:
        news = ledger.without(self._have)
        self._have.merge(news)
        self._absent.merge(news)
        if news and self._archive.current is not None:
            # Nobody says in which epoch they were sent: perhaps in the last one before this, in which somebody else was already there.
            self._archive.forgotten_epoch = max(self._archive.forgotten_epoch, self._archive.current.epoch.id - 1)
        self._bound_senders()

    def _bound_senders(self) -> None:
        for ledger in (self._have, self._absent, self.adopted):
            over = len(ledger.ranges_by_sender) - SENDER_LIMIT
            if over > 0:
                silent = [sender for sender in ledger.ranges_by_sender if sender not in self._live_from]
                for sender in silent[:over]:
                    del ledger.ranges_by_sender[sender]
