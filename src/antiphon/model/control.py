"""What travels beside the data: finding groups, agreeing on views, catching up, and speaking to one.

Like the data frames these are MessagePack arrays whose first element is the tag. All of them may be lost, doubled and overtaken: whoever
needs an answer asks again. Ranges of message numbers are written flat, `[low, high, low, high, …]`, sorted and disjoint.

| frame             | tag | says                                                                                      |
|-------------------|-----|-------------------------------------------------------------------------------------------|
| Advertise         | 6   | a node has come, or is still there: tell it, and everyone, which groups there are         |
| Groups            | 7   | the groups that a node is in (or, asked as a name server, knows)                          |
| AskGroups         | 8   | a question to one node as a name server                                                   |
| Ended             | 9   | the last member has left a group                                                          |
| Join              | 10  | somebody wants to be in the next view                                                     |
| Leave             | 11  | a member wants to be out of the next view                                                 |
| Suspect           | 12  | a member no longer hears others, or is held up by them                                    |
| Propose           | 13  | a coordinator begins a change                                                             |
| State             | 14  | a participant has stopped, and what it holds of its old view                              |
| Target            | 15  | what everyone of one old view must hold before the new one begins                         |
| Flushed           | 16  | a participant holds all of it                                                             |
| Prepare           | 39  | the new view, to be stored (under the `majority` policy)                                  |
| Prepared          | 40  | it is                                                                                     |
| Install           | 17  | the new view                                                                              |
| Acknowledge       | 18  | a member has installed it, and perhaps caught up                                          |
| Stable            | 19  | every member has, both                                                                    |
| Refuse            | 20  | no, and why                                                                               |
| Beacon            | 21  | one side of a group looks for others                                                      |
| Gone              | 22  | there is no such member here (any more)                                                   |
| Beat              | 23  | a member lives, where nothing else says so                                                |
| Ping              | 24  | do you hear me?                                                                           |
| Pong              | 25  | yes                                                                                       |
| Enquire           | 26  | do you hear that one?                                                                     |
| Vouch             | 27  | I hear it                                                                                 |
| Detour            | 37  | I do not hear you: send to me through that one                                            |
| Relay             | 28  | a frame on its way through a third node                                                   |
| SyncRequest       | 29  | what a member has, and what it wants of the rest                                          |
| SyncAnswer        | 30  | some of what it lacks                                                                     |
| AskState          | 31  | the next pieces of the application's state, please                                        |
| StatePiece        | 32  | one piece                                                                                 |
| Private           | 33  | a message to one member                                                                   |
| Received          | 34  | up to which number one member's private messages have come                                |
| Guest             | 35  | messages to an open group from outside                                                    |
| Taken             | 36  | up to which number they have been taken                                                   |
| FoundingCandidate | 44  | a node is ready to found a group together with the other founders                         |
| SyncAgain         | 38  | parts of an answer that did not arrive                                                    |
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from antiphon.model.frames import Number, Seqno
from antiphon.model.ids import Address, GroupId, MemberId
from antiphon.model.options import GroupOptions
from antiphon.model.view import MEMBER_LIMIT

Seat: TypeAlias = tuple[MemberId, Address]
Seats: TypeAlias = Annotated[tuple[Seat, ...], Meta(max_length=MEMBER_LIMIT)]
Holdings: TypeAlias = dict[MemberId, list[Number]]
"""Which numbers of each sender, as flat ranges."""

DESCRIPTION_LIMIT = 256
"""Characters in what a group says of itself."""
GROUPS_LIMIT = 1_024
"""The most groups in one frame."""
PROMISES_LIMIT = 64
"""The most promises that a group may name."""
PROMISE_NAME_LIMIT = 64
"""Characters in the name of a promise."""
PromiseName: TypeAlias = Annotated[str, Meta(max_length=PROMISE_NAME_LIMIT)]
GUEST_LIMIT = 1_024
"""The most messages of an outsider in one frame."""
Tone: TypeAlias = Literal["say", "ask", "reply"]
"""What a private message is."""


class Wants(Struct, array_like=True, frozen=True):
    """What a newcomer wants of what was sent before it came: `all`, `none`, the last `count` messages (`last`), what was sent at or
    after `since` (`since`), or the application's state instead of messages (`state`). `before` is the first view it was in: of that and
    later ones it wants everything (0: it has not been in any)."""

    kind: str = "all"
    count: Number = 0
    since: float = 0.0
    before: Number = 0


# -- finding groups --------------------------------------------------------------------------------------------------------------


class Advertise(Struct, array_like=True, tag=6, frozen=True):
    """`known` has the CRC-32 of the id of each group that the sender knows or has rejected: the others are wanted. None: all are."""

    node: MemberId
    known: Annotated[tuple[Number, ...], Meta(max_length=GROUPS_LIMIT)] | None = None


class GroupInfo(Struct, array_like=True, frozen=True):
    """What outsiders are told of a group: a hint, never the truth about membership. `view` is the newest view id of the teller. What
    is too large for a frame is told in parts, each with some of the members; parts with the same `view` add up."""

    id: GroupId
    description: Annotated[str, Meta(max_length=DESCRIPTION_LIMIT)]
    options: GroupOptions
    view: Number
    members: Seats
    left: Annotated[tuple[MemberId, ...], Meta(max_length=MEMBER_LIMIT)] = ()
    promises: Annotated[tuple[PromiseName, ...], Meta(max_length=PROMISES_LIMIT)] = ()
    """Names of what the group promises; empty from a node of an older version."""


class Groups(Struct, array_like=True, tag=7, frozen=True):
    """`refused` is set by a node that does not want to be a name server; `question` repeats the number of an AskGroups, else 0. This is
    frame `index` of `count` of the list."""

    node: MemberId
    groups: Annotated[tuple[GroupInfo, ...], Meta(max_length=GROUPS_LIMIT)]
    question: Number = 0
    refused: bool = False
    index: Number = 0
    count: Seqno = 1


class AskGroups(Struct, array_like=True, tag=8, frozen=True):
    node: MemberId
    question: Seqno


class Ended(Struct, array_like=True, tag=9, frozen=True):
    """`view` is the id of the group's last view: what is told of it with a higher one is of a side that goes on."""

    group: GroupId
    view: Number


