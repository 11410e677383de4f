"""Sessions that have yet to show that they are alive now and whose they are, and what came from them meanwhile.

A recorded datagram of a session that ended long ago is sealed as well as a new one. So whoever is met for the first time is asked first,
and what it sends waits. All of it can be caused by strangers, hence the bounds:

- 256 candidates; another one takes the place of the oldest that has not answered anything.
- 64 frames and 1 MiB wait per candidate, 16 MiB for all; what comes above that is dropped, and repaired by the protocol above.
- A candidate is asked at most as many bytes as came from it, until it has answered: nobody is flooded through us.
- It is given up after 5 seconds. If it is real it goes on sending, and is asked anew.
"""

from __future__ import annotations

from collections.abc import Iterator

from antiphon.model.ids import Address
from antiphon.runtime.security.channel import Channel
from antiphon.runtime.security.envelope import ASK_BYTES
from antiphon.runtime.security.introductions import Call

CANDIDATES = 256
WAITING_FRAMES = 64
WAITING_BYTES = 1 << 20
WAITING_BYTES_IN_ALL = 16 << 20
PATIENCE_S = 5.0
RETRY_S = 0.2
RETRY_MAX_S = 1.6
ROUND_S = 0.02
_NEVER = float("inf")


class Candidate:
    """One of them. Under a shared key `channel` opens what it sends, and opened frames wait; with a `call` its certificate is asked for,
    and datagrams wait as they came, because nothing can open them yet."""

    __slots__ = ("ask_at", "call", "channel", "key", "nonce", "received", "retry_s", "sent", "source", "until", "waiting", "waiting_bytes")

    def __init__(
        self, now: float, source: Address, key: bytes, nonce: bytes, *, channel: Channel | None = None, call: Call | None = None
    ) -> None:
        self.source, self.key, self.nonce, self.channel, self.call = source, key, nonce, channel, call
        self.waiting: list[bytes] = []
        self.waiting_bytes = self.received = self.sent = 0
        self.ask_at, self.until, self.retry_s = now, now + PATIENCE_S, RETRY_S

    @property
    def answering(self) -> bool:
        """Something has come back from its address, so it is there."""
        return self.call is not None and self.call.answered

    @property
    def may_be_asked(self) -> bool:
        size = ASK_BYTES if self.call is None else len(self.call.message)
        return self.answering or self.sent + size <= self.received

    @property
    def next_at(self) -> float:
        return min(self.until, self.ask_at) if self.may_be_asked else self.until

    def asked(self, now: float) -> None:
        self.sent += ASK_BYTES if self.call is None else len(self.call.message)
        self.postpone(now)

    def postpone(self, now: float) -> None:
        self.ask_at, self.retry_s = now + self.retry_s, min(2 * self.retry_s, RETRY_MAX_S)

    def refuse(self) -> None:
        """Whatever it sends until its time is over is dropped without more work."""
        self.ask_at = _NEVER

    @property
    def refused(self) -> bool:
        return self.ask_at == _NEVER


class Candidates:
    def __init__(self) -> None:
        self._by_key: dict[tuple[Address, bytes], Candidate] = {}
        self._bytes = 0
        self._soonest = _NEVER

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[Candidate]:
        return iter(tuple(self._by_key.values()))

    def get(self, source: Address, key: bytes) -> Candidate | None:
        return self._by_key.get((source, key))

    def admit(self, candidate: Candidate) -> Candidate | None:
        """Returns the one whose place it took, if there was none left."""
        out = None
        if len(self._by_key) >= CANDIDATES:
            out = next((old for old in self._by_key.values() if not old.answering), None) or next(iter(self._by_key.values()))
            self.remove(out)
        self._by_key[candidate.source, candidate.key] = candidate
        return out

    def remove(self, candidate: Candidate) -> None:
        self._by_key.pop((candidate.source, candidate.key), None)
        self._bytes -= candidate.waiting_bytes
        candidate.waiting_bytes = 0

    def discard(self, candidate: Candidate) -> int:
        """Forgets what waits, and says how much it was."""
        count = len(candidate.waiting)
        self._bytes -= candidate.waiting_bytes
        candidate.waiting, candidate.waiting_bytes = [], 0
        return count

    def hold(self, candidate: Candidate, frame: bytes) -> bool:
        """False if there is no room for it."""
        size = len(frame)
        if (
            len(candidate.waiting) >= WAITING_FRAMES
            or candidate.waiting_bytes + size > WAITING_BYTES
            or self._bytes + size > WAITING_BYTES_IN_ALL
        ):
            return False
        candidate.waiting.append(frame)
        candidate.waiting_bytes += size
        self._bytes += size
        return True

    def note(self, candidate: Candidate) -> None:
        """Its next time may have become earlier."""
        self._soonest = min(self._soonest, candidate.next_at)

    def settle(self, now: float) -> None:
        """After a round over all: the deadline is exact again, and not so near that strangers could keep us making rounds."""
        self._soonest = max(min((one.next_at for one in self._by_key.values()), default=_NEVER), now + ROUND_S)

    def deadline(self) -> float | None:
        """When somebody may have to be asked again or given up."""
        return self._soonest if self._by_key else None
