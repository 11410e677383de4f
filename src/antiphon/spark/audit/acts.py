"""The rows an audit works on: those of groups, with short ids, and who took part.

Group, member and sender are strings of up to 80 characters, and an audit sorts by them again and again; here they become 64-bit hashes that
contain the run: `group_id`, `member_id`, `sender_id`. Two of a hundred thousand are the same by chance once in a thousand million traces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from antiphon.spark.audit.promised import BY_ORDER, BY_REPAIR, COMMON, DELIVERIES, MULTICASTS, SAFE, WANTS
from antiphon.spark.tables import Tables, table_of

_ABOUT = StructType(
    [
        *(StructField(name, StringType()) for name in ("order", "multicast", "delivery", "wants")),
        StructField("promises", ArrayType(StringType())),
    ]
)

Chosen = Callable[[DataFrame], DataFrame]
_FEW_GROUPS = 200
"""So many are named in a condition; more are a table."""


class Acts:
    """`rows`: of all groups, with ids. `lives`: each member with its writer. `groups`: each group with its promises. Those two are made
    when somebody asks for them, and kept until the end, because whoever looks at rows asks for both.

        lives:   group_id  member_id  run  group  member  writer  index  note  wants  promises  closed  crashed  rank
        groups:  group_id  run  group  promises

    The promises of a group are those that most of its members state; null where no member's `group` row can be read.
    """

    def __init__(self, rows: DataFrame, writers: DataFrame, chosen: Chosen | None = None, whole: Acts | None = None) -> None:
        self.writers = writers
        self._whole, self._chosen = whole, chosen
        self.rows = rows if chosen is None else chosen(rows)

    @classmethod
    def of(cls, tables: Tables) -> Acts:
        return cls(tables.events.where(F.col("group").isNotNull()).transform(identified), tables.writers)

    @cached_property
    def lives(self) -> DataFrame:
        if self._whole is not None and self._chosen is not None:
            return self._chosen(self._whole.lives)
        return self.rows.transform(lives_of, self.writers).persist()

    @cached_property
    def groups(self) -> DataFrame:
        if self._whole is not None and self._chosen is not None:
            return self._chosen(self._whole.groups)
        names = [F.max(name).alias(name) for name in ("run", "group")]
        return self.lives.groupBy("group_id").agg(*names, F.mode("promises", True).alias("promises")).persist()

    def __enter__(self) -> Acts:
        return self

    def __exit__(self, *_: object) -> None:
        for kept in ("groups", "lives"):
            if kept in self.__dict__:
                self.__dict__[kept].unpersist()

    @property
    def names(self) -> DataFrame:
        """`group_id run group`. Of topics nobody tells it but their own rows."""
        return self.groups.select("group_id", "run", "group")

    def only(self, groups: Sequence[int]) -> Acts:
        """What is about these groups."""
        if len(groups) <= _FEW_GROUPS:
            return Acts(self.rows, self.writers, lambda frame: frame.where(F.col("group_id").isin(*groups)), self)
        chosen = table_of(self.rows.sparkSession, [(group,) for group in groups], StructType([StructField("group_id", LongType())]))
        return Acts(self.rows, self.writers, lambda frame: frame.join(F.broadcast(chosen), "group_id", "left_semi"), self)

    def writers_in(self, writers: list[int]) -> DataFrame:
        """Those of the writers with these ids: `writer_id writer`."""
        named = self.writers.select(F.xxhash64("run", "writer").alias("writer_id"), "writer")
        return named.where(F.col("writer_id").isin(writers))

    def named_in(self, groups: list[int]) -> DataFrame:
        """Who is in these groups: `member_id member writer`."""
        return self.lives.where(F.col("group_id").isin(groups)).select("member_id", "member", "writer")

    def named_by_rows(self, members: list[int]) -> DataFrame:
        """Members of whom there is no `group` row, by their other rows: `member_id member writer`."""
        rows = self.rows.where(F.col("member_id").isin(members) & F.col("member").isNotNull())
        return rows.groupBy("member_id").agg(F.min("member").alias("member"), F.min("writer").alias("writer"))

    def of_kinds(self, *kinds: str) -> DataFrame:
        return self.rows.where(F.col("kind").isin(*kinds))

    def promising(self, promise: str, *kinds: str) -> DataFrame:
        """Rows of these kinds in groups that give this promise, with all promises of the group."""
        groups = self.groups.where(F.array_contains("promises", promise)).drop("run", "group")
        return self.of_kinds(*kinds).join(F.broadcast(groups), "group_id")


def identified(rows: DataFrame) -> DataFrame:
    """Adds the ids."""
    return rows.withColumns(
        {
            "group_id": F.xxhash64("run", "group"),
            "member_id": member_id(F.col("member")),
            "sender_id": member_id(F.col("sender")),
        }
    )


def member_id(member: Column) -> Column:
    return F.xxhash64(F.col("run"), F.col("group"), member)


def lives_of(rows: DataFrame, writers: DataFrame) -> DataFrame:
    """Who was a member of what, by its first `group` row. `rank` numbers the members of a group from 0."""
    about = F.col("about")
    stated = F.coalesce(F.array_contains(F.json_object_keys("note"), "promises"), F.lit(False))
    broken = stated & (about["promises"].isNull() | (F.size(about["promises"]) == 0))
    for name, known in (("multicast", MULTICASTS), ("delivery", DELIVERIES)):
        broken |= ~F.coalesce(about[name], F.lit(known[0])).isin(*known)
    wants = F.coalesce(about["wants"], F.lit("all"))
    readable = F.coalesce(about["order"] != "", F.lit(False)) & ~broken & wants.isin(*WANTS)
    ends = writers.select("run", "writer", "closed", "crashed", "contiguous")
    first = Window.partitionBy("group_id", "member_id").orderBy("index")
    return (
        rows.where(F.col("kind") == "group")
        .select("run", "group", "member", "writer", "index", "group_id", "member_id", "note", F.from_json("note", _ABOUT).alias("about"))
        .withColumn("place", F.row_number().over(first))
        .where(F.col("place") == 1)
        .withColumns(
            {
                "wants": F.when(readable, wants).otherwise(""),
                "promises": F.when(readable, _promises(about)),
            }
        )
        .drop("about", "place")
        .join(F.broadcast(ends), ["run", "writer"], "left")
        .withColumn("rank", (F.row_number().over(Window.partitionBy("group_id").orderBy("member_id")) - 1).cast("bigint"))
    )


def _promises(about: Column) -> Column:
    """Return `Description.promises` in SQL, a sorted array, of a struct of `order`, `multicast`, `delivery` and `promises`."""

    def array(names: Iterable[str]) -> Column:
        return F.array(*(F.lit(name) for name in names)).cast("array<string>")

    by_order = F.array(about["order"])
    for order, names in BY_ORDER.items():
        by_order = F.when(about["order"] == order, array(names)).otherwise(by_order)
    repaired = F.when(about["multicast"].eqNullSafe("besteffort"), array(())).otherwise(array(BY_REPAIR))
    safe = F.when(about["delivery"].eqNullSafe("safe"), array((SAFE,))).otherwise(array(()))
    return F.array_sort(F.array_distinct(F.coalesce(about["promises"], F.concat(array(COMMON), repaired, safe, by_order))))
