"""What the protocols tell whoever records what happened: contracts only, so that the protocols know of no trace.

A node without a recorder pays one look at None per turn and per call of the application. With one, each of its memberships has a
`Transcript`: it is told what the application sends, what reaches the ordering, and, once per turn, what the application is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

from antiphon.model.control import Holdings, Wants
from antiphon.model.events import Event
from antiphon.model.frames import Batch
from antiphon.model.ids import GroupId, MemberId, MessageId
from antiphon.model.options import GroupOptions

Waiting: TypeAlias = tuple[int, int, tuple[MessageId, ...]]
"""Messages `low … high` of a sender that wait, and what for."""
Waits: TypeAlias = Callable[[Batch, int, int], Iterable[Waiting]]


class Recorder(Protocol):
    """Records one node, or one member that runs alone."""

    def begin(self, writer: str) -> None:
        """Recording begins, if it has not; the writer's name is nobody else's."""
        ...

    def transcript(
        self, group: GroupId, member: MemberId, options: GroupOptions, wants: Wants | None, promises: tuple[str, ...]
    ) -> Transcript:
        """Return a transcript for one membership. `wants` is None for a founder of the group; `promises` are the group's promises by
        name."""
        ...

    def store(self) -> StoreTranscript:
        """Takes down what happens at the node's store."""
        ...


class Transcript(Protocol):
    """Takes down one membership, in the order in which it is told. Nothing it does can fail or wait."""

    def sent(
        self,
        now: float,
        view: int,
        first: int,
        payloads: Sequence[bytes],
        count: int,
        size: int,
        names: Sequence[MessageId] = (),
        note: str | None = None,
    ) -> None:
        """The application's messages from number `first` on were accepted, the first `count` of `payloads`, `size` bytes in all. The first
        of them names `names`. The `note` is `guest` for an outsider's, and `after` for one that answers none of those it names."""
        ...

    def received(self, batch: Batch, low: int, high: int) -> None:
        """Messages reached the ordering, own ones too."""
        ...

    def begins(self, cut: Mapping[MemberId, int]) -> None:
        """The next view that is told begins after these numbers."""
        ...

    def adopted(self, have: Holdings) -> None:
        """The next state that is told stands for these messages."""
        ...

    def end_turn(self, now: float, latest: float, events: Sequence[Event], waits: Waits | None) -> None:
        """The application is told `events`. `latest` is the latest time of sending that is known here; `waits`, where anything waits,
        says what of a received range does."""
        ...

    def sample(
        self,
        view: int,
        stable: Mapping[MemberId, int],
        places: int,
        drops: Mapping[str, int],
        repairs: Mapping[str, int],
        queues: Mapping[str, int],
    ) -> None:
        """How things stand in `view`. `stable`: up to where every member has each sender's messages; `places`: how many places of a total
        order every member knows in this view; `drops` and `repairs` count since the membership began; `queues` are lengths."""
        ...


class StoreTranscript(Protocol):
    """Takes down what happens at a store of durable topics, in the order in which it is told."""

    def published(self, topic: str, publisher: str, first: int, last: int, number: int, payloads: Sequence[bytes]) -> None:
        """The store has values `first … last` of a topic; the first has the publisher's own `number`."""
        ...

    def read(self, topic: str, subscriber: str, epoch: int, ranges: Iterable[tuple[int, int, str | None]]) -> None:
        """A subscriber was given these values, or (with a note) told what became of them."""
        ...

    def done(self, topic: str, subscriber: str, epoch: int, position: int, note: str | None) -> None:
        """The store has it that a subscriber is done up to `position`."""
        ...

    def collected(self, topic: str, floor: int, removed: int) -> None:
        """What lies up to the floor is gone."""
        ...

    def erased(self, topic: str, publisher: str, numbers: Sequence[int]) -> None:
        """A publisher has taken these values back."""
        ...
