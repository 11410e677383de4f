"""Every delivery with the sending and the receiving of the same messages: what came when.

Traces hold ranges, and the ranges of a send, a receive and a delivery are cut differently. `passages` cuts them where any of the three is
cut: a row is a range of messages that were sent in one row, received in one row and delivered in one row; `amount` says how many.

    send    ben 1…4 at 10        receive ben 1…2 at 15        deliver ben 1…4 at 20
                                 receive ben 3…4 at 20

    →   ben 1…2: sent 10, received 15, delivered 20        ben 3…4: sent 10, received 20, delivered 20

To find what overlaps, every range is cut into **stretches** of the sender's numbers first, as long as the sender's usual batch, and joined
by the number of the stretch. So the joins are plain equi-joins, in which one large group is as good as many small ones, and no more than a
few rows of one stretch meet. How long each sender's stretches are is a small table that every executor has.

Only what members received from others is looked at; a delivery whose sending is not in the trace is left out.

Cost: two joins of about as many rows as the trace has.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_STREAM = ["run", "group", "sender"]
_LATER = ("recovered", "orphaned")


def passages(events: DataFrame) -> DataFrame:
    """(run, group, sender, member, source, destination, amount, note, sent_ns, received_ns, delivered_ns) of events in steady time;
    `source` and `destination` are the machines. What came by synchronisation was never received: null."""
    widths = _batch_widths(events)
    sends = events.where(F.col("kind") == "send").withColumn("sender", F.col("member"))
    sent = _stretches(sends, widths).select(
        *_STREAM, "stretch", *_bounds("sent"), F.col("host").alias("source"), F.col("time_ns").alias("sent_ns")
    )
    foreign = F.col("sender") != F.col("member")
    received = _stretches(events.where((F.col("kind") == "receive") & foreign), widths).select(
        *_STREAM, "stretch", "member", "view", *_bounds("received"), F.col("time_ns").alias("received_ns")
    )
    delivered = _stretches(events.where((F.col("kind") == "deliver") & foreign), widths).select(
        *_STREAM,
        "stretch",
        "member",
        "view",
        "note",
        "low",
        "high",
        F.col("host").alias("destination"),
        F.col("time_ns").alias("delivered_ns"),
    )
    with_send = (
        delivered.join(sent, [*_STREAM, "stretch"])
        .where((F.col("low") <= F.col("sent_high")) & (F.col("high") >= F.col("sent_low")))
        .withColumns({"low": F.greatest("low", "sent_low"), "high": F.least("high", "sent_high")})
    )
    # Who was in a minority may get a message twice, in two views: the delivery belongs to the one in the same view.
    same = [F.col(f"d.{key}") == F.col(f"r.{key}") for key in (*_STREAM, "stretch", "member", "view")]
    overlaps = (F.col("d.low") <= F.col("r.received_high")) & (F.col("d.high") >= F.col("r.received_low"))
    low = F.greatest("d.low", F.coalesce("r.received_low", "d.low"))
    high = F.least("d.high", F.coalesce("r.received_high", "d.high"))
    return (
        with_send.alias("d")
        .join(received.alias("r"), [*same, overlaps], "left")
        .select(
            *(f"d.{column}" for column in ("run", "group", "sender", "member", "source", "destination")),
            (high - low + 1).alias("amount"),
            *("d.note", "d.sent_ns", "r.received_ns", "d.delivered_ns"),
        )
    )


def ordinary() -> Column:
    """Delivered as it came: not caught up with later, not given up waiting for."""
    return ~F.coalesce(F.col("note"), F.lit("")).isin(*_LATER)


def _batch_widths(events: DataFrame) -> DataFrame:
    """How long the stretches of each sender are: its usual batch."""
    length = F.col("last") - F.col("first") + 1
    return (
        events.where(F.col("kind") == "send")
        .groupBy("run", "group", F.col("member").alias("sender"))
        .agg(F.greatest(F.ceil(F.avg(length)), F.lit(1)).cast("long").alias("width"))
    )


def _stretches(rows: DataFrame, widths: DataFrame) -> DataFrame:
    """Each row once for every stretch that it touches, with its `low` and `high` inside of it."""
    first, last, width = F.col("first"), F.col("last"), F.col("width")
    return (
        rows.join(F.broadcast(widths), _STREAM)
        .withColumn("stretch", F.explode(F.sequence(F.floor(first / width), F.floor(last / width))))
        .withColumns(
            {
                "low": F.greatest(first, F.col("stretch") * width),
                "high": F.least(last, F.col("stretch") * width + width - 1),
            }
        )
    )


def _bounds(prefix: str) -> list[Column]:
    return [F.col(bound).alias(f"{prefix}_{bound}") for bound in ("low", "high")]
