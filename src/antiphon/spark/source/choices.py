"""What somebody says who reads a topic into Spark: `option(…)`, all of it text, checked before anything is asked of the store.

| option | means |
|---|---|
| `store` | the address of the store; `sqlite:` needs driver and executors on one machine |
| `topic` | a topic, or a group's history: `history/GROUP`, `group/GROUP` |
| `start` | `earliest` (the oldest value that is still there), `latest` (streams), or the number after which to begin |
| `end` | batch: the last number that is read; all there are without it |
| `gaps` | `fail`: a number that is missing ends the query; `report`: it is a row of its own, with `gap` and `gap_last` |
| `partitions` | into how many tasks numbers are divided, if there are enough of them |
| `batchSize` | values in one Arrow batch; a task has at least so many |
| `maxValuesPerTrigger` | stream: numbers in one micro-batch |
| `subscriber` | stream: keeps what the query has not read from being collected, as the subscriber of this id |
| `lease` | seconds that this subscriber keeps values for |
| `timeout` | seconds that a call to the store may take |
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal, cast

from msgspec import Struct

from antiphon.errors import BadStore, InvalidOption
from antiphon.store.records import Moment, Start, checked_lease, checked_name
from antiphon.store.topic import LEASE_S

HISTORIES = ("history/", "group/")
"""What the names of topics that hold a group's messages begin with."""

SHARED = {"store", "topic", "timeout", "path"}
"""What readers and the sink both take; `path` is Spark's own (`load("crash")` names a topic)."""
_KNOWN = SHARED | {"start", "end", "gaps", "partitions", "batchsize", "maxvaluespertrigger", "subscriber", "lease"}


class Choices(Struct, frozen=True, kw_only=True):
    store: str
    topic: str
    timeout_s: float = 60.0
    start: Start = "earliest"
    end: int | None = None
    gaps: Literal["fail", "report"] = "fail"
    partitions: int = 8
    batch_size: int = 4_096
    most_values: int | None = None
    subscriber: str | None = None
    lease: Moment = 0

    @property
    def of_group(self) -> bool:
        """Whether the values are a group's messages."""
        return self.topic.startswith(HISTORIES)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Choices:
        said = known_options(options, _KNOWN)
        gaps = said.get("gaps", "fail")
        if gaps not in ("fail", "report"):
            raise InvalidOption("gaps", gaps, "choose 'fail', or 'report', which makes a row of every gap")
        start: Start = "earliest"
        if (text := said.get("start", "earliest")) in ("earliest", "latest"):
            start = cast(Literal["earliest", "latest"], text)
        else:
            start = whole("start", text, 0)
        return cls(
            store=store_of(said),
            topic=topic_of(said),
            timeout_s=seconds("timeout", said.get("timeout", "60")),
            start=start,
            end=whole("end", said["end"], 0) if "end" in said else None,
            gaps=cast(Literal["fail", "report"], gaps),
            partitions=whole("partitions", said.get("partitions", "8"), 1),
            batch_size=whole("batchSize", said.get("batchsize", "4096"), 1),
            most_values=whole("maxValuesPerTrigger", said["maxvaluespertrigger"], 1) if "maxvaluespertrigger" in said else None,
            subscriber=checked_name(said["subscriber"], "subscriber") if "subscriber" in said else None,
            lease=checked_lease(seconds("lease", said.get("lease", str(LEASE_S)))),
        )


def known_options(options: Mapping[str, str], known: set[str]) -> dict[str, str]:
    """The options by their names in small letters, as Spark compares them; refuses one that nobody would heed."""
    said = {name.lower(): text for name, text in options.items()}
    strange = sorted(name for name in said if name not in known and not name.startswith("checkpoint"))
    if strange:
        raise InvalidOption(strange[0], said[strange[0]], f"there is no such option; there are {', '.join(sorted(known - {'path'}))}")
    return said


def store_of(said: Mapping[str, str]) -> str:
    """The address as it means the same to every worker, wherever it runs."""
    url = said.get("store", "")
    scheme, colon, rest = url.partition(":")
    if not colon:
        raise InvalidOption("store", url, "say where the topic is: option('store', 'sqlite:field.db') or 'nats://host:4222?sync=always'")
    if scheme == "memory":
        raise BadStore(url, "Spark's workers are processes of their own, and a store in memory belongs to one: use sqlite: or nats:")
    if scheme == "sqlite" and not rest.startswith(("/", "~")):
        return f"sqlite:{os.path.abspath(rest)}"
    return url


def topic_of(said: Mapping[str, str]) -> str:
    if "topic" not in said and "path" not in said:
        raise InvalidOption("topic", "", "say which: option('topic', 'crash')")
    return checked_name(said.get("topic", said.get("path", "")))


def whole(name: str, text: str, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        raise InvalidOption(name, text, f"give a whole number, {least} or more") from None
    if not least <= number < 1 << 62:
        raise InvalidOption(name, text, f"give a whole number, {least} or more")
    return number


def seconds(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise InvalidOption(name, text, "give a number of seconds above 0")
    return number