# -- agreeing on views -----------------------------------------------------------------------------------------------------------


class Join(Struct, array_like=True, tag=10, frozen=True):
    group: GroupId
    member: MemberId
    address: Address
    options: GroupOptions


class FoundingCandidate(Struct, array_like=True, tag=44, frozen=True):
    """The sender is in no view of the group and is one of the founders that `options.expect` describes."""

    group: GroupId
    member: MemberId
    address: Address
    options: GroupOptions


class Leave(Struct, array_like=True, tag=11, frozen=True):
    group: GroupId
    member: MemberId


class Suspect(Struct, array_like=True, tag=12, frozen=True):
    """`whom` is not heard, or too slow; empty: the sender is frozen, and needs a view."""

    group: GroupId
    member: MemberId
    view: Number
    whom: Annotated[tuple[MemberId, ...], Meta(max_length=MEMBER_LIMIT)]
    slow: bool = False


class Propose(Struct, array_like=True, tag=13, frozen=True):
    """`ballot` is the id that the new view will have; of several proposals the higher counts. `view` is the coordinator's own view, and
    `latest` its Install, for those who miss only that; empty when nobody can."""

    group: GroupId
    member: MemberId
    ballot: Number
    view: Number
    seats: Seats
    leaving: Seats = ()
    latest: bytes = b""


