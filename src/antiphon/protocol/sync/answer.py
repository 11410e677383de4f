"""An answer: what a member can give to an asker, and how it travels.

Everything the asker lacks and wants of the epochs that have ended is gathered in the canonical order, up to `chunk_bytes`; the asker asks
again for the rest. What other answers carried is left out and named, so that nobody takes these items without those. What is
known to have existed and is not kept here is *lost*, as far as this member can say; such an answer says only that.

In total order the whole of an outcome is told that the asker does not know, from where it knows it: with bare places for messages that
it has. Messages travel in the batches they came in, byte for byte; a batch of which several pieces are wanted travels once, and one
too long for a frame in several parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from msgspec import Struct

from antiphon.model import codec
from antiphon.model.control import Epoch, Holdings, Item, SyncAnswer
from antiphon.model.frames import Batch
from antiphon.model.ids import GroupId, MemberId
from antiphon.protocol.sync.canonical import Kept, Packed, Stub
from antiphon.protocol.sync.chapter import OPEN, Chapter
from antiphon.protocol.sync.history import History
from antiphon.protocol.sync.ledger import Ledger
from antiphon.protocol.sync.packing import ENTRY_BYTES, NUMBER_BYTES, epoch_bytes, holdings_entries, pack, room
from antiphon.protocol.sync.question import Question

_LEAST_BYTES = 64
"""The smallest piece that a batch is cut into, even if its frame then is larger than it should be: of less there would be too many."""
ITEM_BYTES = ENTRY_BYTES + 6 * NUMBER_BYTES
"""More than an item takes beside its wire and its sender's name, with a place of its own."""


class Placed(Struct, frozen=True):
    """One item on its way: messages `low … high` at `position` of an outcome; `batch` is None for bare places, and may be packed."""

    epoch: int
    following: int
    position: int
    sender: MemberId
    low: int
    high: int
    batch: Batch | Packed | None


class Answer(Struct):
    items: list[Placed] = []
    epochs: list[Epoch] = []
    given: Holdings = {}
    skipped: Holdings = {}
    lost: Holdings = {}
    more: bool = False


def gather(history: History, question: Question, given: Ledger, chunk_bytes: int) -> Answer:
    """What this member gives to `question` when other answers carried `given`."""
    lacking = history.before().without(question.have)
    unwanted = _unwanted(history, question, lacking)
    lost = lacking.without(unwanted).common(history.absent())
    if lost:
        return Answer(given=lacking.without(unwanted).without(lost).flat(), lost=lost.flat(), more=True)
    has = question.have.copy()
    has.merge(unwanted)
    has.merge(given)
    # The asker would be given the same again and again, and what comes after them never.
    has.merge(history.excluded())
    cut = question.cut.copy()
    cut.merge(unwanted)
    answer = Answer([], [epoch for epoch in history.epochs() if epoch.id not in question.epochs], given.flat(), unwanted.flat())
    size = 0
    carried: dict[MemberId, Batch | Packed] = {}
    sizes = history.sizes()
    for chapter in history.chapters():
        for item in _outcomes(chapter, question, has, cut, sizes) if history.total else _lacking(chapter, has, sizes):
            if size >= chunk_bytes:
                answer.more = True
                return answer
            if item.batch is not None and carried.get(item.sender) is not item.batch:
                size += len(item.batch.wire) if isinstance(item.batch, Packed) else sum(map(len, item.batch.payloads))
                carried[item.sender] = item.batch
            size += ITEM_BYTES + len(item.sender)
            answer.items.append(item)
    return answer


def _unwanted(history: History, question: Question, lacking: Ledger) -> Ledger:
    """What the asker lacks and does not want."""
    wants, old, kept = question.wants, Ledger(), Ledger()
    if wants.kind not in ("none", "last", "since"):
        return old
    remaining, sizes = wants.count if wants.kind == "last" else 0, history.sizes()
    for chapter in reversed(list(history.chapters())):
        past = chapter.epoch.id < wants.before or not wants.before
        for batch, low, high in reversed(chapter.listed(history.total, sizes)):
            kept.add(batch.sender, low, high)
            last = high if past else 0
            if past and wants.kind == "last":
                last -= remaining
                remaining -= min(high - low + 1, remaining)
            elif wants.kind == "since" and batch.sent_at >= wants.since:
                last = 0
            if last >= low:
                old.add(batch.sender, low, last)
    # What is not kept is older than everything that is: it is not wanted either, if what is kept reaches back far enough.
    reaches_back = wants.kind != "since" or (old and history.forgotten_at < wants.since)
    if remaining == 0 and reaches_back and not history.forgot_since(wants.before):
        old.merge(history.absent().without(kept))
    return old.common(lacking)


def _lacking(chapter: Chapter, has: Ledger, sizes: dict[int, int]) -> Iterator[Placed]:
    """Of an epoch by time: what the asker has not."""
    for kept, low, high in chapter.listed(False, sizes):
        if not isinstance(kept, Stub):
            for first, last in has.missing(kept.sender, low, high):
                yield Placed(chapter.epoch.id, OPEN, 0, kept.sender, first, last, kept)


