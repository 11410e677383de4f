"""What a store has done since it was opened, counted."""

from __future__ import annotations

from msgspec import Struct


class Tally(Struct):
    published: int = 0
    """Values that the store has acknowledged."""
    batches: int = 0
    """Publishes they took."""
    queued: int = 0
    """Values that went to the outbox instead."""
    read: int = 0
    """Values that were delivered to a reader here."""
    done: int = 0
    """Updates of subscribers that the store has acknowledged: several calls of `done` may share one."""
    gaps: int = 0
    """Gaps that were delivered."""
    expired: int = 0
    """Values that were not delivered because they were older than the lease."""
    unreachable: int = 0
    """Attempts that the store did not answer."""
    retries: int = 0
    """Those of them that were made again."""
    fenced: int = 0
    """Publishers and subscriptions here that others came in the place of."""
