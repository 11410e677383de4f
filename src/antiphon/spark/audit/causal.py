"""Causal: a message after everything its sender had sent or delivered before it. Total order promises it too.

Each member's rows are gone through in their order with a clock: for each sender the largest number delivered so far. A send carries its
sender's clock, a delivery that of the member that delivers; the first must not be ahead of the second. The two meet as in `integrity`: in
the order of the sender's numbers, each delivery with the last send that begins at or before it. With each sender's messages in order
(`fifo`), no more is needed: of a chain of causes that is broken, one link is.

A clock has `SLOTS` entries, so a row has one length; larger groups are gone through once for every so many senders. What a member was told
is lost, has in its state, or was before its time counts as delivered when it delivers, and not when it sends.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from antiphon.spark.audit.acts import Acts
from antiphon.spark.audit.finding import as_findings, point, row
from antiphon.spark.audit.integrity import BLOCK_BITS

SLOTS = 16
_ALL = 1 << 62
_KEYS = ("group_id", "member_id", "sender_id", "slice", "index")


def judge(acts: Acts) -> DataFrame:
    """Messages that came before their causes, told once for each member and sender."""
    block = Window.partitionBy("group_id", "sender_id", "slice", "block").orderBy("number", "side")
    behind = F.filter(
        F.sequence(F.lit(0), F.lit(SLOTS - 1)), lambda slot: F.get("stamp", slot) > F.coalesce(F.get("clock", slot), F.lit(0))
    )
    return (
        _clocked(acts)
        .transform(_numbered)
        .withColumns({"send": F.last("send", ignorenulls=True).over(block)})
        .where((F.col("side") == 1) & (F.col("send.last") >= F.col("number")))
        .withColumn("stamp", F.col("send.stamp"))
        .withColumn("slot", F.get(behind, F.lit(0)))
        .transform(_told, acts)
    )


def _rows(acts: Acts) -> DataFrame:
    """Deliveries, sends, gaps and beginnings, with the sender's place in the clock, once for each slice of the clock."""
    ranks = acts.lives.select("group_id", F.col("member_id").alias("sender_id"), "rank")
    sizes = acts.lives.groupBy("group_id").agg(F.max("rank").alias("top"))
    columns = ("group_id", "member_id", "sender_id", "kind", "index", "first", "last")
    rows = acts.promising("causal", "deliver", "send", "gap").select(*columns)
    return (
        rows.unionByName(_beginnings(acts))
        .join(F.broadcast(ranks), ["group_id", "sender_id"], "left")
        .join(F.broadcast(sizes), "group_id")
        .withColumn("slice", F.explode(F.sequence(F.lit(0).cast("bigint"), F.floor(F.col("top") / SLOTS))))
        .withColumn("slot", F.when(F.floor(F.col("rank") / SLOTS) == F.col("slice"), F.col("rank") % SLOTS))
    )


def _beginnings(acts: Acts) -> DataFrame:
    """Of members that did not want everything: from which number on they answer for each sender, and for none whom they did not meet."""
    late = acts.lives.where(~F.col("wants").isin("founder", "all")).select("group_id", "member_id")
    others = acts.lives.select("group_id", "member", F.col("member_id").alias("sender_id"))
    told = F.filter("names", lambda name: name["sender"] == F.col("other"))
    number = F.when(F.array_contains("members", F.col("other")), F.coalesce(F.get(told, F.lit(0))["number"], F.lit(0))).otherwise(_ALL)
    return (
        acts.promising("causal", "view")
        .where(F.get_json_object("note", "$.previous") == "0")
        .join(F.broadcast(late), ["group_id", "member_id"])
        .select("group_id", "member_id", "index", "members", "names")
        .join(F.broadcast(others.withColumnRenamed("member", "other")), "group_id")
        .select(
            *("group_id", "member_id", "sender_id"),
            F.lit("gap").alias("kind"),
            "index",
            F.lit(0).cast("bigint").alias("first"),
            number.cast("bigint").alias("last"),
        )
    )


