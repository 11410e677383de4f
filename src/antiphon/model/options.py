"""What is chosen when a group is created, and what each member chooses for itself.

`GroupOptions` travel with the group and are the same at every member. `Settings` are a member's own: intervals, and the bound
of everything that is kept. Every bound is in messages or bytes, every interval in seconds.
"""

from __future__ import annotations

from msgspec import Struct

from antiphon.errors import InvalidOption
from antiphon.model.codec import FRAME_LIMIT, MESSAGE_LIMIT
from antiphon.model.frames import BATCH_LIMIT


class GroupOptions(Struct, frozen=True, kw_only=True):
    """The group's contract. `window` bounds what a sender may have on its way that some member does not hold yet."""

    order: str = "fifo"
    multicast: str = "reliable"
    delivery: str = "agreed"
    fanout: int = 2
    window: int = 8_192

    def __post_init__(self) -> None:
        if self.delivery not in ("agreed", "safe"):
            raise InvalidOption("delivery", self.delivery, "choose 'agreed' or 'safe'")
        if self.fanout < 1:
            raise InvalidOption("fanout", self.fanout, "a tree needs at least one child per member")
        if self.window < 1:
            raise InvalidOption("window", self.window, "a sender needs room for at least one message")


class Settings(Struct, frozen=True, kw_only=True):
    """A member's own bounds and intervals; the defaults suit a local network."""

    frame_bytes: int = 60_000
    """A batch is closed before its frame exceeds this; a larger message is fragmented."""
    batch_messages: int = 1_024
    """A batch is closed when it holds this many messages."""
    message_bytes: int = 4 << 20
    """The largest payload that `submit` takes."""
    window_bytes: int = 32 << 20
    """Own unstable payload bytes at which sending is refused."""
    reassembly_bytes: int = 32 << 20
    """Bytes of half-arrived messages kept per sender; above it the latest is abandoned and asked for again."""
    waiting_messages: int = 131_072
    """Messages a hold-back store keeps per group; above it what would have to wait is not accepted, which slows its sender."""

    digest_s: float = 0.025
    """How soon after news a digest is sent; while nothing changes the interval doubles up to `heartbeat_s`."""
    heartbeat_s: float = 1.0
    nack_s: float = 0.02
    """How long a gap may last before it is asked for; doubled with every attempt up to `nack_max_s`."""
    nack_max_s: float = 2.0
    repair_s: float = 0.02
    """Over how long the answers of members that are not the sender are spread."""
    repair_frames: int = 128
    """Frames sent in answer to one request; what is left is asked for again."""
    parent_s: float = 1.0
    """How long a message may wait for a parent, once to twice, before the parent is asked for (`besteffort`: is given up as lost)."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) <= 0:
                raise InvalidOption(name, getattr(self, name), "must be above zero")
        if not 256 <= self.frame_bytes <= FRAME_LIMIT:
            raise InvalidOption(
                "frame_bytes", self.frame_bytes, f"choose between 256, which a header needs, and {FRAME_LIMIT:,}, which receivers take"
            )
        if self.batch_messages > BATCH_LIMIT:
            raise InvalidOption("batch_messages", self.batch_messages, f"receivers take at most {BATCH_LIMIT:,} messages in a batch")
        if self.message_bytes > min(MESSAGE_LIMIT - FRAME_LIMIT, (self.frame_bytes // 2) * BATCH_LIMIT):
            raise InvalidOption(
                "message_bytes", self.message_bytes, f"receivers take at most {MESSAGE_LIMIT:,} bytes in {BATCH_LIMIT:,} frames"
            )
        if self.heartbeat_s < self.digest_s:
            raise InvalidOption("heartbeat_s", self.heartbeat_s, f"must not be below digest_s={self.digest_s}")
        if self.nack_max_s < self.nack_s:
            raise InvalidOption("nack_max_s", self.nack_max_s, f"must not be below nack_s={self.nack_s}")