class State(Struct, array_like=True, tag=14, frozen=True):
    """`have` holds per stream of the old view, data by rank and then records by rank, the position without a gap followed by the flat
    ranges above it. `sent` is the member's last number, `delivered` how far it has delivered its own. A member that is still catching
    up (`synchronised` is False) has delivered nothing of that view. `stable` holds the views that
    a majority is counted over: the last one known to be stable, and those installed since; empty when that is the coordinator's own
    view alone. `check` tells apart those who are catching up and have got differently far. `prepared` is the Install that
    the member has stored and not carried out."""

    group: GroupId
    member: MemberId
    ballot: Number
    view: Number
    have: list[list[Number]]
    sent: Number
    delivered: Number
    synchronised: bool = True
    stable: tuple[tuple[Number, tuple[MemberId, ...]], ...] = ()
    absent: Seats = ()
    latest: bytes = b""
    check: Number = 0
    prepared: bytes = b""


class Target(Struct, array_like=True, tag=15, frozen=True):
    """For the participants of one old view: the union of what they hold, in the form of `State.have`."""

    group: GroupId
    member: MemberId
    ballot: Number
    view: Number
    have: list[list[Number]]
    holders: Annotated[tuple[MemberId, ...], Meta(max_length=MEMBER_LIMIT)]


class Flushed(Struct, array_like=True, tag=16, frozen=True):
    group: GroupId
    member: MemberId
    ballot: Number


class Prepare(Struct, array_like=True, tag=39, frozen=True):
    """Under the `majority` policy: an Install to be stored. It is carried out when every participant has it."""

    group: GroupId
    member: MemberId
    ballot: Number
    install: bytes


class Prepared(Struct, array_like=True, tag=40, frozen=True):
    group: GroupId
    member: MemberId
    ballot: Number


class Side(Struct, array_like=True, frozen=True):
    """Those who come from one old view (0: from none, newcomers) with the same messages. `ends` is False where nothing more of the old
    view is delivered: its member was still catching up, or a group with the `majority` policy had stopped it."""

    view: Number
    members: Annotated[tuple[MemberId, ...], Meta(max_length=MEMBER_LIMIT)]
    ends: bool = True


class Install(Struct, array_like=True, tag=17, frozen=True):
    """`starts` says, per member of the view, after which of its numbers the view begins. `absent` are former members that may be on
    another side. `makers` are those whose coming or going is the change. `origin` tells apart the lines of views of a group that was
    founded more than once; the later founding has the larger one."""

    group: GroupId
    member: MemberId
    view: Number
    seats: Seats
    starts: list[Number]
    sides: tuple[Side, ...]
    options: GroupOptions
    makers: Annotated[tuple[MemberId, ...], Meta(max_length=MEMBER_LIMIT)] = ()
    absent: Seats = ()
    left: Annotated[tuple[MemberId, ...], Meta(max_length=MEMBER_LIMIT)] = ()
    description: str = ""
    origin: Number = 0


class Acknowledge(Struct, array_like=True, tag=18, frozen=True):
    """`synchronised` says that the member has caught up as well."""

    group: GroupId
    member: MemberId
    view: Number
    synchronised: bool = True


class Stable(Struct, array_like=True, tag=19, frozen=True):
    group: GroupId
    member: MemberId
    view: Number


class Refuse(Struct, array_like=True, tag=20, frozen=True):
    """`highest` is the highest ballot the refuser knows of; `why` is one of `ballot`, `quorum` (then `here` of `of` members are on this
    side), `full`, `unknown`, `options`."""

    group: GroupId
    member: MemberId
    ballot: Number
    highest: Number
    why: str
    here: Number = 0
    of: Number = 0


class Beacon(Struct, array_like=True, tag=21, frozen=True):
    """`seats` are the members of the side that its coordinator can reach; `looking` asks for a beacon in return. One that goes to everyone
    is not `whole`: it has the coordinator's seat alone, and who is of another side answers with its own. `origin` is that of its view's
    Install. `quorum` says whether the side may go on."""

    group: GroupId
    member: MemberId
    view: Number
    seats: Seats
    options: GroupOptions
    looking: bool = True
    whole: bool = True
    origin: Number = 0
    quorum: bool = True


class Gone(Struct, array_like=True, tag=22, frozen=True):
    group: GroupId
    members: Annotated[tuple[MemberId, ...], Meta(max_length=MEMBER_LIMIT)]


# -- who hears whom --------------------------------------------------------------------------------------------------------------


