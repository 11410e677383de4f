"""The rows an audit works on: those of groups, with short ids, and who took part.

Group, member and sender are strings of up to 80 characters, and an audit sorts by them again and again; here they become 64-bit hashes that
contain the run: `group_id`, `member_id`, `sender_id`. Two of a hundred thousand are the same by chance once in a thousand million traces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from antiphon.spark.tables import Tables, table_of

_ABOUT = StructType([StructField(name, StringType()) for name in ("order", "multicast", "delivery", "partitions", "wants")])

Chosen = Callable[[DataFrame], DataFrame]
_FEW_GROUPS = 200
"""So many are named in a condition; more are a table."""


class Acts:
    """`rows`: of all groups, with ids. `lives`: each member with its writer. `groups`: each group with its options. Those two are made when
    somebody asks for them, and kept until the end, because whoever looks at rows asks for both.

        lives:   group_id  member_id  run  group  member  writer  index  wants  closed  crashed  rank  order  multicast  …
        groups:  group_id  run  group  order  multicast  delivery  partitions
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
        options = ("run", "group", "order", "multicast", "delivery", "partitions")
        return self.lives.groupBy("group_id").agg(*(F.max(name).alias(name) for name in options)).persist()

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

    def of_kinds(self, *kinds: str) -> DataFrame:
        return self.rows.where(F.col("kind").isin(*kinds))

    def in_order(self, orders: tuple[str, ...], *kinds: str) -> DataFrame:
        """Rows of these kinds in groups with one of these orders, with the group's options."""
        return self.of_kinds(*kinds).join(F.broadcast(self.groups.where(F.col("order").isin(*orders)).drop("run", "group")), "group_id")


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
    """Who was a member of what, by its `group` row. `rank` numbers the members of a group from 0."""
    about = F.from_json("note", _ABOUT)
    ends = writers.select("run", "writer", "closed", "crashed", "contiguous")
    return (
        rows.where(F.col("kind") == "group")
        .select("run", "group", "member", "writer", "index", "group_id", "member_id", about.alias("about"))
        .select("*", "about.*")
        .drop("about")
        .join(F.broadcast(ends), ["run", "writer"], "left")
        .withColumn("rank", (F.row_number().over(Window.partitionBy("group_id").orderBy("member_id")) - 1).cast("bigint"))
    )
