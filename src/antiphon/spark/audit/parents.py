"""Parent before child: a message after every message it names.

Every name in a send is a pair of messages, and every member of the group a question: where has it the child, and where the parent? A
delivery that is marked as orphaned names the parents that are lost, and so does a recovered one of an orphan; those, a parent of which the
member was told that it is lost, or which was before the time of a member that did not want everything, are not asked for. Over best effort
a parent that never comes proves nothing, nor does one that was caught up with in a later view.

A mark is false if the message does not name what the mark calls lost, by the row in which it was sent. And it is false if the member
delivered the parent itself: before, or, except over best effort, later other than by synchronisation. Later
counts only where the sender of the orphan had the parent when it sent it: a faulty sender may name what does not exist yet. What other
members show of marks is in `orphans`.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from antiphon.spark.audit.acts import Acts, member_id
from antiphon.spark.audit.finding import as_findings, row
from antiphon.spark.audit.lookup import located

_LOST = "array<struct<sender_id: bigint, number: bigint>>"


def pairs(acts: Acts) -> DataFrame:
    """Who names whom: `group_id child_of child parent_of parent index`, the last being the row of the send."""
    return (
        acts.promising("parent_before_child", "send")
        .where(F.col("names").isNotNull())
        .select("run", "group", "group_id", "member_id", "index", F.explode("names").alias("name"))
        .select(
            "group_id",
            F.col("member_id").alias("child_of"),
            F.col("name.seqno").alias("child"),
            F.xxhash64("run", "group", "name.sender").alias("parent_of"),
            F.col("name.number").alias("parent"),
            F.col("index").alias("sent"),
        )
    )


def judge(acts: Acts) -> DataFrame:
    """Answers that came before their questions, told once for each member and sender."""
    # Most groups name nothing: their deliveries need not be sorted for it.
    answering = pairs(acts).select("group_id").distinct()
    lost = F.transform("names", lambda name: F.struct(member_id(name["sender"]).alias("sender_id"), name["number"].alias("number")))
    rows = (
        acts.promising("parent_before_child", "deliver", "gap")
        .withColumn("lost", F.when(_is_marked(), F.coalesce(lost, F.array().cast(_LOST))))
        .select("group_id", "member_id", "sender_id", "first", "last", "index", "kind", "note", "lost", "promises")
    )
    asked = rows.join(F.broadcast(answering), "group_id", "left_semi")
    repairs = acts.groups.select("group_id", F.array_contains("promises", "agreement").alias("repairs"))
    whole = acts.lives.join(F.broadcast(repairs), "group_id").select(
        "group_id", "member_id", (F.col("wants").isin("founder", "all") & F.col("repairs")).alias("whole"), "repairs"
    )
    children = (
        pairs(acts)
        .join(F.broadcast(whole), "group_id")
        .withColumnsRenamed({"child_of": "sender_id", "child": "number"})
        .transform(located, asked.where(F.col("kind") == "deliver"), "index", "lost")
        .where(F.col("found").isNotNull())
        .select(
            "group_id",
            "member_id",
            F.col("sender_id").alias("child_of"),
            F.col("number").alias("child"),
            "parent_of",
            "parent",
            "sent",
            "whole",
            "repairs",
            F.col("found").alias("had"),
        )
    )
    found = (
        children.withColumnsRenamed({"parent_of": "sender_id", "parent": "number"})
        .transform(located, asked, "index", "kind", "first", "note")
        .transform(_told)
    )
    sends = acts.promising("parent_before_child", "send").withColumn("sender_id", F.col("member_id"))
    delivered = rows.where(F.col("kind") == "deliver")
    return found.unionByName(_told_marks(delivered, sends)).unionByName(_told_unnamed(delivered, sends, pairs(acts)))


def _is_marked() -> Column:
    return (F.col("note") == "orphaned") | ((F.col("note") == "recovered") & (F.coalesce(F.size("names"), F.lit(0)) > 0))


def _marks(rows: DataFrame) -> DataFrame:
    """Each message that a mark calls lost: `sender_id number`, with the orphan, `child_of child`, and the row of the mark."""
    return rows.where(F.col("lost").isNotNull()).select(
        *("group_id", "member_id", F.col("sender_id").alias("child_of"), F.col("first").alias("child"), F.col("index").alias("marked")),
        F.array_contains("promises", "agreement").alias("repairs"),
        F.inline("lost"),
    )


def _told_unnamed(rows: DataFrame, sends: DataFrame, pairs: DataFrame) -> DataFrame:
    """Marks that call lost what the message does not name, told once for each member and sender."""
    unnamed = (
        _marks(rows)
        .withColumnsRenamed({"sender_id": "parent_of", "number": "parent", "member_id": "at"})
        .join(pairs.drop("sent"), ["group_id", "child_of", "child", "parent_of", "parent"], "left_anti")
        .withColumns({"member_id": F.col("child_of"), "sender_id": F.col("child_of"), "number": F.col("child")})
    )
    sent = (
        located(unnamed, sends, "index")
        .where(F.col("found").isNotNull())
        .withColumns({"sent": F.col("found.index"), "member_id": F.col("at")})
    )
    example = F.struct("marked", "child", "sent", "parent_of", "parent")
    cells = sent.groupBy("group_id", "member_id", "child_of").agg(F.count(F.lit(1)).alias("amount"), F.min(example).alias("example"))
    one = F.col("example")
    story = F.concat(
        *(F.lit("@"), F.col("member_id"), F.lit(" delivered message "), one["child"], F.lit(" of @"), F.col("child_of")),
        *(F.lit(" as orphaned of message "), one["parent"], F.lit(" of @"), one["parent_of"], F.lit(", which it does not name")),
    )
    proof = F.array(row(F.col("child_of"), one["sent"]), row(F.col("member_id"), one["marked"]))
    return cells.transform(as_findings, "parent_before_child", amount=F.col("amount"), story=story, rows=proof)


def _told_marks(rows: DataFrame, sends: DataFrame) -> DataFrame:
    """Marks that call a parent lost which the member delivered itself, told once for each member and sender."""
    marks = _marks(rows)
    later = F.col("repairs") & F.coalesce(F.col("found.note") != "recovered", F.lit(True))
    had = (
        located(marks, rows, "index", "note")
        .where((F.col("found.index") < F.col("marked")) | (F.col("found").isNotNull() & later))
        .withColumns({"had": F.col("found.index"), "at": F.col("member_id"), "member_id": F.col("child_of")})
        .drop("found")
    )
    # Where the orphan's sender has the parent, and where it sent the orphan.
    named = located(had, rows, "index").withColumns(
        {"past": F.col("found.index"), "parent_of": F.col("sender_id"), "parent": F.col("number"), "sender_id": F.col("child_of")}
    )
    sent = located(named.drop("found", "number").withColumn("number", F.col("child")), sends, "index")
    own = (F.col("parent_of") == F.col("child_of")) & (F.col("parent") < F.col("child"))
    valid = own | F.coalesce(F.col("past") < F.col("found.index"), F.lit(False))
    wrong = sent.where((F.col("had") < F.col("marked")) | valid).withColumn("member_id", F.col("at"))
    example = F.struct("marked", "child", "had", "parent_of", "parent")
    cells = wrong.groupBy("group_id", "member_id", "child_of").agg(F.count(F.lit(1)).alias("amount"), F.min(example).alias("example"))
    one = F.col("example")
    story = F.concat(
        *(F.lit("@"), F.col("member_id"), F.lit(" delivered message "), one["child"], F.lit(" of @"), F.col("child_of")),
        *(F.lit(" as orphaned, and delivered its parent, message "), one["parent"], F.lit(" of @"), one["parent_of"]),
    )
    proof = F.array(row(F.col("member_id"), one["had"]), row(F.col("member_id"), one["marked"]))
    return cells.transform(as_findings, "parent_before_child", amount=F.col("amount"), story=story, rows=proof)


def _told(pairs: DataFrame) -> DataFrame:
    had, found = F.col("had"), F.col("found")
    later = (found["kind"] == "deliver") & (
        (found["index"] > had["index"]) | ((found["index"] == had["index"]) & (F.col("number") > F.col("child")))
    )
    lost = had["lost"]
    named = F.exists(lost, lambda one: (one["sender_id"] == F.col("sender_id")) & (one["number"] == F.col("number")))
    # A mark without names is reported by itself (`orphans`).
    caught_up = ~F.col("repairs") & F.coalesce(found["note"] == "recovered", F.lit(False))
    excused = lost.isNotNull() & ((F.size(lost) == 0) | named)
    wrong = ~excused & F.when(found.isNull(), F.col("whole")).otherwise(later & ~caught_up)
    example = F.struct(
        had["index"].alias("index"),
        "child",
        "child_of",
        F.col("sender_id").alias("parent_of"),
        F.col("number").alias("parent"),
        "sent",
        found["index"].alias("later"),
    )
    cells = (
        pairs.withColumn("wrong", wrong)
        .groupBy("group_id", "member_id", "child_of")
        .agg(
            F.count(F.lit(1)).alias("checked"),
            F.sum(F.col("wrong").cast("bigint")).alias("amount"),
            F.min(F.when(F.col("wrong"), example)).alias("example"),
        )
    )
    one = F.col("example")
    story = F.concat(
        *(F.lit("@"), F.col("member_id"), F.lit(" delivered message "), one["child"], F.lit(" of @"), F.col("child_of")),
        *(F.lit(" before the message it names, "), one["parent"], F.lit(" of @"), one["parent_of"]),
    )
    known = [row(F.col("child_of"), one["sent"]), row(F.col("member_id"), one["index"])]
    rows = F.when(one["later"].isNull(), F.array(*known)).otherwise(F.array(*known, row(F.col("member_id"), one["later"])))
    return cells.transform(
        as_findings,
        "parent_before_child",
        checked=F.col("checked"),
        amount=F.col("amount"),
        story=F.when(one.isNotNull(), story).otherwise(""),
        rows=F.when(one.isNotNull(), rows).otherwise(F.array()),
    )
