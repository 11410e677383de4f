"""What is chosen when a group is created, and what each member chooses for itself.

`GroupOptions` travel with the group and are the same at every member. `Settings` are a member's own: intervals, and the bound
of everything that is kept. Every bound is in messages or bytes, every interval in seconds.
"""

from __future__ import annotations

from msgspec import Struct, structs

from antiphon.errors import InvalidOption
from antiphon.model.frames import BATCH_LIMIT, FRAME_LIMIT, MESSAGE_LIMIT, PARTS_LIMIT

FOUNDERS_LIMIT = 256
"""The most founders that a group can wait for."""


class GroupOptions(Struct, frozen=True, kw_only=True):
    """The group's contract. `delivery` says when a message is delivered: in its order (`agreed`), or also not before a majority of the view
    holds it (`safe`). `window` bounds what a sender may have on its way that some member does not hold yet. `partitions` says
    which side of a split goes on (`continue`: every side; `majority`: only one). `open` lets outsiders send. `slow` says what becomes
    of a member that holds the others up: they wait (`block`), or it is put out of the view after `slow_s` (`evict`). With
    `history_in="store"` members archive what they deliver in the store that all of them have, and newcomers read it there. `expect` is
    the number of founders of a group with `partitions="majority"`, or a list of their names: `join(create=True)` founds the group only
    when all of them take part."""

    order: str = "fifo"
    multicast: str = "reliable"
    delivery: str = "agreed"
    fanout: int = 2
    window: int = 8_192
    partitions: str = "continue"
    open: bool = False
    slow: str = "block"
    slow_s: float = 10.0
    history_in: str = ""
    expect: int | tuple[str, ...] = 0

    @property
    def founders(self) -> int:
        """How many nodes found the group together; 0 if one node founds it."""
        return self.expect if isinstance(self.expect, int) else len(self.expect)

    def may_found(self, node: str) -> bool:
        """Whether the node of this name is one of the founders."""
        return isinstance(self.expect, int) or node in self.expect

    def __post_init__(self) -> None:
        if self.expect != 0:
            self._check_expect()
        if self.delivery not in ("agreed", "safe"):
            raise InvalidOption("delivery", self.delivery, "choose 'agreed' or 'safe'")
        if self.partitions not in ("continue", "majority"):
            raise InvalidOption("partitions", self.partitions, "choose 'continue' or 'majority'")
        if self.slow not in ("block", "evict"):
            raise InvalidOption("slow", self.slow, "choose 'block' or 'evict'")
        if self.history_in not in ("", "store"):
            raise InvalidOption("history_in", self.history_in, "choose 'store', or leave it out to keep history in the members' memory")
        if not 0 < self.slow_s < float("inf"):
            raise InvalidOption("slow_s", self.slow_s, "give a number of seconds above 0")
        if self.fanout < 1:
            raise InvalidOption("fanout", self.fanout, "a tree needs at least one child per member")
        if self.window < 1:
            raise InvalidOption("window", self.window, "a sender needs room for at least one message")

    def _check_expect(self) -> None:
        expect: object = self.expect
        if isinstance(expect, str) or not isinstance(expect, int | list | tuple) or isinstance(expect, bool):
            raise InvalidOption("expect", expect, 'give the number of founders, or a list of their names, as in ["a", "b", "c"]')
        if not isinstance(expect, int):
            if not all(isinstance(name, str) and name for name in expect) or len(set(expect)) != len(expect):
                raise InvalidOption("expect", expect, "give the name of each founder once")
            structs.force_setattr(self, "expect", tuple(sorted(expect)))
        if not 1 <= self.founders <= FOUNDERS_LIMIT:
            raise InvalidOption("expect", expect, f"give 1 to {FOUNDERS_LIMIT} founders")
        if self.partitions != "majority":
            raise InvalidOption("expect", expect, "only a group with partitions='majority' waits for its founders: leave it out")