class Beat(Struct, array_like=True, tag=23, frozen=True):
    group: GroupId
    member: MemberId
    view: Number


class Ping(Struct, array_like=True, tag=24, frozen=True):
    """Is `member` there, and in that view? `probe` is repeated in the Pong. `asker` is the node on whose behalf it is sent, empty for
    the sender itself."""

    probe: Number
    group: GroupId
    member: MemberId
    view: Number
    asker: Address = Address("")


class Pong(Struct, array_like=True, tag=25, frozen=True):
    """`here` says whether the member is at this node, and in that view."""

    probe: Number
    group: GroupId
    member: MemberId
    here: bool
    asker: Address = Address("")


class Enquire(Struct, array_like=True, tag=26, frozen=True):
    probe: Number
    group: GroupId
    member: MemberId
    view: Number
    whom: Address


class Vouch(Struct, array_like=True, tag=27, frozen=True):
    """The sender hears the member that the receiver had asked about, which is at `whom`."""

    probe: Number
    group: GroupId
    member: MemberId
    whom: Address
    here: bool


class Detour(Struct, array_like=True, tag=37, frozen=True):
    """The sender does not hear the receiver: it should send through `through` (empty: directly again)."""

    through: Address


class Relay(Struct, array_like=True, tag=28, frozen=True):
    origin: Address
    to: Address
    hops: Annotated[int, Meta(ge=0, le=8)]
    wire: bytes


# -- catching up -----------------------------------------------------------------------------------------------------------------


class Epoch(Struct, array_like=True, frozen=True):
    """A view as history sees it: its id, how many members it had, and the views it grew from."""

    id: Number
    size: Number
    parents: tuple[Number, ...] = ()


class Item(Struct, array_like=True, frozen=True, gc=False):
    """Messages `low … high` of the batch in `wire`. Without a wire only their place: the asker has them, or an earlier item of the answer
    carried their batch. A wire too long for one frame `goes_on` in the next part. `place` is an index into the part's places."""

    place: Number
    sender: MemberId
    low: Seqno
    high: Seqno
    wire: bytes = b""
    goes_on: bool = False


class SyncRequest(Struct, array_like=True, tag=29, frozen=True):
    """Part `index` of `count` of a request. `number` grows with every request of a member, so late and overtaken ones are recognised;
    the last `attempt` ones before this said the same, so their parts and its own can be put together.
    `sides` are those who are asked, as indexes into the sides of the view. `epochs` are the views that the asker knows. In total order
    `outcomes` are the ends of them that it knows (epoch, next view, how many messages), and `cut` is what of `have` it does not keep."""

    group: GroupId
    member: MemberId
    view: Number
    number: Seqno
    index: Number
    count: Seqno
    sides: Annotated[tuple[Number, ...], Meta(max_length=MEMBER_LIMIT)]
    wants: Wants
    have: Holdings = {}
    epochs: tuple[Number, ...] = ()
    outcomes: tuple[tuple[Number, Number, Number], ...] = ()
    cut: Holdings = {}
    attempt: Number = 0


class SyncAnswer(Struct, array_like=True, tag=30, frozen=True):
    """Part `index` of `count` of an answer to request `number` of `asker`. The items of all parts are in the canonical order; `places` says
    (epoch, next view, position of the first item) for those of this part. `epochs` are views that the asker does not know. `given` is what
    other answers to the request carried: the items follow it. `skipped` are messages that the asker does not want. `lost` are those that
    are no longer kept here; an answer that must say so has no items, and its `given` is what could be given of the rest. `more`: there is
    more to ask for."""

    group: GroupId
    member: MemberId
    view: Number
    asker: MemberId
    number: Seqno
    index: Number
    count: Seqno
    items: tuple[Item, ...] = ()
    places: tuple[tuple[Number, Number, Number], ...] = ()
    epochs: tuple[Epoch, ...] = ()
    given: Holdings = {}
    skipped: Holdings = {}
    lost: Holdings = {}
    more: bool = False


