"""Every number that a node counts is exported, under a name that the documentation has."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from antiphon.runtime.metrics import CATALOGUE, GROUP, NODE, SECURITY, STORE, TRANSPORT, samples
from antiphon.runtime.node import Node
from antiphon.runtime.security import PreSharedKey

DOCUMENT = Path(__file__).parents[2] / "docs" / "metrics.md"
# What stats have for debuggers: ids, names and tables, which are no measurements.
NOT_MEASURED = {
    *("view", "sequencer", "clock", "next_by_sender", "delivered_by_sender"),
    *("kind", "state", "address", "interface", "multicast.group", "multicast.state", "multicast.filters_own"),
    *("transport", "groups", "security", "store"),
    *("trouble", "ring.holding", "outbox.unreachable"),
}


async def busy(order: str, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The stats of two nodes that have talked, of the one that founded the group first."""
    async with Node("ana", **options) as ana, Node("ben", seeds=[ana.address], **options) as ben:
        here = await ana.create("trip", order=order)
        there = await ben.join("trip", at=[ana.address], timeout=20)
        await here.send_many([b"one", b"two", b"three"])
        await there.send(b"psst", to=here.me)
        async with asyncio.timeout(20):
            count = 0
            async for batch in there.batches():
                count += len(batch)
                if count == 3:
                    break
            async for message in here:
                if message.private:
                    break
        return ana.stats(), ben.stats()


async def with_store(directory: Path) -> dict[str, Any]:
    """The stats of a node that has published, read, and been in groups on its store, and archived."""
    async with Node("ana", transport="memory", store=f"memory:{directory}", outbox=directory / "ana.outbox") as ana:
        on_store, archived = await ana.create("root", on="store"), await ana.create("trip", history_in="store")
        await on_store.send(b"one")
        await archived.send(b"one")
        topic = ana.topic("crash")
        await topic.publish_many([b"1", b"2", b"3"])
        async with await topic.subscribe(id="fire") as fire:
            await fire.read_many(3, 20.0)
            await fire.done(3)
            return ana.stats()


def paths(stats: dict[str, Any], known: dict[str, Any], before: str = "") -> Iterator[str]:
    """The names of all entries; of nested ones those inside, unless they are one metric."""
    for key, value in stats.items():
        path = f"{before}{key}"
        if isinstance(value, dict) and path not in known and path not in NOT_MEASURED:
            yield from paths(value, known, f"{path}.")
        else:
            yield path


OPTIONS: dict[str, dict[str, Any]] = {
    "memory": {"transport": "memory"},
    "tcp": {"transport": "tcp", "bind": "127.0.0.1:0"},
    "udp": {"transport": "udp", "bind": "127.0.0.1:0", "multicast": None},
}


@pytest.mark.parametrize("transport", OPTIONS)
@pytest.mark.parametrize("order", ["fifo", "causal", "total", "semantic"])
def test_everything_that_is_counted_is_exported(transport: str, order: str) -> None:
    """A new counter would be in `stats` and on nobody's dashboard."""
    stats, _ = asyncio.run(busy(order, **OPTIONS[transport], credentials=PreSharedKey(bytes(range(32)))))
    inside: dict[str, Any] = stats["transport"]
    parts = [(stats, NODE), (inside, TRANSPORT), (inside["security"], SECURITY), *((group, GROUP) for group in stats["groups"].values())]
    for part, known in parts:
        assert [path for path in paths(part, known) if path not in known and path not in NOT_MEASURED] == []


def test_everything_that_a_store_counts_is_exported(tmp_path: Path) -> None:
    """An outbox that fills, or a reader that is told of gaps, would be seen by nobody until somebody misses something."""
    stats = asyncio.run(with_store(tmp_path))
    for part, known in [(stats["store"], STORE), *((group, GROUP) for group in stats["groups"].values())]:
        assert [path for path in paths(part, known) if path not in known and path not in NOT_MEASURED] == []
    told = {sample.metric.name: sample.value for sample in samples("ana", stats) if sample.metric in STORE.values()}
    names = ("values.published", "values.read", "positions.written", "subscriptions", "ring.member", "outbox.values", "outbox.blocked")
    # The message in the group on the store is a value too.
    assert [told[f"antiphon.store.{name}"] for name in names] == [4, 3, 1, 1, 1, 0, 0]


