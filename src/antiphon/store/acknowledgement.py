"""What a publish returns. How much it promises is its type, so that nobody takes a weaker promise for a stronger one by mistake.

    match await topic.publish(value):
        case Published(seq=seq): ...     # on disk and synced: a loss of power does not lose it
        case Accepted(seq=seq): ...      # the store has it, and does not say that it is synced
        case Queued(): ...               # in this node's outbox, on this node's disk and synced; the store does not have it yet
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct


class Published(Struct, frozen=True):
    """The values have the numbers `first … last`, and survive a loss of power. In a shared topic values of others may lie between."""

    first: int
    last: int

    @property
    def seq(self) -> int:
        """The number of the value, or of the last one."""
        return self.last


class Accepted(Struct, frozen=True):
    """The values have the numbers `first … last`, and may be lost with the power: because `durability="relaxed"` was chosen, or because
    the store is not known to sync what it acknowledges."""

    first: int
    last: int

    @property
    def seq(self) -> int:
        """The number of the value, or of the last one."""
        return self.last


class Queued(Struct, frozen=True):
    """The store does not answer; the values lie synced in the outbox of this node, and go to the store in order when it answers. They
    have no numbers yet. `number` is that of the last one in the outbox."""

    number: int


Acknowledgement: TypeAlias = Published | Accepted | Queued