class Settings(Struct, frozen=True, kw_only=True):
    """A member's own bounds and intervals; the defaults suit a local network."""

    frame_bytes: int = 60_000
    """A batch is closed before its frame exceeds this; a larger message is fragmented."""
    batch_messages: int = 2_048
    """A batch is closed when it holds this many messages."""
    message_bytes: int = 20 << 20
    """The largest payload that `submit` takes."""
    window_bytes: int = 32 << 20
    """Own unstable bytes at which sending is refused. What is below it may send one message more, of any size."""
    reassembly_bytes: int = 32 << 20
    """Bytes of half-arrived messages kept per sender; above it the latest is abandoned and asked for again. One is always kept."""
    waiting_messages: int = 131_072
    """Messages a hold-back store keeps per group; above it what would have to wait is not accepted, which slows its sender."""

    inbox_messages: int = 131_072
    """Messages delivered and not yet taken by the application; above it, or above `inbox_bytes`, the reader counts as paused."""
    inbox_bytes: int = 32 << 20

    digest_s: float = 0.025
    """How soon after news a digest is sent; while nothing changes the interval doubles up to `heartbeat_s`."""
    heartbeat_s: float = 1.0
    nack_s: float = 0.02
    """How long a gap may last before it is asked for. Longer, up to a quarter of `nack_max_s`, where messages of its sender come late; half
    as long where they are lost and hardly ever late. Doubled with every attempt without an answer, up to `nack_max_s`."""
    nack_max_s: float = 2.0
    repair_s: float = 0.02
    """Over how long the answers of members that are not the sender are spread."""
    repair_frames: int = 128
    """Frames sent in answer to one request; what is left is asked for again."""
    parent_s: float = 1.0
    """How long a message may wait for a parent, once to twice, before the parent is asked for (`besteffort`: is given up as lost)."""

    suspect_s: float = 2.5
    """Silence after which a member is asked whether it lives; with `probe_s` and `probes` this is the time in which a crash is seen."""
    probe_s: float = 0.5
    """How long an answer to that may take."""
    probes: int = 3
    """How often it is asked, directly and through others, before it is taken for dead."""
    gather_s: float = 0.05
    """How long a change waits for others that could be made with it."""
    change_s: float = 3.0
    """How long a change waits for a participant that does not answer before it goes on without it."""
    settle_s: float = 2.0
    """How long a join waits for a view that is not stable yet."""
    join_s: float = 30.0
    """How long a join looks for a group and asks to be let in before it fails."""
    retry_s: float = 0.25
    """After how long an answer that did not come is asked for again."""
    seek_s: float = 0.5
    """How often a side looks for former members, and a node advertises, at first; the interval grows to `seek_max_s` and never ends."""
    seek_max_s: float = 30.0
    answer_s: float = 0.1
    """Over how long the answers of many to one question are spread."""
    question_s: float = 3.0
    """How long a node that is asked as a name server may take to answer."""
    chunk_bytes: int = 256 << 10
    """Bytes in one answer to a synchronisation request."""
    history_messages: int = 65_536
    """Messages kept for those who come later or come back; older ones are forgotten first."""
    history_bytes: int = 64 << 20
    retention: str = "messages"
    """What is kept of them: `messages`, or `ids` where memory is short."""
    state_bytes: int = 256 << 20
    """The largest application state that is given or taken."""
    private_messages: int = 1_024
    """Messages to one member that may be under way."""

    def __post_init__(self) -> None:
        if self.retention not in ("messages", "ids"):
            raise InvalidOption("retention", self.retention, "choose 'messages' or 'ids'")
        for name in self.__struct_fields__:
            if name != "retention" and getattr(self, name) <= 0:
                raise InvalidOption(name, getattr(self, name), "must be above zero")
        if not 256 <= self.frame_bytes <= FRAME_LIMIT:
            raise InvalidOption(
                "frame_bytes", self.frame_bytes, f"choose between 256, which a header needs, and {FRAME_LIMIT:,}, which receivers take"
            )
        if self.batch_messages > BATCH_LIMIT:
            raise InvalidOption("batch_messages", self.batch_messages, f"receivers take at most {BATCH_LIMIT:,} messages in a batch")
        if self.message_bytes > min(MESSAGE_LIMIT - FRAME_LIMIT, (self.frame_bytes // 2) * PARTS_LIMIT):
            raise InvalidOption(
                "message_bytes", self.message_bytes, f"receivers take at most {MESSAGE_LIMIT:,} bytes in {PARTS_LIMIT:,} frames"
            )
        if self.heartbeat_s < self.digest_s:
            raise InvalidOption("heartbeat_s", self.heartbeat_s, f"must not be below digest_s={self.digest_s}")
        if self.nack_max_s < self.nack_s:
            raise InvalidOption("nack_max_s", self.nack_max_s, f"must not be below nack_s={self.nack_s}")
