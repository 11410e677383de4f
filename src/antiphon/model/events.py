"""What an endpoint tells the application, in one list, because the relative order of these is the promise.

A delivery is the plain tuple `(batch, low, high)`: messages `low … high` of `batch`, any sub-range of it. Everything else is a
struct, so a reader asks `type(event) is tuple` first.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from antiphon.model.control import GroupInfo, Holdings
from antiphon.model.frames import Batch
from antiphon.model.ids import GroupId, MemberId, MessageId
from antiphon.model.view import View

Delivery: TypeAlias = tuple[Batch, int, int]


class Orphaned(Struct, frozen=True):
    """Message `seqno` of `batch` is delivered although the messages in `missing`, which it names, are lost for good."""

    batch: Batch
    seqno: int
    missing: tuple[MessageId, ...]


class Recovered(Struct, frozen=True):
    """Messages `low … high` of `batch` are delivered late: they were sent on another side of a partition, or before this member came.
    Everything that was delivered here meanwhile is concurrent to them or older. `missing`, in semantic order: the messages that the one
    message of the range names and that are lost for good, as in `Orphaned`."""

    batch: Batch
    low: int
    high: int
    missing: tuple[MessageId, ...] = ()


class Installed(Struct, frozen=True):
    """`view` is now the group; every delivery before this event belongs to `previous` (None: this is the member's first). More than one
    of `sides`, the members that come from one old view each, is a merge: the messages of the other sides follow."""

    view: View
    previous: View | None
    sides: tuple[tuple[MemberId, ...], ...] = ()


class ViewChange(Struct, frozen=True):
    """The group is `view` from here on. More than one of `sides` is a merge: each has the members that come from one old view."""

    view: View
    previous: View | None
    joined: tuple[MemberId, ...]
    left: tuple[MemberId, ...]
    sides: tuple[tuple[MemberId, ...], ...] = ()


class Writable(Struct, frozen=True):
    """A send that was refused would be accepted now."""


class Stabilised(Struct, frozen=True):
    """Every member has installed `view`, and caught up in it."""

    view: View


class MissedMessages(Struct, frozen=True):
    """Messages of the group that this member will not get: they were sent while it was elsewhere, and nobody keeps them any more. `lost`
    has flat ranges of numbers by sender. (A `Gap` is the same in a durable topic.)"""

    lost: Holdings


class Synchronised(Struct, frozen=True):
    """This member has caught up: what follows is of its view."""

    view: View


class NoMajority(Struct, frozen=True):
    """This side of a partition is stopped until it meets a majority again."""

    view: View


class StoreLost(Struct, frozen=True):
    """The store of the group or subscription does not answer, because of `why`: the view may be out of date, and nothing is read."""

    why: str


class StoreRestored(Struct, frozen=True):
    """The store answers again, after `away_s` seconds: what was published meanwhile follows."""

    away_s: float


class Departed(Struct, frozen=True):
    """This member is out of the group for good. `reason` is `left`, or why it could not come in or stay. Of the messages accepted from
    the application the last `unsaid` may have reached nobody."""

    reason: str
    unsaid: int = 0


class PrivateMessage(Struct, frozen=True):
    """A message to this member alone. `kind` is `say`, `ask` (answer with `question`) or `reply` (to the own `question`)."""

    sender: MemberId
    data: bytes
    kind: str = "say"
    question: int = 0


class Undelivered(Struct, frozen=True):
    """The receiver of an accepted private message is no longer in the view and had not acknowledged it (an `ask`: not replied to it).
    What was under way may still have reached it."""

    to: MemberId
    number: int
    kind: str = "say"
    question: int = 0


class StateWanted(Struct, frozen=True):
    """A newcomer asks for the application's state as it is at this point of the events: answer with `provide_state`."""

    snapshot: int


class StateUnavailable(Struct, frozen=True):
    """This member wanted the application's state, and no member of the group gives it one. `reason` says why, member by member."""

    reason: str


class StateArrived(Struct, frozen=True):
    """The application's state before everything that follows."""

    state: bytes


class Discovered(Struct, frozen=True):
    """A group this node had not heard of: join it, or reject it."""

    info: GroupInfo


class Located(Struct, frozen=True):
    """The group that this node was to join as `asked`, and did not know then, has been found, or founded: it is being joined."""

    asked: str


class JoinWaiting(Struct, frozen=True):
    """A join that was asked for as `asked` has not succeeded yet. `reason` says what it waits for."""

    asked: str
    reason: str


class NameTaken(Struct, frozen=True):
    """Another group, `other`, has the name of a group that this node is in."""

    other: GroupId


class Vanished(Struct, frozen=True):
    """A group that this node had heard of has ended; `info` is what was known of it."""

    group: GroupId
    info: GroupInfo


class NameServerAnswer(Struct, frozen=True):
    """What came of asking a node for the groups it knows: them, its refusal, or (with a `reason`) no whole answer in time."""

    question: int
    groups: tuple[GroupInfo, ...]
    refused: bool = False
    reason: str = ""


class GuestRefused(Struct, frozen=True):
    """An outsider's messages after `taken` will not be taken by the open group. `why` says what to do."""

    group: GroupId
    taken: int
    why: str


Event: TypeAlias = (
    Delivery | Orphaned | Recovered | Installed | Writable | Stabilised | MissedMessages | Synchronised | NoMajority | Departed
    | PrivateMessage | Undelivered | StateWanted | StateArrived | StateUnavailable | Discovered
    | Located | JoinWaiting | NameTaken | Vanished | NameServerAnswer | GuestRefused
)  # fmt: skip


class Why(Struct, frozen=True):
    """Why a message is where it is. `state` is one of `delivered`, `held` (here, and waiting for `waits_for`), `missing` (known
    to exist, not here), `unknown` (never heard of). `reason` is a sentence for people."""

    state: str
    reason: str
    waits_for: tuple[MessageId, ...] = ()
