"""What a program chooses for its store: how long it is patient, and the bound of everything that is kept in memory."""

from __future__ import annotations

from msgspec import Struct

from antiphon.errors import InvalidOption

_INTERVALS = ("timeout_s", "retry_s", "retry_max_s", "outbox_s", "lost_s", "watch_s", "node_timeout_s")
_BOUNDS = ("queue_values", "queue_bytes", "prefetch_values", "prefetch_bytes", "state_bytes", "marks")


class StoreSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    timeout_s: float = 30.0
    """How long a call insists while the store does not answer, where the call does not say."""
    retry_s: float = 0.05
    """The first pause before a call is repeated; doubled with every attempt up to `retry_max_s`, and shortened at random by up to half."""
    retry_max_s: float = 2.0
    outbox_s: float = 1.0
    """How long a publish insists before it goes to the outbox, where there is one."""
    lost_s: float = 1.0
    """How long calls of a group or a subscription may fail before it reports `StoreLost`."""
    watch_s: float = 2.0
    """How often a subscription looks whether somebody else has come back under its id."""
    clock_s: float = 0.05
    """How long ago the store's time may have been heard when a lease is judged by it; 0 asks every time."""

    node_timeout_s: float = 30.0
    """How long a program may be silent before values that it needs are collected: see `ring.py`."""
    collect_s: float = 60.0
    """How often it is seen to that somebody collects what nobody needs; 0: not by this program."""

    queue_values: int = 65_536
    """Values of a topic that wait to be published; above it, or above `queue_bytes`, publishing waits. One call always finds room in an
    empty queue, however large it is."""
    queue_bytes: int = 64 << 20
    prefetch_values: int = 4_096
    """Values of a subscription that are read ahead; above it, or above `prefetch_bytes`, reading pauses."""
    prefetch_bytes: int = 16 << 20
    state_bytes: int = 8 << 20
    """The largest state of a subscriber."""
    marks: int = 10_000
    """Ranges of values that a subscriber may have marked done one by one."""

    def __post_init__(self) -> None:
        for name in (*_INTERVALS, *_BOUNDS, "clock_s", "collect_s"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int if name in _BOUNDS else int | float):
                raise InvalidOption(name, value, f"give a number{' of seconds' if name not in _BOUNDS else ''}")
        for name in _INTERVALS:
            if not 0 < getattr(self, name) < float("inf"):
                raise InvalidOption(name, getattr(self, name), "give a number of seconds above 0")
        for name in ("clock_s", "collect_s"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise InvalidOption(name, getattr(self, name), "give a number of seconds, 0 or more")
        for name in _BOUNDS:
            if getattr(self, name) < 1:
                raise InvalidOption(name, getattr(self, name), "give a number above 0")
