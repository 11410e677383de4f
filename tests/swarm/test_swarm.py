"""The swarm: two thousand worlds, each with its own faults; no violation and no stall in any of them."""

from __future__ import annotations

import pytest

from antiphon.errors import InvalidOption
from antiphon.sim.swarm import FAULTS, Case, Weather, campaign, default_cases, faults_of, replay_command, run_seed

SEEDS = 2_000
CHUNK = 50


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_no_seed_breaks_a_promise_or_stalls(first: int) -> None:
    """Somewhere among loss, disorder, slow members and crashes a message would be lost, doubled, misplaced or waited for for ever."""
    summary = campaign(default_cases(range(first, first + CHUNK)))
    assert summary.seeds == CHUNK
    assert summary.ok, f"\n{summary}"


@pytest.mark.parametrize("order", ["unordered", "semantic"])
def test_best_effort_keeps_what_it_promises(order: str) -> None:
    """Best effort may lose, but never doubles, alters, or waits for ever."""
    summary = campaign([Case(seed=seed, order=order, multicast="besteffort") for seed in range(30)])
    assert summary.ok, f"\n{summary}"


def test_a_seed_is_a_run() -> None:
    """A failing seed that cannot be run again is worth nothing."""
    case = Case(seed=5, order="causal", multicast="tree", faults=("loss", "slow"))
    assert run_seed(case) == run_seed(case)
    assert run_seed(case).log_hash != run_seed(Case(seed=6, order="causal", multicast="tree", faults=("loss", "slow"))).log_hash


def test_naming_what_the_seed_drew_changes_nothing() -> None:
    """The replay command names members and faults; were they drawn from the same numbers as the rest, it would replay another run."""
    for seed in range(6):
        open_case = Case(seed=seed, order="semantic", multicast="flood")
        named = Case(seed=seed, order="semantic", multicast="flood", members=Weather.of(open_case).members, faults=faults_of(open_case))
        assert run_seed(open_case).log_hash == run_seed(named).log_hash


def test_the_replay_command_says_everything() -> None:
    """Who sees a red seed pastes one line, and sees it again."""
    case = Case(seed=7, order="total", multicast="tree", members=5, faults=("crash", "loss"), delivery="safe", messages=40)
    assert replay_command(case) == (
        "antiphon sim swarm --kind views --order total --multicast tree --members 5 --seeds 7:8 --faults loss,crash "
        "--delivery safe --messages 40"
    )
    assert "--faults none" in replay_command(Case(seed=7, faults=()))


def test_the_seeds_reach_everything() -> None:
    """A fault, an order or a size that no seed ever draws is one that is never tested."""
    cases = [case for case in default_cases(range(SEEDS)) if case.kind == "views"]
    assert len(cases) == SEEDS // 2
    assert {(case.order, case.multicast, case.delivery) for case in cases} == {
        (order, multicast, delivery)
        for order in ("unordered", "fifo", "causal", "total", "semantic")
        for multicast in ("reliable", "flood", "tree")
        for delivery in ("agreed", "safe")
    }
    weathers = [Weather.of(case) for case in cases]
    assert {weather.members for weather in weathers} == set(range(2, 13))
    assert {fault for weather in weathers for fault in weather.faults} == set(FAULTS)
    assert any(not weather.faults for weather in weathers)
    assert any(len(weather.faults) == len(FAULTS) for weather in weathers)
    assert {weather.victim for weather in weathers} >= set(range(7))
    crashed = [weather for weather in weathers if "crash" in weather.faults]
    assert {(weather.returns, weather.first) for weather in crashed} >= {("", False), ("at once", True), ("later", True)}
    assert any(not name.isascii() and len(name) > 40 for weather in weathers for name in weather.names)
    assert any(weather.skews and weather.encore and weather.own for weather in weathers)
    rough = [weather for weather in weathers if weather.skews]
    assert len(cases) * 0.4 < len(rough) < len(cases) * 0.6
    for bound in ("reassembly_bytes", "repair_frames", "waiting_messages", "batch_messages", "window_bytes"):
        assert len({getattr(weather.settings, bound) for weather in rough}) > 1, f"{bound} is always the same"
    assert {weather.options.window for weather in rough} >= {1, 2}


def test_a_member_that_comes_back_is_somebody_new_and_is_heard() -> None:
    """A member that restarts and gets nothing, or whose messages nobody takes, would not be noticed: nobody answers for it."""
    for seed in range(40):
        case = Case(seed=seed, order="causal", members=4, faults=("loss", "crash"))
        weather = Weather.of(case, rough=True)
        if weather.returns:
            outcome = run_seed(case, weather)
            assert outcome.ok, str(outcome)
            assert outcome.lives == weather.members + 1


def test_a_weather_can_be_chosen() -> None:
    """Who looks into a failing seed could not ask whether it was the weather."""
    case = Case(seed=3, order="total", faults=("loss", "pause", "cut"))
    fair, rough = Weather.of(case, rough=False), Weather.of(case, rough=True)
    assert not fair.skews
    assert rough.skews
    assert Weather.of(case) in (fair, rough)
    assert run_seed(case, fair).log_hash != run_seed(case, rough).log_hash
    assert run_seed(case, Weather.of(case)).log_hash == run_seed(case).log_hash


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"faults": ("rain",)}, "mix"),
        ({"faults": ("partition",)}, "--kind nodes"),
        ({"kind": "sheep"}, "views or nodes"),
        ({"members": 1}, "2 to 64"),
        ({"messages": 0}, "1 to"),
        ({"order": "best"}, "choose one of"),
    ],
)
def test_a_case_that_makes_no_sense_is_refused(wrong: dict[str, object], why: str) -> None:
    """A mistyped fault that is silently ignored would be a swarm that tests nothing."""
    with pytest.raises(InvalidOption, match=why):
        Case(seed=1, **wrong)  # type: ignore[arg-type]
