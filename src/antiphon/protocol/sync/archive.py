"""The chapters of a history, within bounds: messages by epoch, the oldest of the oldest epochs forgotten first.

What is forgotten is entered in the ledger of what is absent, so that it is known to have existed. Entering and forgetting cost the
same per piece however much is kept.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence

from antiphon.model.control import Epoch
from antiphon.model.frames import Batch
from antiphon.model.options import Settings
from antiphon.protocol.sync.canonical import Piece, Stub, in_order
from antiphon.protocol.sync.chapter import OPEN, Chapter, Outcome, bytes_of
from antiphon.protocol.sync.ledger import Ledger

EPOCH_LIMIT = 4_096


class Archive:
    def __init__(self, total: bool, settings: Settings, absent: Ledger) -> None:
        self.total = total
        self.current: Chapter | None = None
        """The chapter that is being written; it is never forgotten as a whole."""
        self.messages = self.bytes = 0
        self.entered = 0
        """How many messages and places synchronisation has brought."""
        self.forgotten_at = float("-inf")
        """No message that was forgotten was sent later than this,"""
        self.forgotten_epoch = 0
        """nor in a later epoch than this."""
        self._messages_limit, self._bytes_limit = settings.history_messages, settings.history_bytes
        self._absent = absent
        self._chapters: dict[int, Chapter] = {}
        self._ids: list[int] = []
        """The ids of all chapters, sorted."""
        self._first = 0
        """Chapters before this one of them are empty."""

    # -- reading ---------------------------------------------------------------------------------------------------------------

    def chapters(self) -> Iterator[Chapter]:
        """In the canonical order."""
        for epoch in in_order(chapter.epoch for chapter in self._chapters.values()):
            yield self._chapters[epoch]

    def epochs(self) -> list[Epoch]:
        """By id."""
        return [self._chapters[epoch].epoch for epoch in self._ids]

    def sizes(self) -> dict[int, int]:
        """How many members each known view had."""
        return {epoch: chapter.epoch.size for epoch, chapter in self._chapters.items()}

    def outcomes(self) -> list[tuple[int, int, int]]:
        """(epoch, next view, how many of its messages are known), for all that have ended."""
        return [
            (epoch, following, outcome.known)
            for epoch in self._ids
            for following, outcome in sorted(self._chapters[epoch].outcomes.items())
            if following != OPEN and outcome.known
        ]

    def known(self, epoch: int, following: int) -> int:
        """How many messages of an outcome are known."""
        chapter = self._chapters.get(epoch)
        return chapter.outcomes[following].known if chapter is not None and following in chapter.outcomes else 0

    def line(self, epoch: int) -> set[int]:
        """This view and those it grew from, as far as they are known."""
        found, unseen = {epoch}, [epoch]
        while unseen:
            chapter = self._chapters.get(unseen.pop())
            for parent in chapter.epoch.parents if chapter is not None else ():
                if parent not in found:
                    found.add(parent)
                    unseen.append(parent)
        return found

    # -- writing ---------------------------------------------------------------------------------------------------------------

    def begin(self, epoch: Epoch) -> None:
        self.learn((epoch,))
        self.current = self._chapters[epoch.id]

    def learn(self, epochs: Iterable[Epoch]) -> None:
        """There are, or were, these views."""
        for epoch in epochs:
            chapter = self._chapters.get(epoch.id)
            if chapter is None:
                self._chapters[epoch.id] = Chapter(epoch)
                insort(self._ids, epoch.id)
                self._first = 0
            elif not chapter.epoch.size:
                chapter.epoch = epoch
            # The next epoch's size ranks the outcomes of those it grew from.
            for parent in epoch.parents:
                if parent in self._chapters:
                    self._chapters[parent].changed = True
        while len(self._chapters) > EPOCH_LIMIT:
            oldest = self._chapters.pop(self._ids.pop(1 if self._chapters[self._ids[0]] is self.current else 0))
            self._first = 0
            while (outcome := oldest.oldest()) is not None:
                self._forget_from(outcome, 0, 0)

    def write(self, pieces: Sequence[Piece], sizes: Sequence[int]) -> None:
        """Enters what was delivered in the current epoch, pieces of so many bytes each."""
        chapter = self.current
        assert chapter is not None, "something was delivered before the first view, or between two: begin an epoch first"
        self._keep(chapter, OPEN, pieces, sizes)
        self._forget()

    def enter(self, epoch: int, kept: Batch | Stub, news: Sequence[tuple[int, int]]) -> None:
        """Enters the messages `news` of an epoch that has ended."""
        chapter = self._chapter(epoch)
        self._bring(chapter, OPEN, [(kept, low, high) for low, high in news])
        self._forget()

    def place(
        self, epoch: int, following: int, position: int, kept: Batch | Stub, low: int, high: int, news: Sequence[tuple[int, int]]
    ) -> None:
        """Enters the places `low … high`, which begin at `position` of an outcome; of `news` the messages as well."""
        chapter = self._chapter(epoch)
        outcome, bare = chapter.outcome(following), Stub(kept.sender, kept.sent_at)
        if position > outcome.known:
            self._set_aside(chapter, outcome)
            outcome.jump(position)
        # What is known of the outcome is not entered twice: requests may cross, and answers come from several.
        start = low + outcome.known - position
        pieces: list[tuple[Batch | Stub, int, int]] = []
        for first, last in news:
            if first < start:
                # A place that was known without its message: the message is kept beside the outcomes, for those who look for it.
                self._bring(chapter, OPEN, [(kept, first, min(last, start - 1))])
            if start < first:
                pieces.append((bare, start, first - 1))
            if start <= last:
                pieces.append((kept, max(first, start), last))
                start = last + 1
        if start <= high:
            pieces.append((bare, start, high))
        self._bring(chapter, following, pieces)
        self._forget()

    def doubt(self, lacking: int) -> None:
        """Forgets the outcomes of whose beginnings more was never told than so many messages, and keeps their messages: somebody new may
        know them whole."""
        for chapter in self._chapters.values():
            outcomes = chapter.outcomes.items()
            leapt = [following for following, one in outcomes if one.leapt and one.forgotten > lacking and following != OPEN]
            for following in leapt:
                self._set_aside(chapter, chapter.outcomes[following])
                del chapter.outcomes[following]
                chapter.changed = True

    def _set_aside(self, chapter: Chapter, outcome: Outcome) -> None:
        """Nobody knows what comes after the pieces of an outcome: they keep their messages, and lose their places."""
        messages, pieces = outcome.clear()
        self.messages -= messages
        self.bytes -= sum(size for _, size in pieces)
        whole = [(piece, size) for piece, size in pieces if type(piece[0]) is not Stub]
        self._keep(chapter, OPEN, [piece for piece, _ in whole], [size for _, size in whole])

    def _chapter(self, epoch: int) -> Chapter:
        if epoch not in self._chapters:
            self.learn((Epoch(epoch, 0),))
        # Beyond the limit the epoch is forgotten as soon as it is learned; its messages go to whatever is oldest.
        found = self._chapters.get(epoch)
        return self._chapters[self._ids[0]] if found is None else found

    def _bring(self, chapter: Chapter, following: int, pieces: Sequence[tuple[Batch | Stub, int, int]]) -> None:
        before = self.messages
        self._keep(chapter, following, pieces, [bytes_of(*piece) for piece in pieces])
        self.entered += self.messages - before
        self._first = min(self._first, bisect_left(self._ids, chapter.epoch.id))

    def _keep(self, chapter: Chapter, following: int, pieces: Sequence[Piece], sizes: Sequence[int]) -> None:
        if pieces:
            messages, size = chapter.outcome(following).extend(pieces, sizes)
            chapter.changed = True
            self.messages += messages
            self.bytes += size

    # -- bounds ----------------------------------------------------------------------------------------------------------------

    def _forget(self) -> None:
        while self.messages > self._messages_limit or self.bytes > self._bytes_limit:
            chapter = self._chapters[self._ids[self._first]]
            outcome = chapter.oldest()
            if outcome is None:
                self._first += 1
            else:
                chapter.changed = True
                self.forgotten_epoch = max(self.forgotten_epoch, chapter.epoch.id)
                self._forget_from(outcome, self._messages_limit, self._bytes_limit)

    def _forget_from(self, outcome: Outcome, messages: int, size: int) -> None:
        """Forgets pieces of an outcome, until it is empty or no more than this is kept in all."""
        absent, before = self._absent.ranges_by_sender, self.messages
        while outcome and (self.messages > messages or self.bytes > size):
            (kept, low, high), kept_bytes = outcome.take_oldest()
            self.messages -= high - low + 1
            self.bytes -= kept_bytes
            if kept.sent_at > self.forgotten_at:
                self.forgotten_at = kept.sent_at
            if type(kept) is not Stub:
                ranges = absent.get(kept.sender)
                if ranges is not None and ranges.highs[-1] == low - 1:
                    ranges.highs[-1] = high
                else:
                    self._absent.add(kept.sender, low, high)
        outcome.forgotten += before - self.messages
