"""The seeds that once failed, each with what it found.

A seed names a weather, and the weather has become wider since. `as_it_was` runs a case in the fair weather that it was found in, frame
for frame; every case is also run as its seed would have it today. Nodes are run with the faults that there were when their seeds were
found (`with_early_faults`), also frame for frame.
"""

from __future__ import annotations

import msgspec
import pytest

from antiphon.sim.swarm import Case, NodeWeather, Outcome, Weather, default_cases, faults_of, replay_command, run_seed
from antiphon.sim.swarm.case import EARLY_NODE_FAULTS

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

FOUND_AMONG_NODES = {
    "a minority that was stopped, and had heard the others again, sent no beacon and answered none: the sides never met": Case(
        seed=41, kind="nodes", order="fifo", multicast="tree", partitions="majority"
    ),
    "two who followed each other at one address: the second got the private messages of the first, and none of its own": Case(
        seed=119, kind="nodes", order="semantic", multicast="tree", delivery="safe", partitions="majority"
    ),
    "own messages that all held, and nobody had delivered, were forgotten and could not be sent again in the next view": Case(
        seed=82, kind="nodes", order="causal", multicast="flood", delivery="safe"
    ),
    "a node that knew only a dead member of the group asked it, and it alone, for ever": Case(
        seed=191, kind="nodes", order="fifo", multicast="tree"
    ),
    "the only one who had caught up left, and with it what the others had sent and counted on getting from it": Case(
        seed=256, kind="nodes", order="fifo", delivery="safe"
    ),
    "a message sent while its sender was catching up was delivered by others, and sent again when its sender was alone: two epochs": Case(
        seed=260, kind="nodes", order="unordered", multicast="flood", delivery="safe"
    ),
    "alone, a member put messages into a total order although what they followed was missing": Case(
        seed=138, kind="nodes", order="total", delivery="safe"
    ),
    "a member carried out a view that it alone had stored, while the other one of it had gone on in another": Case(
        seed=31056, kind="nodes", order="total", multicast="tree", delivery="safe", partitions="majority"
    ),
}

FOUND_IN_THE_MIX = {
    577: "a stopped member was the only one that had caught up, and ended a view that others had gone on from",
    625: "a node founded the group for itself while it was being let in, and took a view that was made of its earlier state",
    935: "a member that had promised a view to somebody who was gone waited for ever for the coordinator to notice",
    157: "answers to others had brought the beginning of an outcome, and the own answer left out what lay between",
    2201: "a safe message counted as held by members that were still catching up, and dropped it when the view changed",
    3709: "a slow member stayed put out though no view could be made without it",
    5093: "a newcomer skipped what had been forgotten of views that it was in, and nobody told it of the gap",
    5925: "the history of a group whose founder had died was blamed for what only a state still stood for (the judge was wrong)",
    7919: "a newcomer's wait for a copy of what lay before its time was taken for idleness (the judge was wrong)",
    8297: "a newcomer with half of an outcome answered faster than those who knew it all, and their histories differed",
    9017: "a node that had just come and had spoken meanwhile said that it had nothing",
    7827: "an outcome was told with a gap by the only one who was there, and whoever knew it whole came later and was not asked",
    6459: "a message that had been read could not be answered in the next view, because one before it was still missing",
    9517: "a newcomer that had heard nothing of an epoch said, before the others of its side, that there was no more to tell of it",
    3037: "who had come by a state answered for its side that no more was to be told of an epoch, while one who was there was telling it",
    4829: "an answer to a message that was lost, as the application had been told, waited for it for ever",
    7935: "what members that were catching up held counted as stable, and died with the one that had delivered it",
    1133: "a newcomer said that what it had not wanted itself was not wanted by another either, who had been there when it was sent",
    8147: "a stopped member's beginning of a view was told as another end of it, and the rest came to it by time",
    9127: "an answer that began where a newcomer's wishes did was refused, and fetched again for ever because it had several parts",
}


