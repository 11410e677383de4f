"""Parent before child: a message after every message it names.

Every name in a send is a pair of messages, and every member of the group a question: where has it the child, and where the parent? What was
delivered as orphaned says that its parents are lost; a parent of which the member was told that it is lost, or which was before the time of
a member that did not want everything, is not asked for. Over best effort a parent that never comes proves nothing.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from antiphon.spark.audit.acts import Acts
from antiphon.spark.audit.finding import as_findings, row
from antiphon.spark.audit.lookup import located

ORDERS = ("semantic", "causal", "total")


def pairs(acts: Acts, orders: tuple[str, ...] = ORDERS) -> DataFrame:
    """Who names whom: `group_id child_of child parent_of parent index`, the last being the row of the send."""
    return (
        acts.in_order(orders, "send")
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
    rows = (
        acts.in_order(ORDERS, "deliver", "gap")
        .join(F.broadcast(answering), "group_id", "left_semi")
        .select("group_id", "member_id", "sender_id", "first", "last", "index", "kind", "note")
    )
    whole = acts.lives.select(
        "group_id", "member_id", (F.col("wants").isin("founder", "all") & (F.col("multicast") != "besteffort")).alias("whole")
    )
    children = (
        pairs(acts)
        .join(F.broadcast(whole), "group_id")
        .withColumnsRenamed({"child_of": "sender_id", "child": "number"})
        .transform(located, rows.where(F.col("kind") == "deliver"), "index", "note")
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
            F.col("found").alias("had"),
        )
    )
    return (
        children.withColumnsRenamed({"parent_of": "sender_id", "parent": "number"})
        .transform(located, rows, "index", "kind", "first")
        .transform(_told)
    )


def _told(pairs: DataFrame) -> DataFrame:
    had, found = F.col("had"), F.col("found")
    later = (found["kind"] == "deliver") & (
        (found["index"] > had["index"]) | ((found["index"] == had["index"]) & (F.col("number") > F.col("child")))
    )
    wrong = F.coalesce(had["note"] != "orphaned", F.lit(True)) & F.when(found.isNull(), F.col("whole")).otherwise(later)
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
