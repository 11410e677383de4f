"""Who answered whom: the reply trees of every group that has any, rebuilt from what was sent.

A message answers the first message that it names (`names` of a `send`; one that only comes after others answers none). A message that
answers nothing begins a tree. `threads` gives three tables:

| table | one row is | columns |
|---|---|---|
| `messages` | one message | run, group, sender, seqno, parent_…, root_… (sender, seqno), depth, sent_ns, response_ns, lost |
| `trees` | one tree | run, group, sender, seqno (of its root), size, depth, participants, first_ns, last_ns, answers, … |
| `groups` | one group | run, group, messages, trees, answers, unanswered, lost, circular, largest, deepest, response_… |

    ana:1 "Did you visit Delhi?"              messages of ana:1's tree: 3      depth: 2
      ben:1 "Yes"                             participants: 2                  answers (to the root itself): 1
        ana:2 "When?"

`response_ns` is from the sending of a message to the sending of its answer, in steady time (`spark.clocks`): exact within a machine,
between machines as good as their clocks (`delays` estimates their error). An unanswered question is a tree of one message. `lost`: what
the message answers is not in the trace. `circular` messages answer each other in a circle, which only a damaged trace can say; they are in
no tree.

Keeps no group in one place: ids are numbers and trees are found by pointer jumping (`forest`), so one group with nearly all messages, and
chains of 100,000, are as good as any other. Groups in which nobody answers anything are not looked at message by message.
Percentiles are those of `percentile_approx` with an accuracy of `ACCURACY`: at most one in so many values off in rank.
Cost: a few joins and the rounds of `forest`; 70,000 messages in 163 groups, up to 101 answers deep, take 11 s on two cores.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from antiphon.spark.clocks import hosts_of, steadied
from antiphon.spark.forest import rooted, settled
from antiphon.spark.tables import Tables

ACCURACY = 10_000
_SEQNO_BITS = 32
_SEQNO_MASK = (1 << _SEQNO_BITS) - 1
_NAME = "struct<seqno: bigint, sender: string, number: bigint>"


@dataclass(frozen=True)
class Threads:
    messages: DataFrame
    trees: DataFrame
    groups: DataFrame


def threads(tables: Tables) -> Threads:
    """The reply trees of all groups in the traces."""
    return threads_of(tables.events.transform(steadied, tables.events.transform(hosts_of)).transform(messages_of))


def threads_of(messages: DataFrame) -> Threads:
    """The reply trees of (run, group, sender, seqno, sent_ns, parent_sender, parent_seqno), each message once."""
    senders = settled(messages.transform(_numbered_senders))
    nodes = settled(_nodes(messages, senders))
    placed = settled(_placed(nodes))
    trees = _trees(placed).transform(_named, senders, "root", "")
    return Threads(_messages(placed, senders), trees, _groups(placed, senders, trees))


def messages_of(events: DataFrame) -> DataFrame:
    """One row per message of the groups in which somebody answers somebody, from events in steady time.

    group member first last names                  group sender seqno parent_sender parent_seqno
    trip  ana        1    2 [(2, ben, 7)]     →    trip  ana        1          null         null
                                                   trip  ana        2           ben            7
    """
    only_after = F.coalesce(F.col("note") == "after", F.lit(False))
    sends = events.where(F.col("kind") == "send").withColumn("names", F.when(~only_after, F.col("names")))
    answering = sends.where(F.size("names") > 0).select("run", "group").distinct()
    names = F.coalesce("names", F.array().cast(f"array<{_NAME}>"))
    # The names of one message stand together, the one that it answers first.
    inside = F.filter(names, lambda name: name["seqno"].between(F.col("first"), F.col("last")))
    answers = F.filter(inside, lambda name, place: ~name["seqno"].eqNullSafe(F.get(inside, place - 1)["seqno"]))
    silent = F.array_except(F.sequence("first", "last"), F.transform(answers, lambda name: name["seqno"]))
    roots = F.transform(silent, lambda seqno: F.struct(seqno.alias("seqno"), F.lit(None).alias("sender"), F.lit(None).alias("number")))
    return (
        sends.join(answering, ["run", "group"], "left_semi")
        .select("run", "group", "member", "time_ns", F.explode(F.concat(answers, roots.cast(f"array<{_NAME}>"))).alias("message"))
        .select(
            "run",
            "group",
            F.col("member").alias("sender"),
            F.col("message.seqno").alias("seqno"),
            F.col("time_ns").alias("sent_ns"),
            F.col("message.sender").alias("parent_sender"),
            F.col("message.number").alias("parent_seqno"),
        )
    )


def _numbered_senders(messages: DataFrame) -> DataFrame:
    """(run, group, sender, place): strings become numbers, so that what is shuffled in every round is small. There are far fewer senders
    than messages: one task numbers them, and every executor holds them."""
    senders = messages.select("run", "group", "sender").distinct()
    return senders.withColumn("place", F.row_number().over(Window.orderBy("run", "group", "sender")).cast("long"))


def _nodes(messages: DataFrame, senders: DataFrame) -> DataFrame:
    """(id, parent, sent_ns): a message is a number. A parent whose sender is not in the trace has a number that nobody has. A message that
    is in the trace twice, which no group does but a damaged trace may say, counts as it was sent first: two of one number would both be the
    parent of everything that answers them, and in every round of `forest` there would be more of them."""
    parents = senders.select("run", "group", F.col("sender").alias("parent_sender"), F.col("place").alias("parent_place"))
    parent = F.when(F.col("parent_seqno").isNotNull(), _id(F.coalesce("parent_place", F.lit(0).cast("long")), F.col("parent_seqno")))
    return (
        messages.join(F.broadcast(senders), ["run", "group", "sender"])
        .join(F.broadcast(parents), ["run", "group", "parent_sender"], "left")
        .select(_id(F.col("place"), F.col("seqno")).alias("id"), parent.alias("parent"), "sent_ns")
        .groupBy("id")
        .agg(F.min(F.struct("sent_ns", "parent")).alias("sent"))
        .select("id", "sent.parent", "sent.sent_ns")
    )


def _placed(nodes: DataFrame) -> DataFrame:
    """(id, parent, root, depth, lost, sent_ns, response_ns)."""
    asked = nodes.select(F.col("id").alias("asked"), F.col("sent_ns").alias("asked_ns"))
    return (
        rooted(nodes.select("id", "parent"))
        .join(nodes.select("id", "sent_ns"), "id")
        .join(asked, F.col("parent") == F.col("asked"), "left")
        .select("id", "parent", "root", "depth", "lost", "sent_ns", (F.col("sent_ns") - F.col("asked_ns")).alias("response_ns"))
    )


def _trees(placed: DataFrame) -> DataFrame:
    to_root = F.col("parent") == F.col("root")
    return (
        placed.where(F.col("root").isNotNull())
        .groupBy("root")
        .agg(
            F.count(F.lit(1)).alias("size"),
            F.max("depth").alias("depth"),
            F.count_distinct(_place(F.col("id"))).alias("participants"),
            F.min("sent_ns").alias("first_ns"),
            F.max("sent_ns").alias("last_ns"),
            F.count(F.when(to_root, 1)).alias("answers"),
            F.min(F.when(to_root, F.col("response_ns"))).alias("first_answer_ns"),
            F.max("lost").alias("lost"),
        )
    )


def _messages(placed: DataFrame, senders: DataFrame) -> DataFrame:
    return (
        placed.transform(_named, senders, "id", "")
        .transform(_named, senders, "parent", "parent_")
        .transform(_named, senders, "root", "root_")
        .select(
            *("run", "group", "sender", "seqno", "parent_sender", "parent_seqno", "root_sender", "root_seqno"),
            *("depth", "sent_ns", "response_ns", "lost"),
        )
    )


def _groups(placed: DataFrame, senders: DataFrame, trees: DataFrame) -> DataFrame:
    response = F.col("response_ns")
    quantiles = F.percentile_approx(response, F.array(F.lit(0.5), F.lit(0.9), F.lit(0.99)), ACCURACY)
    by_message = (
        placed.transform(_named, senders, "id", "")
        .groupBy("run", "group")
        .agg(
            F.count(F.lit(1)).alias("messages"),
            F.count("parent").alias("answers"),
            F.count(F.when(F.col("lost"), 1)).alias("lost"),
            F.count(F.when(F.col("root").isNull(), 1)).alias("circular"),
            quantiles.alias("quantiles"),
            F.max(response).alias("response_max_ns"),
        )
    )
    by_tree = trees.groupBy("run", "group").agg(
        F.count(F.lit(1)).alias("trees"),
        F.count(F.when((F.col("size") == 1) & ~F.col("lost"), 1)).alias("unanswered"),
        F.max("size").alias("largest"),
        F.max("depth").alias("deepest"),
        F.max("participants").alias("most_participants"),
    )
    return by_message.join(by_tree, ["run", "group"], "left").select(
        *("run", "group", "messages", "trees", "answers", "unanswered", "lost", "circular", "largest", "deepest", "most_participants"),
        F.get("quantiles", 0).alias("response_p50_ns"),
        F.get("quantiles", 1).alias("response_p90_ns"),
        F.get("quantiles", 2).alias("response_p99_ns"),
        "response_max_ns",
    )


def _id(place: Column, seqno: Column) -> Column:
    return F.shiftleft(place, _SEQNO_BITS).bitwiseOR(seqno)


def _place(number: Column) -> Column:
    return F.shiftrightunsigned(number, _SEQNO_BITS)


def _named(table: DataFrame, senders: DataFrame, column: str, prefix: str) -> DataFrame:
    """The message number in `column` as `{prefix}sender` and `{prefix}seqno`; with the run and the group where there is no prefix."""
    names = senders.select(
        F.col("place").alias("_place"), F.col("sender").alias(f"{prefix}sender"), *([] if prefix else [F.col("run"), F.col("group")])
    )
    seqno = F.col(column).bitwiseAND(F.lit(_SEQNO_MASK)).alias(f"{prefix}seqno")
    kept = [name for name in table.columns if prefix or name != column]
    return (
        table.withColumn("_place", _place(F.col(column)))
        .join(F.broadcast(names), "_place", "left" if prefix else "inner")
        .select(*([] if prefix else ["run", "group"]), f"{prefix}sender", seqno, *kept)
    )
