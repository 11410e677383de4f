"""The swarm is shown broken memberships, and must catch every one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from antiphon.model.control import Install
from antiphon.model.events import PrivateMessage
from antiphon.protocol.membership import change
from antiphon.protocol.membership.catching_up import CatchingUp
from antiphon.protocol.membership.change import Change
from antiphon.protocol.membership.coordinator import Coordinator
from antiphon.protocol.membership.membership import Membership
from antiphon.protocol.membership.port import Port
from antiphon.protocol.membership.seeker import Seeker
from antiphon.sim.swarm import Case, Outcome, run_seed
from antiphon.testing.broken import forgetful, skip_the_flush

Break = Callable[[pytest.MonkeyPatch], None]


def skips_the_flush(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Change, "_flush", skip_the_flush)


def installs_other_members(patch: pytest.MonkeyPatch) -> None:
    """A member whose name ends in 1 sees the members of a view in another order."""
    install = Membership.install

    def other(self: Membership, frame: Install) -> None:
        if "1#" in self.me and len(frame.seats) > 1:
            frame = msgspec.structs.replace(frame, seats=frame.seats[::-1], starts=frame.starts[::-1])
        install(self, frame)

    patch.setattr(Membership, "install", other)


def loses_what_it_catches_up_with(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CatchingUp, "_recover", forgetful(CatchingUp._recover))


def catches_up_too_late(patch: pytest.MonkeyPatch) -> None:
    """New messages are delivered before those of the other side."""
    begin = CatchingUp._synchronise

    def hasty(self: CatchingUp) -> None:
        begin(self)
        assert self._member.endpoint is not None
        self._member.endpoint.release(self._port.now)

    patch.setattr(CatchingUp, "_synchronise", hasty)


def never_seeks(patch: pytest.MonkeyPatch) -> None:
    """A side does not look for those it lost."""
    patch.setattr(Seeker, "_send_beacon", lambda *_, **__: None)


def never_gives_anybody_up(patch: pytest.MonkeyPatch) -> None:
    """The dead stay in the view."""
    patch.setattr(Coordinator, "lost", lambda *_: None)


def counts_no_majority(patch: pytest.MonkeyPatch) -> None:
    """Every side goes on, whatever its group had chosen."""
    patch.setattr(change, "lacking", lambda *_: None)


def tells_private_messages_twice(patch: pytest.MonkeyPatch) -> None:
    tell = Port.tell

    def twice(self: Port, event: Any) -> None:
        tell(self, event)
        if type(event) is PrivateMessage:
            tell(self, event)

    patch.setattr(Port, "tell", twice)


BROKEN: list[tuple[Break, str, dict[str, Any]]] = [
    (skips_the_flush, "virtual_synchrony", {"order": "fifo", "faults": ("loss", "crash", "restart")}),
    (installs_other_members, "views", {"order": "fifo", "faults": ()}),
    (loses_what_it_catches_up_with, "agreement", {"order": "unordered", "faults": ("partition",)}),
    (catches_up_too_late, "causal", {"order": "causal", "faults": ("partition", "reordering")}),
    (never_seeks, "stalled", {"order": "fifo", "faults": ("partition",)}),
    (never_gives_anybody_up, "stalled", {"order": "fifo", "faults": ("crash",)}),
    (counts_no_majority, "primary", {"order": "total", "delivery": "safe", "faults": ("partition",), "partitions": "majority"}),
    (tells_private_messages_twice, "private", {"order": "fifo", "faults": ()}),
]


def sees(outcome: Outcome, what: str) -> bool:
    """Whether the outcome shows the fault, under its own name."""
    return what in outcome.broken or (what == "stalled" and bool(outcome.stalled))


@pytest.mark.parametrize(("broken", "seen", "case"), BROKEN, ids=[broken.__name__ for broken, _, _ in BROKEN])
def test_a_broken_membership_is_caught(broken: Break, seen: str, case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A swarm that a broken membership survives is a swarm that proves nothing about the good one."""
    broken(monkeypatch)
    outcomes = (run_seed(Case(seed=seed, kind="nodes", **case)) for seed in range(20))
    assert any(sees(outcome, seen) for outcome in outcomes)


def test_nodes_that_send_frames_on_for_ever_are_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """One seed in which frames beget frames would take all memory and time, and nobody would learn which seed it was."""
    monkeypatch.setattr("antiphon.sim.swarm.play.SwarmWorld.frames_limit", 300)
    outcome = run_seed(Case(seed=3, kind="nodes", faults=()))
    assert "more than 300 frames" in outcome.error
