"""Store time is told by ticks: what becomes of it when the servers' clocks do not agree. The stream is a stand-in with its own clock."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from antiphon.store.jetstream.clock import TICK_S, Clock
from antiphon.store.jetstream.codec import delivered_values, value_header, value_of
from antiphon.store.jetstream.faults import Mismatch
from antiphon.store.jetstream.stream import Condition, Message, Stored
from antiphon.store.records import SECOND, Value

HOUR = 3_600 * SECOND


class Server:
    """One subject, conditional writes, and a clock that the test moves. Serves as the stream and as its connection."""

    def __init__(self) -> None:
        self.clock = 1_000 * HOUR
        self.steady = 0
        self.round_trip = 0
        self.ticks: list[Stored] = []
        self.connection = self

    def go_on(self, nanoseconds: int) -> None:
        self.clock += nanoseconds
        self.steady += nanoseconds

    async def newest(self, subject: str) -> Stored | None:
        return self.ticks[-1] if self.ticks else None

    async def write(self, messages: Sequence[Message], condition: Condition, *, vital: bool) -> int:
        if condition.place != len(self.ticks):
            raise Mismatch
        (message,) = messages
        self.go_on(self.round_trip)
        self.ticks.append(Stored(message.subject, len(self.ticks) + 1, self.clock, message.data, b""))
        self.go_on(self.round_trip)
        return len(self.ticks)

    def deadline(self) -> float:
        return 0.0

    async def pause(self, pause_s: float, deadline: float, why: str) -> float:
        return pause_s

    def new_clock(self) -> Clock:
        return Clock(self, "tick", lambda: self.steady)  # type: ignore[arg-type]


def test_time_is_the_servers_and_goes_on_between_ticks() -> None:
    """Leases would stand still while nothing is written, or every look at the clock be a write."""

    async def story() -> None:
        server = Server()
        clock = server.new_clock()
        assert await clock.now() == server.clock
        server.go_on(SECOND // 2)
        assert abs(await clock.now() - server.clock) <= SECOND // 1_000
        assert len(server.ticks) == 1
        server.go_on(HOUR)
        assert await clock.now() == server.clock
        assert len(server.ticks) == 2

    asyncio.run(story())


@pytest.mark.parametrize("behind", [1, SECOND, HOUR, 900 * HOUR])
def test_a_leader_whose_clock_is_behind_does_not_turn_time_back(behind: int) -> None:
    """Values that had expired would be due again; or time would stand still until the new leader's clock has caught up."""

    async def story() -> None:
        server = Server()
        clock, other = server.new_clock(), server.new_clock()
        before = await clock.now()
        assert await other.now() >= before
        server.clock -= behind
        server.go_on(round(1.5 * TICK_S * SECOND))
        after = await other.now()
        assert after >= before
        for _ in range(10):
            server.go_on(2 * SECOND)
            for each in (clock, other, server.new_clock()):
                now = await each.now()
                assert now >= after, "time went back"
                after = now
        assert before + 20 * SECOND <= after <= before + 25 * SECOND, "time did not go on as fast as it should"

    asyncio.run(story())


def test_what_somebody_has_seen_is_past_for_all_it_does_later() -> None:
    """A value would be read before the time at which it was written."""

    async def story() -> None:
        server = Server()
        clock = server.new_clock()
        now = await clock.now()
        assert clock.observe(now + 5) == now + 5
        assert await clock.now() == now + 5

    asyncio.run(story())


def test_a_slow_tick_does_not_blur_what_was_known() -> None:
    """One slow answer would put the times of values seconds ahead, and leases end that much later."""

    async def story() -> None:
        server = Server()
        clock = server.new_clock()
        server.round_trip = 1_000_000
        await clock.now()
        server.go_on(2 * SECOND)
        server.round_trip = SECOND
        await clock.now()
        assert clock.earliest() <= server.clock <= clock.latest()
        assert clock.latest() - clock.earliest() < SECOND // 10
        server.clock += HOUR
        server.go_on(2 * SECOND)
        await clock.now()
        assert clock.earliest() <= server.clock <= clock.latest(), "a clock that was set ahead is believed"

    asyncio.run(story())


@pytest.mark.parametrize(("bound", "stamp"), [(5, 3), (3, 5)])
def test_the_time_of_a_value_is_the_later_of_stamp_and_bound(bound: int, stamp: int) -> None:
    """After a change to a leader whose clock is behind, a value would be older than the one before it, and be collected with it."""
    headers = b"NATS/1.0\r\n" + value_header(7, 70, bound, "").encode() + b"Nats-Batch-Id: x\r\n\r\n"
    assert value_of(Stored("s", 9, stamp, b"data", headers)) == Value(7, 5, b"data", "", 9)
    reply = b"$JS.ACK.stream.consumer.1.9.1.%d.0" % stamp
    assert delivered_values([(b"s", reply, b"data", headers)]) == ([Value(7, 5, b"data", "", 9)], 0)


def test_bounds_hold_the_true_time_between_them() -> None:
    """A value's time could fall behind the one before it, when a leader's clock goes back in between."""

    async def story() -> None:
        server = Server()
        server.round_trip = 7_000_000
        clock = server.new_clock()
        await clock.now()
        for _ in range(5):
            assert clock.earliest() <= server.clock <= clock.latest()
            server.go_on(SECOND // 7)

    asyncio.run(story())
