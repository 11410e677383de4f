"""Integrity: what is delivered was sent, by that member, with that payload.

Deliveries and sends of one sender are put in the order of its numbers, and each delivery finds the last send that begins at or before it.
That is one sort, where a join of ranges would compare everything with everything. Numbers are cut into blocks, so that a sender with most
of the messages is no task of its own; a send that lies in two blocks is in both.

    number  side     of          number  side     send
    1       send     ben    →    4       deliver  1 … 5
    4       deliver  ana
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.window import WindowSpec

from antiphon.spark.audit.acts import Acts
from antiphon.spark.audit.finding import as_findings, row
from antiphon.trace.schema import CHECK_EVERY, SHORT

BLOCK_BITS = 20
"""A block has 2^20 numbers of one sender."""


_KEYS = ("group_id", "member_id", "sender_id", "index")
_ALTERED, _INVENTED, _EARLY = "altered", "invented", "early"


def judge(acts: Acts) -> DataFrame:
    """What was invented or altered, told once for each member and sender."""
    complete = acts.lives.select("group_id", F.col("member_id").alias("sender_id"), (F.col("closed") | F.col("crashed")).alias("complete"))
    return (
        _numbered(acts)
        .withColumn("send", F.last("send", ignorenulls=True).over(_by_number()))
        .where(F.col("side") == 1)
        .join(F.broadcast(complete), ["group_id", "sender_id"], "left")
        .withColumn("wrong", _wrong())
        .transform(_told)
    )


def _by_number() -> WindowSpec:
    return Window.partitionBy("group_id", "sender_id", "block").orderBy("number", "side", "index")


def _numbered(acts: Acts) -> DataFrame:
    """Sends at their first number, in every block they touch; of deliveries each checksum at its number, and the last message."""
    is_send = F.col("kind") == "send"
    count = F.size("checks")
    first, last, messages = F.col("first"), F.col("last"), F.col("last") - F.col("first") + 1
    sparse = (count < messages) & (messages > SHORT)
    blocks = F.transform(
        F.sequence(F.shiftright("first", BLOCK_BITS), F.shiftright("last", BLOCK_BITS)),
        lambda block: _piece(first, F.lit(None), block, F.lit(0)),
    )

    def checked(place: Column) -> Column:
        number = F.when(sparse, _first_checked(first) + place * CHECK_EVERY).otherwise(last - count + 1 + place)
        return _piece(number, F.get("checks", place), None, F.when(number == last, messages).otherwise(0))

    each = F.transform(F.sequence(F.lit(0), count - 1), checked)
    only = F.array(_piece(last, F.lit(None), None, messages))
    lacks_last = sparse & (last % CHECK_EVERY != 0)
    pieces = F.when(is_send, blocks).when((count > 0) & lacks_last, F.concat(each, only)).when(count > 0, each).otherwise(only)
    return acts.promising("integrity", "send", "deliver").select(
        *_KEYS,
        F.when(is_send, 0).otherwise(1).alias("side"),
        F.when(is_send, F.struct("index", "first", "last", "checks")).alias("send"),
        F.inline(pieces),
    )


def _first_checked(first: Column) -> Column:
    """The first number from there on that is checked where not all are."""
    return first + F.pmod(-first, F.lit(CHECK_EVERY))


def _piece(number: Column, check: Column, block: Column | None, messages: Column) -> Column:
    block = F.shiftright(number, BLOCK_BITS) if block is None else block
    columns = {"number": number, "check": check, "block": block, "messages": messages}
    return F.struct(*(column.cast("bigint").alias(name) for name, column in columns.items()))


def _wrong() -> Column:
    """What is wrong with a delivery; null where nothing is. Of a sender whose trace has no end nobody knows what it sent later."""
    covered = F.coalesce(F.col("send.last") >= F.col("number"), F.lit(False))
    checks, first, number = F.col("send.checks"), F.col("send.first"), F.col("number")
    all_are = F.size(checks) == F.col("send.last") - first + 1
    place = F.when(all_are, number - first).when(number % CHECK_EVERY == 0, F.floor((number - _first_checked(first)) / CHECK_EVERY))
    sent = F.get(checks, place.cast("int"))
    return (
        F.when(~covered & (F.col("complete") | (F.col("number") < 1)), _INVENTED)
        .when(covered & (sent != F.col("check")), _ALTERED)
        .when(covered & (F.col("member_id") == F.col("sender_id")) & (F.col("index") < F.col("send.index")), _EARLY)
    )


def _told(matched: DataFrame) -> DataFrame:
    example = F.min(F.when(F.col("wrong").isNotNull(), F.struct("index", "number", "wrong", F.col("send.index").alias("sent"))))
    cells = matched.groupBy("group_id", "member_id", "sender_id").agg(
        F.sum("messages").alias("messages"), F.count("wrong").alias("amount"), example.alias("example")
    )
    wrong = F.col("example.wrong")
    end = (
        F.when(wrong == _INVENTED, " which was never sent")
        .when(wrong == _ALTERED, " with another payload than it was sent with")
        .otherwise(" before it was sent")
    )
    story = F.concat(
        F.lit("@"), F.col("member_id"), F.lit(" delivered message "), F.col("example.number"), F.lit(" of @"), F.col("sender_id"), end
    )
    delivered = row(F.col("member_id"), F.col("example.index"))
    rows = F.when(wrong == _INVENTED, F.array(delivered)).otherwise(F.array(row(F.col("sender_id"), F.col("example.sent")), delivered))
    return cells.transform(
        as_findings,
        "integrity",
        checked=F.col("messages"),
        amount=F.col("amount"),
        story=F.when(wrong.isNotNull(), story).otherwise(""),
        rows=F.when(wrong.isNotNull(), rows).otherwise(F.array()),
    )
