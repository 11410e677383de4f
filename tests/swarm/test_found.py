"""The seeds that once failed, each with what it found.

A seed names a weather, and the weather has become wider since. `as_it_was` runs a case in the fair weather that it was found in, frame
for frame; every case is also run as its seed would have it today.
"""

from __future__ import annotations

import pytest

from antiphon.sim.swarm import Case, Outcome, Weather, replay_command, run_seed

FOUND = {
    "the sequencer numbered on; records that a member lacked lay beyond its window, and it refused them for ever": Case(
        seed=1818, order="total", multicast="reliable", members=4, faults=("loss", "duplication"), delivery="safe"
    ),
    "digests that named records beyond the window were dropped whole, and a slow member heard of nothing more (safe)": Case(
        seed=15, order="total", multicast="reliable", members=3, faults=("duplication", "reordering", "slow"), delivery="safe"
    ),
    "the same over flood": Case(
        seed=52, order="total", multicast="flood", members=6, faults=("loss", "duplication", "reordering", "slow"), delivery="safe"
    ),
    "the same over a tree, agreed": Case(
        seed=130, order="total", multicast="tree", members=3, faults=("loss", "reordering"), delivery="agreed"
    ),
    "when the sequencer died, an answer was delivered before its question": Case(
        seed=128, order="total", multicast="flood", members=6, faults=("crash",), delivery="agreed"
    ),
    "an answer whose question was given up was delivered without the mark that says so": Case(
        seed=31, order="semantic", multicast="besteffort", members=4, faults=("loss",), delivery="agreed"
    ),
    "the parts of a message that could not be taken were sent on for ever": Case(
        seed=1418, order="total", multicast="flood", members=7, faults=("loss", "duplication", "reordering", "slow"), delivery="agreed"
    ),
}


def as_it_was(case: Case) -> Outcome:
    return run_seed(case, Weather.of(case, rough=False))


@pytest.mark.parametrize("story", FOUND)
def test_what_was_found_once_stays_mended(story: str) -> None:
    """What went wrong in the world once, as the weather was then, would go wrong again."""
    outcome = as_it_was(FOUND[story])
    assert outcome.ok, f"{story}: {outcome}"


@pytest.mark.parametrize("story", FOUND)
def test_the_seed_is_good_in_the_weather_of_today_too(story: str) -> None:
    """The command that replays a seed would show a failure that this suite does not know."""
    outcome = run_seed(FOUND[story])
    assert outcome.ok, f"{story}: {outcome}\n{replay_command(FOUND[story])}"