class SyncAgain(Struct, array_like=True, tag=38, frozen=True):
    """To the member that answered request `number` of `asker`: these parts of the answer did not arrive."""

    group: GroupId
    member: MemberId
    view: Number
    asker: MemberId
    number: Seqno
    missing: Annotated[tuple[Number, ...], Meta(max_length=1024)]


class AskState(Struct, array_like=True, tag=31, frozen=True):
    """These pieces of the snapshot `snapshot` (0: take a new one). `number` is the asker's own, new with every snapshot it asks for."""

    group: GroupId
    member: MemberId
    view: Number
    number: Seqno
    snapshot: Number
    pieces: Annotated[tuple[Number, ...], Meta(max_length=1024)] = ()


class StatePiece(Struct, array_like=True, tag=32, frozen=True):
    """Piece `index` of `count`. The first `head` pieces say, encoded, what the provider had when the snapshot was taken, the
    others the state. `count` 0: this member gives no state (`index` 0), or not yet (`index` 1); then `piece` says why."""

    group: GroupId
    member: MemberId
    view: Number
    number: Seqno
    snapshot: Number
    index: Number
    count: Number
    head: Number
    piece: bytes


# -- to one, and from outside ----------------------------------------------------------------------------------------------------


class Private(Struct, array_like=True, tag=33, frozen=True):
    """Number `number` from `member` to `to` alone. It comes after the sender's group messages up to `after`, as they were numbered in
    `view`. `question` is the number of the asker's question, in an ask and in its reply. A message that is too large for a frame goes on
    (`more`) with the next number; its own number is that of its last frame. Numbers below `floor` will not come any more."""

    group: GroupId
    member: MemberId
    to: MemberId
    view: Number
    number: Seqno
    after: Number
    data: bytes
    kind: Tone = "say"
    question: Number = 0
    floor: Seqno = 1
    more: bool = False


class Received(Struct, array_like=True, tag=34, frozen=True):
    """`member` has delivered the private messages of `to` up to `number`."""

    group: GroupId
    member: MemberId
    to: MemberId
    number: Number


class Guest(Struct, array_like=True, tag=35, frozen=True):
    """Messages `first …` of the outsider `member`; everything before `first` has been taken, by this or another member."""

    group: GroupId
    member: MemberId
    first: Seqno
    payloads: Annotated[tuple[bytes, ...], Meta(min_length=1, max_length=GUEST_LIMIT)]


class Taken(Struct, array_like=True, tag=36, frozen=True):
    """To the outsider `member`: its messages up to `number` have been taken. `refused` is empty; or `closed` (only members send here),
    `too large` (the next message is), or `gone` (there is no member of the group here any more: try another)."""

    group: GroupId
    member: MemberId
    number: Number
    refused: str = ""


Control: TypeAlias = (
    Advertise | Groups | AskGroups | Ended | Join | Leave | Suspect | Propose | State | Target | Flushed | Prepare | Prepared
    | Install | Acknowledge | Stable | Refuse | Beacon | Gone | Beat | Ping | Pong | Enquire | Vouch | Detour | Relay | SyncRequest
    | SyncAnswer | SyncAgain | AskState | StatePiece | Private | Received | Guest | Taken | FoundingCandidate
)  # fmt: skip

CONTROL_KINDS: dict[int, str] = {
    6: "advertise", 7: "groups", 8: "ask-groups", 9: "ended", 10: "join", 11: "leave", 12: "suspect", 13: "propose", 14: "state",
    15: "target", 16: "flushed", 17: "install", 18: "acknowledge", 19: "stable", 20: "refuse", 21: "beacon", 22: "gone", 23: "beat",
    24: "ping", 25: "pong", 26: "enquire", 27: "vouch", 28: "relay", 29: "sync-request", 30: "sync-answer", 31: "ask-state",
    32: "state-piece", 33: "private", 34: "received", 35: "guest", 36: "taken", 37: "detour", 38: "sync-again",
    39: "prepare", 40: "prepared", 44: "candidate",
}  # fmt: skip
"""The word for each tag, as metrics, rules and scenarios spell it."""
