"""Reply trees: the pipeline's forest is that of a plain walk over the links, whatever its shape and size."""

from __future__ import annotations

import gzip
import json
import os
import random
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from antiphon.sim.swarm import Case, run_recorded
from antiphon.spark.forest import rooted
from antiphon.spark.tables import EVENTS, Tables
from antiphon.spark.threads import Threads, threads, threads_of

Message = tuple[str, str, int]
"""Group, sender, number."""
MESSAGES = "run string, group string, sender string, seqno bigint, sent_ns bigint, parent_sender string, parent_seqno bigint"


def send(
    group: str, member: str, first: int, last: int, names: list[tuple[int, str, int]], wall: int = 0, note: str | None = None
) -> tuple[object, ...]:
    return (
        *("r", member, 0, "send", wall, wall, 0, group, member, 1, member, first, last, 0, 0, None, names, None),
        note,
    )


def plain_forest(parents: dict[Message, Message | None]) -> dict[Message, tuple[Message, int] | None]:
    """Root and depth of every message by walking up from each; None for what runs in a circle."""
    found: dict[Message, tuple[Message, int] | None] = {}
    for start in parents:
        path: dict[Message, None] = {}
        at = start
        while at not in found and at not in path:
            path[at] = None
            above = parents[at]
            if above is None or above not in parents:
                found[at] = (at, 0)
                path.popitem()
                break
            at = above
        base = found.get(at)
        for below, one in enumerate(reversed(path), 1):
            found[one] = None if base is None else (base[0], base[1] + below)
    return found


def placed(result: Threads) -> dict[Message, tuple[Message, int] | None]:
    return {
        (row["group"], row.sender, row.seqno): None
        if row.root_seqno is None
        else ((row["group"], row.root_sender, row.root_seqno), row.depth)
        for row in result.messages.collect()
    }


def history(spark: SparkSession, parents: dict[Message, Message | None]) -> DataFrame:
    rows = [("r", *one, place, *(above[1:] if above else (None, None))) for place, (one, above) in enumerate(parents.items())]
    return spark.createDataFrame(rows, MESSAGES)


def test_a_conversation_becomes_trees_with_their_figures(spark: SparkSession) -> None:
    """A report would tell of conversations that nobody had: wrong depths, participants, response times, questions that were answered."""
    rows = [
        send("trip", "ana", 1, 2, [(2, "ben", 1)], wall=100),  # 1 asks; 2 answers ben
        send("trip", "ben", 1, 1, [(1, "ana", 1), (1, "cid", 1)], wall=160),
        send("trip", "cid", 1, 3, [(3, "ana", 1)], wall=200),  # 1 and 2 stand alone
        send("trip", "cid", 4, 4, [(4, "dan", 7)], wall=300),  # of dan nothing is known
        send("trip", "cid", 5, 5, [(5, "ana", 1)], wall=400, note="after"),  # comes after ana's, answers nobody
        send("quiet", "ana", 1, 900, [], wall=100),
    ]
    result = threads(Tables.of_rows(spark, rows))

    trees = {(row.sender, row.seqno): row for row in result.trees.collect()}
    assert set(trees) == {("ana", 1), ("cid", 1), ("cid", 2), ("cid", 4), ("cid", 5)}
    tree = trees["ana", 1]
    assert (tree.size, tree.depth, tree.participants, tree.answers, tree.first_answer_ns) == (4, 2, 3, 2, 60)
    assert trees["cid", 4].lost
    assert not tree.lost

    [group] = result.groups.collect()
    assert (group["group"], group.messages, group.trees, group.answers) == ("trip", 8, 5, 4), "groups without answers are left out"
    assert (group.unanswered, group.lost, group.circular, group.largest, group.deepest) == (3, 1, 0, 4, 2)
    assert group.response_max_ns == 100


def test_generated_forests_equal_a_plain_walk(spark: SparkSession) -> None:
    """Some shape of a conversation (a star, a chain, a circle in a damaged trace) would come out wrong, or never."""
    parents: dict[Message, Message | None] = {}
    for seed in range(12):
        rng = random.Random(seed)
        group = f"g{seed}"
        counts = Counter[str]()
        known: list[Message] = []
        reach = rng.choice((1, 3, 50, 1000))
        for _ in range(rng.randint(1, 400)):
            sender = rng.choice("abcdef")
            counts[sender] += 1
            one = (group, sender, counts[sender])
            parents[one] = rng.choice(known[-reach:]) if known and rng.random() < rng.choice((0.2, 0.9, 1.0)) else None
            if rng.random() < 0.02:
                parents[one] = (group, "gone", 1)
            known.append(one)
        if seed % 3 == 0:  # close a circle
            first = rng.choice(known)
            parents[first] = known[-1]
            parents[known[-1]] = first
    expected = plain_forest(parents)
    result = threads_of(history(spark, parents))
    assert placed(result) == expected
    circular = sum(place is None for place in expected.values())
    assert circular > 0
    sums = result.groups.agg(F.sum("circular"), F.sum("messages"), F.sum("trees")).first()
    assert sums is not None
    assert tuple(sums) == (circular, len(parents), len({place[0] for place in expected.values() if place}))