def _clocked(acts: Acts) -> DataFrame:
    """Each delivery and send with the clock before it."""
    before = Window.partitionBy("group_id", "member_id", "slice").orderBy("index").rowsBetween(Window.unboundedPreceding, -1)
    is_send = F.col("kind") == "send"
    known = (F.col("kind") == "deliver") & (F.col("sender_id") != F.col("member_id"))
    had = [F.max(F.when((F.col("slot") == slot) & ~is_send, F.col("last"))).over(before) for slot in range(SLOTS)]
    heard = [F.max(F.when((F.col("slot") == slot) & known, F.col("last"))).over(before) for slot in range(SLOTS)]
    rows = _rows(acts).withColumns({f"had{slot}": column for slot, column in enumerate(had)})
    rows = rows.withColumns({f"heard{slot}": column for slot, column in enumerate(heard)})
    return rows.withColumn("clock", F.when(is_send, _array("heard")).otherwise(_array("had"))).drop(
        *(f"{name}{slot}" for name in ("had", "heard") for slot in range(SLOTS)), "slot"
    )


def _array(name: str) -> Column:
    return F.array(*(F.col(f"{name}{slot}") for slot in range(SLOTS)))


def _numbered(clocked: DataFrame) -> DataFrame:
    """Sends at their first number, in every block they touch; deliveries of others' messages at their last."""
    is_send = F.col("kind") == "send"
    blocks = F.sequence(F.shiftright("first", BLOCK_BITS), F.shiftright("last", BLOCK_BITS))
    here = F.array(F.shiftright("last", BLOCK_BITS))
    return clocked.where(is_send | ((F.col("kind") == "deliver") & (F.col("sender_id") != F.col("member_id")))).select(
        *_KEYS,
        F.when(is_send, F.col("first")).otherwise(F.col("last")).alias("number"),
        F.when(is_send, 0).otherwise(1).alias("side"),
        F.explode(F.when(is_send, blocks).otherwise(here)).alias("block"),
        "clock",
        F.when(is_send, F.struct(F.col("index"), F.col("last"), F.col("clock").alias("stamp"))).alias("send"),
    )


def _told(matched: DataFrame, acts: Acts) -> DataFrame:
    cause = F.struct(
        F.col("index"), F.col("number"), F.col("send.index").alias("sent"), "slice", "slot", F.get("stamp", F.col("slot")).alias("cause")
    )
    cells = matched.groupBy("group_id", "member_id", "sender_id").agg(
        F.count(F.when(F.col("slice") == 0, 1)).alias("checked"),
        F.count("slot").alias("amount"),
        F.min(F.when(F.col("slot").isNotNull(), cause)).alias("example"),
    )
    names = acts.lives.select("group_id", F.col("member_id").alias("of"), "rank")
    wrong = F.col("example").isNotNull()
    story = F.concat(
        *(F.lit("@"), F.col("member_id"), F.lit(" delivered message "), F.col("example.number"), F.lit(" of @"), F.col("sender_id")),
        *(F.lit(" before message "), F.col("example.cause"), F.lit(" of @"), F.col("of")),
        *(F.lit(", which @"), F.col("sender_id"), F.lit(" had delivered when it sent it")),
    )
    rows = F.array(row(F.col("sender_id"), F.col("example.sent")), row(F.col("member_id"), F.col("example.index")))
    points = F.array(*(point("deliver", F.col(who), F.col("of"), F.col("example.cause")) for who in ("sender_id", "member_id")))
    return (
        cells.withColumn("rank", F.col("example.slice") * SLOTS + F.col("example.slot"))
        .join(F.broadcast(names), ["group_id", "rank"], "left")
        .transform(
            as_findings,
            "causal",
            checked=F.col("checked"),
            amount=F.col("amount"),
            story=F.when(wrong, story).otherwise(""),
            rows=F.when(wrong, rows).otherwise(F.array()),
            points=F.when(wrong, points).otherwise(F.array()),
        )
    )
