"""What an endpoint tells the application, in one list, because the relative order of these is the promise.

A delivery is the plain tuple `(batch, low, high)`: messages `low … high` of `batch`, any sub-range of it. Everything else is a
struct, so a reader asks `type(event) is tuple` first.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from antiphon.model.frames import Batch
from antiphon.model.ids import MessageId
from antiphon.model.view import View

Delivery: TypeAlias = tuple[Batch, int, int]


class Orphaned(Struct, frozen=True):
    """Message `seqno` of `batch` is delivered although the messages in `missing`, which it names, are lost for good."""

    batch: Batch
    seqno: int
    missing: tuple[MessageId, ...]


class Installed(Struct, frozen=True):
    """`view` is now the group; every delivery before this event belongs to `previous`."""

    view: View
    previous: View


class Writable(Struct, frozen=True):
    """A send that was refused would be accepted now."""


Event: TypeAlias = Delivery | Orphaned | Installed | Writable


class Why(Struct, frozen=True):
    """Why a message is where it is. `state` is one of `delivered`, `held` (here, and waiting for `waits_for`), `missing` (known
    to exist, not here), `unknown` (never heard of). `reason` is a sentence for people."""

    state: str
    reason: str
    waits_for: tuple[MessageId, ...] = ()
