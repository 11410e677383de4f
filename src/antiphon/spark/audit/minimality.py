"""Minimality: a message is delivered on receipt; where `parent_before_child` is promised too, the moment everything it names is delivered.

A member's rows fall into turns: what was received, what was delivered, what has to wait. A message is to be delivered in the turn in which
it was received, or, where parents come first, in which the last of the messages it names was delivered. What a later turn delivers was held
for nothing. And whoever says that a message waits must not name one that was delivered already.

Turns begin with a receive that follows something else or has another time. Those that cannot be told apart count as one, so a promise that
was kept is never called broken.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from antiphon.spark.audit.acts import Acts
from antiphon.spark.audit.finding import as_findings, row
from antiphon.spark.audit.lookup import KEYS, located
from antiphon.spark.audit.parents import pairs


def judge(acts: Acts) -> DataFrame:
    """What was held for nothing, told once for each member and sender. How much was looked at is counted with the ledgers."""
    return _told_late(acts).unionByName(_told_held(acts))


def _late(acts: Acts) -> DataFrame:
    """What one row received and one of a later turn delivered. Every such piece begins where one of the two rows does. A turn is known by
    the index of the row that began it.

        kind     index  at  first  last  turn         first  until  received  delivered
        receive  4      9   1      3     4       →    3      3      4 in 4    7 in 6
        deliver  5      9   1      2     4
        receive  6      10  1      1     6
        deliver  7      10  3      3     6
    """
    by_index = Window.partitionBy("group_id", "member_id").orderBy("index")
    by_number = Window.partitionBy(*KEYS).orderBy("first", "index")
    is_receive = F.col("kind") == "receive"
    goes_on = F.coalesce((F.lag("kind").over(by_index) == "receive") & (F.lag("at").over(by_index) == F.col("at")), F.lit(False))
    row_of = F.struct("last", "turn", "index")
    return (
        acts.promising("minimality", "receive", "deliver", "hold")
        .withColumn("by_parents", F.array_contains("promises", "parent_before_child"))
        .select(*KEYS, "by_parents", "kind", "index", "at", "first", "last", "note")
        .withColumn("begins", F.when(is_receive & ~goes_on, F.col("index")))
        .withColumn("turn", F.last("begins", ignorenulls=True).over(by_index))
        .where(is_receive | ((F.col("kind") == "deliver") & F.col("note").isNull()))
        .withColumns(
            {
                "received": F.last(F.when(is_receive, row_of), ignorenulls=True).over(by_number),
                "delivered": F.last(F.when(~is_receive, row_of), ignorenulls=True).over(by_number),
                "next": F.lead("first").over(by_number),
            }
        )
        .where((F.col("received.last") >= F.col("first")) & (F.col("delivered.last") >= F.col("first")))
        .where(F.col("delivered.turn") > F.col("received.turn"))
        .withColumn("until", F.least(F.col("received.last"), F.col("delivered.last"), F.col("next") - 1))
        .where(F.col("until") >= F.col("first"))
        .select(*KEYS, "by_parents", "first", "until", "received", "delivered")
    )


def _judged(acts: Acts) -> DataFrame:
    """The messages that were delivered late. What a message names is in the row that sent it: where its sender's rows are lost, or end
    before it, nobody knows what it had to wait for."""
    sent = acts.promising("parent_before_child", "send").withColumn("sender_id", F.col("member_id")).select(*KEYS, "first", "last", "index")
    at_the_sender = {"receiver": F.col("member_id"), "member_id": F.col("sender_id")}
    late = _late(acts).select(*KEYS, "by_parents", "received", "delivered", F.explode(F.sequence("first", "until")).alias("number"))
    return (
        located(late.withColumns(at_the_sender), sent, "index")
        .where(~F.col("by_parents") | F.col("found").isNotNull())
        .select("group_id", F.col("receiver").alias("member_id"), "sender_id", "number", "received", "delivered")
    )


def _told_late(acts: Acts) -> DataFrame:
    """Of what was delivered late, what had no parent that came in the same turn."""
    parents = pairs(acts).withColumnsRenamed({"child_of": "sender_id", "child": "number"}).drop("sent")
    messages = (
        _judged(acts)
        .join(parents, ["group_id", "sender_id", "number"], "left")
        .withColumnsRenamed({"sender_id": "child_of", "number": "child", "parent_of": "sender_id", "parent": "number"})
        .withColumns({"named": F.col("number").isNotNull(), "sender_id": F.coalesce("sender_id", F.lit(0))})
        .withColumn("number", F.coalesce("number", F.lit(0)))
    )
    had = acts.promising("parent_before_child", "deliver", "gap").select(*KEYS, "first", "last", "index")
    # A parent that is nowhere to be found is not this promise's affair: it counts as having come just now.
    came = F.when(F.col("named"), F.coalesce(F.col("found.index"), F.col("delivered.index"))).otherwise(-1)
    held = (
        located(messages, had, "index")
        .groupBy("group_id", "member_id", "child_of", "child", "received", "delivered")
        .agg(F.max(came).alias("free"), F.max("found.index").alias("last_parent"))
        .where(F.col("free") < F.col("delivered.turn"))
    )
    example = F.struct(F.col("delivered.index").alias("late"), F.col("received.index").alias("received"), "child", "last_parent")
    cells = held.groupBy("group_id", "member_id", "child_of").agg(F.count(F.lit(1)).alias("amount"), F.min(example).alias("example"))
    one = F.col("example")
    story = F.concat(
        *(F.lit("@"), F.col("member_id"), F.lit(" received message "), one["child"], F.lit(" of @"), F.col("child_of")),
        F.lit(", could have delivered it then, and did so in a later turn"),
    )
    known = [row(F.col("member_id"), one["received"]), row(F.col("member_id"), one["late"])]
    # Where the last parent came after the message, it is from then on that nothing was to be waited for.
    waited = one["last_parent"] > one["received"]
    rows = F.when(waited, F.array(*known, row(F.col("member_id"), one["last_parent"]))).otherwise(F.array(*known))
    return cells.transform(as_findings, "minimality", amount=F.col("amount"), story=story, rows=rows)


def _told_held(acts: Acts) -> DataFrame:
    waiting = (
        acts.promising("minimality", "hold")
        .select(
            "run",
            "group",
            "group_id",
            "member_id",
            F.col("sender_id").alias("child_of"),
            F.col("first").alias("child"),
            F.col("index").alias("held"),
            F.explode("names").alias("name"),
        )
        .select(
            "group_id",
            "member_id",
            "child_of",
            "child",
            "held",
            F.xxhash64("run", "group", "name.sender").alias("sender_id"),
            F.col("name.number").alias("number"),
        )
    )
    had = acts.promising("minimality", "deliver").select(*KEYS, "first", "last", "index")
    wrong = located(waiting, had, "index").where(F.col("found.index") < F.col("held"))
    example = F.struct(
        "held", "child", F.col("found.index").alias("had"), F.col("sender_id").alias("parent_of"), F.col("number").alias("parent")
    )
    cells = wrong.groupBy("group_id", "member_id", "child_of").agg(F.count(F.lit(1)).alias("amount"), F.min(example).alias("example"))
    one = F.col("example")
    story = F.concat(
        *(F.lit("@"), F.col("member_id"), F.lit(" held message "), one["child"], F.lit(" of @"), F.col("child_of")),
        *(F.lit(" for message "), one["parent"], F.lit(" of @"), one["parent_of"], F.lit(", which it had delivered")),
    )
    rows = F.array(row(F.col("member_id"), one["had"]), row(F.col("member_id"), one["held"]))
    return cells.transform(as_findings, "minimality", amount=F.col("amount"), story=story, rows=rows)