FOUND_WITH_LATER_FAULTS = {
    "a member to which messages of a view were lost listed what it had of that view by time, as is documented, and was accused": Case(
        seed=2773, kind="nodes", order="total", multicast="tree"
    ),
    "a sender that was refused, and had a little credit again, did not count as waiting: nobody was evicted and nobody sent": Case(
        seed=26, kind="nodes", order="fifo", multicast="tree", delivery="safe", faults=("stuck",)
    ),
    "the same in total order, with a credit of one": Case(
        seed=68,
        kind="nodes",
        order="total",
        multicast="flood",
        members=3,
        faults=("duplication", "reordering", "slow", "cut", "pause", "partition", "flapping", "churn", "stuck"),
    ),
    "an orphan was marked for the members that delivered it in its view, and not for those that recovered it": Case(
        seed=179,
        kind="nodes",
        order="semantic",
        multicast="reliable",
        members=5,
        faults=("reordering", "slow", "cut", "pause", "skew", "partition", "reader", "parents"),
        delivery="safe",
        partitions="majority",
    ),
    "a message that waited at its own sender counted as delivered there, and was not sent again after the merge": Case(
        seed=215,
        kind="nodes",
        order="semantic",
        multicast="reliable",
        members=6,
        faults=("loss", "slow", "skew", "churn", "reader", "parents", "unreachable"),
        partitions="majority",
    ),
    "a message that came by synchronisation, and was then sent again by its sender, waited once more, and its answers with it": Case(
        seed=203,
        kind="nodes",
        order="semantic",
        multicast="tree",
        members=6,
        faults=("loss", "reordering", "crash", "partition", "flapping", "reader", "parents"),
        partitions="majority",
    ),
    "a member installed a view in which another address was its own, and could not reach itself": Case(
        seed=10263,
        kind="nodes",
        order="total",
        multicast="reliable",
        members=6,
        faults=("loss", "duplication", "reordering", "crash", "slow", "reader", "reboot", "jitter", "corruption"),
    ),
    "members gave messages that nobody could take again and again, and nothing of what came after them": Case(
        seed=10280,
        kind="nodes",
        order="unordered",
        multicast="flood",
        members=6,
        faults=("loss", "crash", "cut", "skew", "restart", "reboot", "corruption"),
        delivery="safe",
    ),
    "a member reported a place of an own message that was never sent, and refused every view of the merge": Case(
        seed=10363,
        kind="nodes",
        order="total",
        multicast="tree",
        members=4,
        faults=("duplication", "crash", "cut", "pause", "flapping", "churn", "parents", "jitter", "corruption"),
        partitions="majority",
    ),
    "a member suspected itself after a relayed frame in its own name": Case(
        seed=11811,
        kind="nodes",
        order="fifo",
        multicast="flood",
        members=6,
        faults=("duplication", "reordering", "crash", "pause", "skew", "flapping", "reader", "reboot", "parents", "corruption"),
        delivery="safe",
        partitions="majority",
    ),
    "two members passed a join to each other without end": Case(
        seed=12580,
        kind="nodes",
        order="unordered",
        multicast="tree",
        members=6,
        faults=("loss", "duplication", "reordering", "cut", "churn", "reader", "jitter", "corruption"),
        partitions="majority",
    ),
    "a forged view told a member of another founding, and it stayed alone without a majority for ever": Case(
        seed=13914,
        kind="nodes",
        order="semantic",
        multicast="flood",
        members=6,
        faults=("duplication", "crash", "cut", "restart", "partition", "flapping", "founding", "stuck", "corruption"),
        delivery="safe",
        partitions="majority",
    ),
    "members had promised forged ballots that the coordinator did not believe, and could not exceed": Case(
        seed=14150,
        kind="nodes",
        order="unordered",
        multicast="flood",
        members=6,
        faults=("loss", "duplication", "reordering", "slow", "pause", "skew", "restart", "parents", "jitter", "corruption"),
        delivery="safe",
        partitions="majority",
    ),
    "a request without room for all that was missing was made again at once, without end": Case(
        seed=607,
        kind="nodes",
        order="causal",
        multicast="flood",
        members=6,
        faults=("reordering", "churn", "reboot", "corruption", "unreachable"),
    ),
    "a member that had lost messages took the end of an epoch from a newcomer, and kept it when others knew the whole": Case(
        seed=2723,
        kind="nodes",
        order="total",
        multicast="flood",
        members=6,
        faults=("slow", "skew", "partition", "flapping", "reader", "unreachable"),
        delivery="safe",
    ),
    "a member that dropped the sender of a long private message from its view kept its place in it, and lost what it had of it": Case(
        seed=1531,
        kind="nodes",
        order="unordered",
        multicast="reliable",
        members=5,
        faults=("loss", "reordering", "pause", "reader"),
        delivery="safe",
        partitions="majority",
    ),
}

FOUNDED_AT_ONCE = {82, 157, 191, 625, 1133, 2201, 5093, 5925, 7935, 9017}
"""The seeds in which all nodes founded the group at the same moment, before that was a fault with a name."""


def as_it_was(case: Case) -> Outcome:
    return run_seed(case, Weather.of(case, rough=False))


def with_early_faults(case: Case) -> Outcome:
    if case.kind == "views":
        return run_seed(case)
    early = msgspec.structs.replace(case, faults=tuple(fault for fault in faults_of(case) if fault in EARLY_NODE_FAULTS))
    weather = NodeWeather.of(early)
    if case.seed in FOUNDED_AT_ONCE:
        weather = msgspec.structs.replace(weather, starts=tuple(0.0 for _ in weather.names))
    return run_seed(early, weather)


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


@pytest.mark.parametrize("story", FOUND_AMONG_NODES)
def test_what_was_found_among_nodes_stays_mended(story: str) -> None:
    """What went wrong among nodes once would go wrong again."""
    outcome = with_early_faults(FOUND_AMONG_NODES[story])
    assert outcome.ok, f"{story}: {outcome}\n{replay_command(FOUND_AMONG_NODES[story])}"


@pytest.mark.parametrize("story", FOUND_WITH_LATER_FAULTS)
def test_what_was_found_with_later_faults_stays_mended(story: str) -> None:
    """What went wrong among nodes once would go wrong again."""
    outcome = run_seed(FOUND_WITH_LATER_FAULTS[story])
    assert outcome.ok, f"{story}: {outcome}\n{replay_command(FOUND_WITH_LATER_FAULTS[story])}"


@pytest.mark.parametrize("seed", FOUND_IN_THE_MIX)
def test_what_the_campaign_found_stays_mended(seed: int) -> None:
    """What went wrong in the campaign once would go wrong again."""
    [case] = default_cases([seed])
    outcome = with_early_faults(case)
    assert outcome.ok, f"{FOUND_IN_THE_MIX[seed]}: {outcome}\n{replay_command(case)}"