def test_the_catalogue_has_nothing_that_nobody_counts(tmp_path: Path) -> None:
    """A dashboard would show a metric that is always missing."""
    found = {sample.metric.name for sample in samples("ana", asyncio.run(with_store(tmp_path)))}
    for options in OPTIONS.values():
        for order in ("fifo", "total"):
            stats, _ = asyncio.run(busy(order, **options, credentials=PreSharedKey(bytes(range(32)))))
            stats["drops"] = stats["refused"] = stats["transport"]["security"]["drops"] = {"no_key": 1}
            for group in stats["groups"].values():
                group["drops"] = {"malformed": 1}
            found |= {sample.metric.name for sample in samples("ana", stats)}
    by_multicast = {metric.name for path, metric in TRANSPORT.items() if path.startswith("multicast.")}  # only in a namespace of its own
    assert {metric.name for metric in CATALOGUE} - found == by_multicast


def test_the_documentation_has_every_metric_and_no_other() -> None:
    """Somebody who builds a dashboard would look for a name that does not exist, or never learn of one that does."""
    rows = re.findall(r"^\| `(antiphon\.[\w.]+)` \| `(\w+)` \| (\w+) \| `([^`]+)` \| ([^|]+) \| ([^|]+) \|$", DOCUMENT.read_text(), re.M)
    written = {name: (prometheus, kind, unit, labels, says) for name, prometheus, kind, unit, labels, says in rows}
    groups = set(GROUP.values())
    assert written == {
        metric.name: (
            metric.prometheus,
            metric.kind,
            metric.unit,
            ", ".join(["node", *(["group"] if metric in groups else []), *([metric.label] if metric.label else [])]),
            metric.help,
        )
        for metric in CATALOGUE
    }


def test_names_are_as_monitoring_systems_want_them() -> None:
    """Prometheus would refuse the page, or two metrics would be one."""
    assert len({metric.name for metric in CATALOGUE}) == len({metric.prometheus for metric in CATALOGUE}) == len(CATALOGUE)
    for metric in CATALOGUE:
        assert re.fullmatch(r"antiphon(\.[a-z_]+)+", metric.name)
        assert re.fullmatch(r"[a-z][a-z_]*", metric.prometheus)
        assert metric.kind in ("counter", "gauge")
        assert re.fullmatch(r"By|s|\{[a-z]+\}", metric.unit)
        assert metric.prometheus.endswith("_total") == (metric.kind == "counter")
        assert ("_bytes" in metric.prometheus) == (metric.unit == "By")


def test_what_was_sent_is_what_was_delivered() -> None:
    """A counter that counts something else would hide a loss."""
    ana, ben = asyncio.run(busy("total", transport="memory"))
    sent = {(sample.metric.name, *sample.labels.values()): sample.value for sample in samples("ana", ana)}
    read = {(sample.metric.name, *sample.labels.values()): sample.value for sample in samples("ben", ben)}
    assert sent["antiphon.group.messages.sent", "ana", "trip"] == 3
    assert read["antiphon.group.messages.delivered", "ben", "trip"] == 3
    assert sent["antiphon.group.letters.delivered", "ana", "trip"] == 1
    assert sent["antiphon.group.views.installed", "ana", "trip"] == 2
    assert sent["antiphon.group.members", "ana", "trip"] == 2
    assert sent["antiphon.group.lag", "ana", "trip", "ben"] >= 0
    assert sent["antiphon.node.frames.sent", "ana"] > 0
    assert read["antiphon.node.received", "ben"] > read["antiphon.node.frames.received", "ben"] > 0


def test_two_groups_of_one_name_are_two_series() -> None:
    """A scraper refuses a page on which one series has two values, and with it everything else."""
    stats = {"groups": {"trip#01": {"members": 2}, "trip#02": {"members": 3}, "work#03": {"members": 4}}}
    assert [(sample.labels["group"], sample.value) for sample in samples("ana", stats)] == [("trip#01", 2), ("trip#02", 3), ("work", 4)]


def test_two_members_of_one_name_are_one_series_with_the_worse() -> None:
    """A member that restarts often would make a new series each time, until the monitoring system is full."""
    (sample,) = samples("ana", {"groups": {"trip#01": {"lag_by_member": {"ben#01": 3, "ben#02": 7}}}})
    assert (sample.labels["member"], sample.value) == ("ben", 7)
