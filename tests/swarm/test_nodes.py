"""Nodes in the swarm: what their seeds reach, that a seed is a run, and that what looks at them can be chosen."""

from __future__ import annotations

import msgspec

from antiphon.sim.swarm import NODE_FAULTS, Case, NodeWeather, default_cases, faults_of, replay_command, run_seed

SEEDS = 2_000
_VERBS = ("crash", "restart", "pause", "resume", "leave", "join", "slow", "fail", "strike", "cut", "mend", "unread", "read", "create")


def test_a_seed_is_a_run() -> None:
    """A failing seed that cannot be run again is worth nothing."""
    case = Case(seed=5, kind="nodes", order="causal", faults=("loss", "partition", "crash", "restart"))
    assert run_seed(case) == run_seed(case)
    assert run_seed(case).log_hash != run_seed(msgspec.structs.replace(case, seed=6)).log_hash


def test_naming_what_the_seed_drew_changes_nothing() -> None:
    """The replay command names members and faults; were they drawn from the same numbers as the rest, it would replay another run."""
    for seed in range(4):
        case = Case(seed=seed, kind="nodes", order="semantic", multicast="flood")
        named = msgspec.structs.replace(case, members=len(NodeWeather.of(case).names), faults=faults_of(case))
        assert run_seed(case).log_hash == run_seed(named).log_hash


def test_the_replay_command_says_everything() -> None:
    """Who sees a red seed pastes one line, and sees it again."""
    case = Case(seed=7, kind="nodes", order="total", members=5, faults=("crash", "partition"), delivery="safe", partitions="majority")
    assert replay_command(case) == (
        "antiphon sim swarm --kind nodes --order total --multicast reliable --members 5 --seeds 7:8 --faults crash,partition "
        "--delivery safe --partitions majority"
    )


def test_the_seeds_reach_everything() -> None:
    """A fault, a policy or a size that no seed ever draws is one that is never tested."""
    cases = [case for case in default_cases(range(SEEDS)) if case.kind == "nodes"]
    assert len(cases) == SEEDS // 2
    assert {(case.order, case.multicast, case.delivery, case.partitions) for case in cases} >= {
        (order, multicast, delivery, partitions)
        for order in ("unordered", "fifo", "causal", "total", "semantic")
        for multicast in ("reliable", "flood", "tree")
        for delivery in ("agreed", "safe")
        for partitions in ("continue", "majority")
    }
    assert {(case.order, case.multicast) for case in cases} >= {("unordered", "besteffort"), ("semantic", "besteffort")}
    assert {fault for case in cases for fault in faults_of(case)} == set(NODE_FAULTS)
    weathers = [NodeWeather.of(case) for case in cases]
    assert {len(weather.names) for weather in weathers} >= {3, 4, 5, 6, 8, 12}
    acts = [act for weather in weathers for act in weather.acts]
    assert {act.verb for act in acts} == {*_VERBS}
    assert {act.wants.kind for act in acts if act.verb in ("join", "restart")} == {"all", "none", "last", "since", "state"}
    founded = [weather for weather in weathers if weather.founding]
    assert {weather.options.partitions for weather in founded} == {"continue", "majority"}
    assert any(len(set(weather.starts)) == 1 for weather in founded)
    assert any(len(set(weather.starts)) > 2 for weather in founded)
    assert {weather.options.slow for weather in weathers} == {"block", "evict"}
    assert any(weather.skews for weather in weathers)


def test_acts_can_be_left_out() -> None:
    """Who looks into a failing seed could not ask which of its twenty faults matters."""
    case = Case(seed=11, kind="nodes", order="fifo", faults=("partition", "pause"))
    weather = NodeWeather.of(case)
    quiet = msgspec.structs.replace(weather, acts=())
    assert weather.acts
    assert run_seed(case, weather).log_hash == run_seed(case).log_hash
    outcome = run_seed(case, quiet)
    assert outcome.ok, str(outcome)
    assert outcome.log_hash != run_seed(case).log_hash