def _outcomes(chapter: Chapter, question: Question, has: Ledger, cut: Ledger, sizes: dict[int, int]) -> Iterator[Placed]:
    """Of an epoch in total order: every outcome from where the asker knows it, or from the first message that it keeps or will. Where
    outcomes cannot be told from their beginnings, the messages come before, by time."""
    if chapter.ragged:
        for item in _lacking(chapter, has, sizes):
            yield item
            has.add(item.sender, item.low, item.high)
    for following in chapter.ranked(sizes):
        outcome = chapter.outcomes[following]
        if following == OPEN:
            continue
        known = question.known_by_outcome.get((chapter.epoch.id, following), 0)
        # Where an epoch ended in several ways, a message counts where it is first: so the places before the asker's time matter, too.
        position, silent = outcome.forgotten, not known and len(chapter.outcomes) == 1
        for kept, low, high in outcome.pieces:
            if position + high - low + 1 <= known:
                position += high - low + 1
                continue
            for batch, start, end in _cut(chapter, kept, low, high, has):
                after = position + end - start + 1
                silent = silent and batch is None and not cut.missing(kept.sender, start, end)
                if after > known and not silent:
                    skip = max(known - position, 0)
                    yield Placed(chapter.epoch.id, following, position + skip, kept.sender, start + skip, end, batch)
                position = after


def _cut(chapter: Chapter, kept: Kept, low: int, high: int, has: Ledger) -> Iterator[tuple[Batch | Packed | None, int, int]]:
    """A piece as the asker should see it: with the batch where it lacks the message, bare where it has it."""
    for first, last in has.missing(kept.sender, low, high):
        if low < first:
            yield None, low, first - 1
        for batch, start, end in chapter.shelf().pieces(kept, first, last) if isinstance(kept, Stub) else [(kept, first, last)]:
            yield None if isinstance(batch, Stub) else batch, start, end
        low = last + 1
    if low <= high:
        yield None, low, high


def frames(answer: Answer, question: Question, group: GroupId, me: MemberId, view: int, frame_bytes: int) -> list[SyncAnswer]:
    """An answer as it travels."""
    space = room(frame_bytes, group, me, question.asker)
    parts = pack(_entries(answer, space), space)
    return [
        SyncAnswer(
            *(group, me, view, question.asker, question.number, index, len(parts)),
            *_lists(part),
            answer.more or index + 1 < len(parts),
        )
        for index, part in enumerate(parts)
    ]


_Entry: TypeAlias = Epoch | tuple[str, MemberId, list[int]] | tuple[Placed, bytes, bool]


def _entries(answer: Answer, space: int) -> Iterator[tuple[int, _Entry]]:
    """Everything an answer says, in small portions with their sizes."""
    # What is lost tells how the rest is to be read; what is skipped has places between those of the items, in total order.
    for word, holdings in (("lost", answer.lost), ("given", answer.given), ("skipped", answer.skipped)):
        for size, (sender, flat) in holdings_entries(holdings):
            yield size, (word, sender, flat)
    for epoch in answer.epochs:
        yield epoch_bytes(epoch), epoch
    carried: dict[MemberId, Batch | Packed] = {}
    for item in answer.items:
        size = ITEM_BYTES + len(item.sender.encode())
        if item.batch is None or carried.get(item.sender) is item.batch:
            yield size, (item, b"", False)
            continue
        carried[item.sender] = item.batch
        wire = item.batch.wire if isinstance(item.batch, Packed) else codec.encode(item.batch)
        length = max(space - size, _LEAST_BYTES)
        for at in range(0, len(wire), length):
            some = wire[at : at + length]
            yield size + len(some), (item, some, at + length < len(wire))


def _lists(
    part: list[_Entry],
) -> tuple[tuple[Item, ...], tuple[tuple[int, int, int], ...], tuple[Epoch, ...], Holdings, Holdings, Holdings]:
    """The entries of one part as the fields of its frame."""
    items: list[Item] = []
    places: list[tuple[int, int, int]] = []
    epochs: list[Epoch] = []
    holdings: dict[str, Holdings] = {"given": {}, "skipped": {}, "lost": {}}
    place = (0, 0, 0)
    for entry in part:
        if isinstance(entry, Epoch):
            epochs.append(entry)
        elif isinstance(entry[0], str):
            word, sender, flat = entry
            holdings[word].setdefault(sender, []).extend(flat)
        else:
            item, wire, goes_on = entry
            if not places or place != (item.epoch, item.following, item.position):
                places.append((item.epoch, item.following, item.position))
            items.append(Item(len(places) - 1, item.sender, item.low, item.high, wire, goes_on))
            # In total order the next item of the outcome follows this one, so it needs no place of its own.
            step = item.high - item.low + 1 if item.following and not goes_on else 0
            place = (item.epoch, item.following, item.position + step)
    return tuple(items), tuple(places), tuple(epochs), holdings["given"], holdings["skipped"], holdings["lost"]
