"""Total: in each view one sequence, and every member delivers a beginning of it.

The places of a view are counted from 0 and cut into blocks. For each member and block two sums are taken over its places, in which each
place counts with what is there: two members had the same messages at the same places of a block if, and but for a chance of one in 2^62
only if, their sums are the same. So members are compared by a few numbers for each thousand deliveries, and only blocks that differ are
opened. A range counts as what it is, however it was cut: what stands at a place is said by the sender and the difference between number and
place, which is the same for the whole range.

Those are compared who go together from a view to the next, or end in it; of a newcomer that was given a state, after the view in which it
caught up. A member that goes another way is compared as far as all were known to know the places (`stable` rows); in a safe group entirely
if it crashed, or if only a majority goes on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from antiphon.spark.audit.acts import Acts
from antiphon.spark.audit.finding import Compare, Finding
from antiphon.spark.audit.ledger import GroupLedger, MemberLedger
from antiphon.spark.audit.promised import SAFE

BLOCK = 1_024
"""Places in a block."""
PRIME = (1 << 31) - 1


def places(acts: Acts) -> DataFrame:
    """The ordinary deliveries of total groups with their `place` in the view they were delivered in.

    member  index  view  sender  first  last      place
    ana     4      1     ben     1      3     →   0
    ana     5      1     ana     1      1         3
    ana     9      2     ben     4      4         0
    """
    by_index = Window.partitionBy("group_id", "member_id").orderBy("index")
    length = F.col("last") - F.col("first") + 1
    return (
        acts.promising("total", "deliver")
        .where(F.col("note").isNull())
        .select("group_id", "member_id", "index", "view", "sender_id", "first", "last")
        .withColumns({"until": F.sum(length).over(by_index), "view_before": F.lag("view").over(by_index)})
        .withColumn("from", F.col("until") - length)
        .withColumn("opened", F.when(F.col("view_before").isNull() | (F.col("view_before") != F.col("view")), F.col("from")))
        .withColumn("place", F.col("from") - F.last("opened", ignorenulls=True).over(by_index))
        .drop("until", "from", "opened", "view_before")
    )


def blocks_of_places(acts: Acts) -> DataFrame:
    """For each member, view and block the number of places and their two sums: `group_id member_id view block messages sum square`."""
    end = F.col("place") + F.col("last") - F.col("first")
    span = F.sequence(F.floor(F.col("place") / BLOCK), F.floor(end / BLOCK))
    low = F.greatest(F.col("place") - F.col("block") * BLOCK, F.lit(0)) + 1
    high = F.least(end - F.col("block") * BLOCK, F.lit(BLOCK - 1)) + 1
    here = F.pmod(F.xxhash64("sender_id", F.col("first") - F.col("place")), F.lit(PRIME))
    there = F.pmod(F.xxhash64(F.col("first") - F.col("place"), "sender_id"), F.lit(PRIME))
    return (
        places(acts)
        .withColumn("block", F.explode(span))
        .withColumns({"low": low, "high": high, "here": here, "there": there})
        .groupBy("group_id", "member_id", "view", "block")
        .agg(
            F.sum(F.col("high") - F.col("low") + 1).alias("messages"),
            F.sum(F.col("here") * (_sum_to("high") - _sum_to("low", -1))).alias("sum"),
            F.sum(F.col("there") * (_squares_to("high") - _squares_to("low", -1))).alias("square"),
        )
    )


def _sum_to(name: str, more: int = 0):  # type: ignore[no-untyped-def]
    n = F.col(name) + more
    return (n * (n + 1) / 2).cast("bigint")


def _squares_to(name: str, more: int = 0):  # type: ignore[no-untyped-def]
    n = F.col(name) + more
    return (n * (n + 1) * (2 * n + 1) / 6).cast("bigint")


def judge(ledger: GroupLedger) -> Iterator[Finding]:
    """What differs is a request to compare; whether it is a violation shows when the block is opened. Blocks of which one member has only a
    part come last: most of those turn out to be a beginning."""
    if "total" not in ledger.promises:
        return
    yield from sorted(_differences(ledger), key=lambda finding: finding.story)


def _differences(ledger: GroupLedger) -> Iterator[Finding]:
    yield Finding(ledger.group, "total", checked=sum(count for member in ledger.known for count, _, _ in member.blocks.values()))
    for view in sorted({view for member in ledger.known for view, _ in member.blocks}):
        ways: dict[tuple[object, ...], list[MemberLedger]] = defaultdict(list)
        for member in ledger.known:
            if any(one == view for one, _ in member.blocks) and _began_at_first(member, view):
                ways[_way(member, view)].append(member)
        if not ways:
            continue
        leaders = [max(members, key=lambda member: _length(member, view)) for members in ways.values()]
        for leader, members in zip(leaders, ways.values(), strict=True):
            for member in members:
                if member is not leader:
                    yield from _compare(ledger, view, leader, member, _length(member, view))
        first = max(leaders, key=lambda member: (_way(member, view)[0] in ("on", "there"), _length(member, view)))
        for (way, members), leader in zip(ways.items(), leaders, strict=True):
            if leader is first:
                continue
            for member in members:
                # Those who went one way were compared with their leader; the dead go their way alone.
                if member is leader:
                    yield from _compare(ledger, view, first, member, min(_judged(ledger, member, way[0], view), _length(first, view)))


def _began_at_first(member: MemberLedger, view: int) -> bool:
    """Whether it delivered a view from its first place on. The state that a newcomer was given stands for everything that who gave it had
    delivered by then, and that may be a beginning of the view in which it catches up."""
    if member.wants != "state":
        return True
    caught_up = next((place for place, install in enumerate(member.installs) if install.view in member.settled), len(member.installs))
    return any(install.view == view for install in member.installs[caught_up + 1 :])


def _judged(ledger: GroupLedger, member: MemberLedger, way: object, view: int) -> int:
    """How many places of a member that went another way than the others are theirs too."""
    if SAFE in ledger.promises and (way == "crashed" or ledger.partitions == "majority"):
        return _length(member, view)
    return min(member.places.get(view, 0), _length(member, view))


def _way(member: MemberLedger, view: int) -> tuple[object, ...]:
    """Where it went from the view: those who went the same way are compared entirely."""
    after = member.next_of(view)
    if after is not None:
        return ("on", after.view, next((side for side in after.sides if member.member in side), ()))
    if member.stands:
        return ("there",)
    # Whose trace ends here may have died: of two dead nobody knows what they had in common after the last stable place.
    return ("crashed" if member.crashed else "left" if member.left_at is not None else "cut off", member.member)


def _length(member: MemberLedger, view: int) -> int:
    return sum(count for (one, _), (count, _, _) in member.blocks.items() if one == view)


def _compare(ledger: GroupLedger, view: int, one: MemberLedger, other: MemberLedger, judged: int) -> Iterator[Finding]:
    """Asks for the first block in which the two differ within the first `judged` places."""
    for block in range((judged + BLOCK - 1) // BLOCK):
        mine, theirs = one.blocks.get((view, block)), other.blocks.get((view, block))
        if mine != theirs:
            compare = Compare(view, block, one.member, other.member, min(judged - block * BLOCK, BLOCK))
            in_part = mine is None or theirs is None or mine[0] != theirs[0] or judged < (block + 1) * BLOCK
            yield Finding(ledger.group, "total", story="perhaps" if in_part else "certainly", compare=compare)
            return
