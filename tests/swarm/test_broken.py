"""The swarm is shown broken protocols, and must catch every one."""

from __future__ import annotations

import pytest

from antiphon.model.frames import Batch
from antiphon.model.ids import MemberId
from antiphon.protocol.multicast.reliable import Reliable
from antiphon.protocol.ordering.fifo import Fifo
from antiphon.protocol.registry import MULTICASTS, ORDERS
from antiphon.protocol.stage import Ordering
from antiphon.sim.oracles import PROMISES
from antiphon.sim.swarm import Case, Summary, campaign, run_seed
from antiphon.testing.broken import BROKEN_ORDERS


class Forgetful(Fifo):
    """Drops what came early."""

    def accept(self, batch: Batch, low: int, high: int) -> None:
        if low == self._next_by_sender.get(batch.sender, 1):
            super().accept(batch, low, high)


class Careless(Reliable):
    """Never asks for what is missing."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.repair.note_gap = _nothing  # type: ignore[assignment,method-assign]


class Deaf(Reliable):
    """Never answers a request."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.repair._send = _nothing  # type: ignore[assignment,method-assign]


class Echo(Reliable):
    """Sends everything back to everyone."""

    def receive_batch(self, batch: Batch, wire: bytes, source: MemberId | None) -> None:
        self.sends.append((None, wire))
        super().receive_batch(batch, wire, source)


def _nothing(*_: object) -> None:
    pass


def swarm(order: str, multicast: str, faults: tuple[str, ...]) -> Summary:
    return campaign([Case(seed=seed, order=order, multicast=multicast, faults=faults) for seed in range(12)])


@pytest.mark.parametrize(("broken", "promises", "seen"), BROKEN_ORDERS)
def test_an_ordering_that_breaks_its_promise_is_caught(
    broken: type[Ordering], promises: str, seen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A swarm that a broken ordering survives is a swarm that proves nothing about the good ones."""
    monkeypatch.setitem(ORDERS, "broken", broken)
    monkeypatch.setitem(PROMISES, "broken", PROMISES[promises])
    summary = swarm("broken", "reliable", ("loss", "reordering"))
    assert any(seen in failure.broken for failure in summary.failures), str(summary)
    assert "antiphon sim swarm --kind views --order broken" in str(summary)


def test_an_ordering_that_forgets_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that is silently dropped must be a stall, not a smaller number in a report."""
    monkeypatch.setitem(ORDERS, "broken", Forgetful)
    monkeypatch.setitem(PROMISES, "broken", PROMISES["fifo"])
    assert swarm("broken", "reliable", ("loss", "reordering")).stalled > 0


@pytest.mark.parametrize("broken", [Careless, Deaf])
def test_a_multicast_that_does_not_repair_is_caught(broken: type[Reliable], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without repair a lost frame is waited for for ever, and the swarm must say so."""
    monkeypatch.setitem(MULTICASTS, "broken", broken)
    summary = swarm("fifo", "broken", ("loss",))
    assert summary.stalled > 0
    assert "lacks" in str(summary) or "refused" in str(summary)


def test_an_error_in_a_protocol_is_an_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    """One seed that raises must not end the campaign, nor be forgotten."""

    class Raises(Fifo):
        def accept(self, batch: Batch, low: int, high: int) -> None:
            raise AssertionError("a story")

    monkeypatch.setitem(ORDERS, "broken", Raises)
    monkeypatch.setitem(PROMISES, "broken", PROMISES["fifo"])
    summary = swarm("broken", "reliable", ())
    assert summary.errors == summary.seeds == 12
    assert "AssertionError: a story" in str(summary)
    assert not summary.ok


def test_members_that_send_frames_on_for_ever_are_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """One seed in which frames beget frames would take all memory and time, and nobody would learn which seed it was."""
    monkeypatch.setitem(MULTICASTS, "broken", Echo)
    monkeypatch.setattr("antiphon.sim.swarm.view_run._BoundedWorld.frames_limit", 5_000)
    outcome = run_seed(Case(seed=3, multicast="broken", faults=()))
    assert "more than 5,000 frames" in outcome.error
    assert outcome.frames < 5_000 * 7