def test_a_message_that_is_there_twice_counts_once(spark: SparkSession) -> None:
    """A damaged trace of a few hundred doubled rows would fill the disks of a cluster: in every round what is doubled is doubled again."""
    chain = [send("trip", "ana", number, number, [(number, "ana", number - 1)], wall=number) for number in range(2, 10)]
    rows = [send("trip", "ana", 1, 1, [(9, "ben", 1)], wall=1), *chain, *(row for row in chain for _ in range(3))]
    result = threads(Tables.of_rows(spark, rows))
    assert placed(result) == {("trip", "ana", number): (("trip", "ana", 1), number - 1) for number in range(1, 10)}
    [group] = result.groups.collect()
    assert (group.messages, group.answers, group.largest) == (9, 8, 9)


def test_a_chain_of_a_hundred_thousand_answers_ends(spark: SparkSession) -> None:
    """One long conversation, each message answering the one before, would keep the job busy for ever or overflow its plan."""
    length = 100_000
    links = spark.range(length).select("id", F.when(F.col("id") > 0, F.col("id") - 1).alias("parent"))
    result = rooted(links)
    wrong = result.where((F.col("root") != 0) | (F.col("depth") != F.col("id")) | F.col("root").isNull()).count()
    assert (result.count(), wrong) == (length, 0)


def test_simulated_groups_answer_as_their_members_did(spark: SparkSession) -> None:
    """What the recorder writes and what the job reads would not be the same thing: answers would be lost between the two."""
    _, rows = run_recorded(Case(seed=7, order="semantic", messages=200))
    parents: dict[Message, Message | None] = {}
    for row in rows:
        if row.kind == "send" and row.group is not None and row.member is not None:
            answered: dict[int, Message] = {}
            for name in row.names or ():
                if row.note != "after":
                    answered.setdefault(name[0], (row.group, name[1], name[2]))
            for seqno in range(row.first, row.last + 1):
                parents[row.group, row.member, seqno] = answered.get(seqno)
    assert any(parents.values())
    assert placed(threads(Tables.of_rows(spark, rows))) == plain_forest(parents)


def test_a_trace_in_which_nobody_answers_has_no_trees(spark: SparkSession) -> None:
    """A group that only broadcasts would fail the whole report instead of leaving a table empty."""
    result = threads(Tables.of_rows(spark, [send("quiet", "ana", 1, 5, [])]))
    assert (result.messages.count(), result.trees.count(), result.groups.count()) == (0, 0, 0)


def test_annotated_chat_gives_the_annotated_forest(spark: SparkSession) -> None:
    """People's real conversations, with answers to several messages and threads of a hundred, would be rebuilt as others."""
    path = Path(os.environ.get("ANTIPHON_DATA", "../shared/data"), "irc", "messages.jsonl.gz")
    if not path.is_file():
        pytest.skip(f"{path} is not there: set ANTIPHON_DATA to the directory with irc/messages.jsonl.gz")
    counts = Counter[tuple[str, str]]()
    by_id: dict[str, Message] = {}
    parents: dict[Message, Message | None] = {}
    rows = []
    with gzip.open(path) as lines:
        for minute, line in enumerate(map(json.loads, lines)):
            group, sender = line["file"], line["author"] or "server"
            counts[group, sender] += 1
            one = by_id[line["id"]] = (group, sender, counts[group, sender])
            above = [by_id[parent] for parent in line["parents"]]
            parents[one] = above[0] if above else None
            rows.append(send(group, sender, one[2], one[2], [(one[2], *parent[1:]) for parent in above], wall=minute))
    expected = plain_forest(parents)
    result = threads(Tables.of_rows(spark, rows))
    assert placed(result) == expected
    assert len(expected) == len(rows)
    sums = result.groups.agg(F.sum("trees"), F.sum("answers"), F.max("deepest")).first()
    assert sums is not None
    depths = [place[1] for place in expected.values() if place]
    assert tuple(sums) == (depths.count(0), len(depths) - depths.count(0), max(depths))


def test_the_rows_of_this_file_are_rows_of_a_trace() -> None:
    """The tests above would test another schema than the one that traces have."""
    assert len(send("g", "m", 1, 1, [])) == len(EVENTS.fieldNames())
