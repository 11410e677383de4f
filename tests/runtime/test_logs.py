"""What a node writes to the logs, and what it keeps to itself."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from antiphon.errors import InvalidOption
from antiphon.model.events import Departed, Installed, MissedMessages, NoMajority
from antiphon.model.ids import MemberId
from antiphon.model.view import View
from antiphon.runtime import logs
from antiphon.runtime.journal import Journal
from antiphon.runtime.node import Node

ANA, BEN, CLEO = (MemberId(f"{name}#0123456789abcdef") for name in ("ana", "ben", "cleo"))


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """Whatever is logged, as JSON lines."""
    stream = io.StringIO()
    handler = logs.configure(json=True, stream=stream)
    yield stream
    quiet(handler)


def quiet(handler: logging.Handler) -> None:
    logs.LOGGER.removeHandler(handler)
    logs.LOGGER.setLevel(logging.NOTSET)
    logs.LOGGER.propagate = True


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_the_life_of_a_node_is_told(written: io.StringIO) -> None:
    """After an incident nobody could say who was in the group when."""

    async def story() -> None:
        async with Node("ana", transport="memory") as ana, Node("ben", transport="memory") as ben:
            here = await ana.create("trip")
            there = await ben.join(here.id, at=[ana.address], timeout=20)
            await here.send_many([b"secret"] * 1_000)
            async for batch in there.batches():
                if batch.last == 1_000:
                    break
            await there.leave(timeout=20)

    asyncio.run(story())
    told = [(line["event"], line["node"]) for line in lines(written)]
    assert [event for event, node in told if node == "ana"] == [
        *("node.started", "group.joined", "group.view", "group.view", "group.left", "node.closed")
    ]
    assert {event for event, node in told if node == "ben"} >= {"node.started", "group.joined", "group.left", "node.closed"}
    assert len(told) < 20, "nothing is told per message"
    assert "secret" not in written.getvalue()
    joined = next(line for line in lines(written) if line["event"] == "group.view")
    assert (joined["group"], joined["members"], joined["joined"]) == ("trip", 2, ["ben"])


def test_what_happens_to_a_view_has_its_own_name(written: io.StringIO) -> None:
    """A partition would look like somebody going home."""
    journal = Journal("ana", "memory", dict)
    alone, two, three = View(1, (ANA,)), View(2, (ANA, BEN)), View(3, (ANA, BEN, CLEO))
    journal.hear("trip#01", Installed(alone, None), {})
    journal.hear("trip#01", Installed(three, alone), {})
    journal.hear("trip#01", Installed(two, three), {})
    journal.hear("trip#01", Installed(alone, two), {BEN: "somewhere"})
    journal.hear("trip#01", NoMajority(alone), {})
    journal.hear("trip#01", Installed(three, alone, ((ANA,), (BEN, CLEO))), {})
    journal.hear("trip#01", MissedMessages({BEN: [1, 5]}), {})
    journal.hear("trip#01", Departed("it held the others up", 3), {})
    told = [{key: value for key, value in line.items() if key not in ("at", "node", "group")} for line in lines(written)]
    assert told == [
        {"level": "INFO", "event": "group.joined", "view": 1, "members": 1},
        {"level": "INFO", "event": "group.view", "view": 3, "members": 3, "joined": ["ben", "cleo"]},
        {"level": "INFO", "event": "group.view", "view": 2, "members": 2, "left": ["cleo"]},
        {"level": "WARNING", "event": "group.lost_members", "view": 1, "members": 1, "lost": ["ben"]},
        {"level": "WARNING", "event": "group.no_majority", "view": 1, "members": 1},
        {"level": "WARNING", "event": "group.merged", "view": 3, "members": 3, "joined": ["ben", "cleo"], "sides": 2},
        {"level": "WARNING", "event": "group.gap", "senders": ["ben"]},
        {"level": "WARNING", "event": "group.left", "reason": "it held the others up", "unsaid": 3},
    ]


def test_drops_are_told_once_and_then_by_the_minute(written: io.StringIO) -> None:
    """Whoever floods a node with bad frames would fill its disk with lines about them."""
    stats: dict[str, Any] = {"drops": {}, "transport": {"drops": {}, "security": {"drops": {}}}, "groups": {"trip#01": {"drops": {}}}}
    journal = Journal("ana", "tcp", lambda: stats)
    for second in range(130):
        stats["drops"] = {"malformed": 1_000 * second}
        stats["transport"]["security"]["drops"] = {"no_key": 1} if second > 10 else {}
        journal.look(float(second))
    told = [(line["where"], line["reason"], line["count"], line["total"]) for line in lines(written)]
    assert told == [
        ("node", "malformed", 1_000, 1_000),
        ("security", "no_key", 1, 1),
        ("node", "malformed", 60_000, 61_000),
        ("node", "malformed", 60_000, 121_000),
    ]


def test_connections_and_suspicions_are_told_when_they_change(written: io.StringIO) -> None:
    """A link that comes and goes would be seen by nobody."""
    transport: dict[str, Any] = {"connections_made": 0, "links": 2, "drops": {}}
    group: dict[str, Any] = {"suspects": []}
    journal = Journal("ana", "tcp", lambda: {"transport": transport, "groups": {"trip#01": group}})
    journal.look(0.0)
    transport["connections_made"], group["suspects"] = 2, [BEN]
    journal.look(1.0)
    transport["drops"]["connection_lost"], group["suspects"] = 1, []
    journal.look(2.0)
    journal.look(3.0)
    told = [(line["event"], line.get("connections"), line.get("suspects"), line.get("members")) for line in lines(written)]
    assert told == [
        ("transport.connected", 2, None, None),
        ("group.suspects", None, ["ben"], None),
        ("transport.disconnected", 1, None, None),
        ("group.trusts", None, None, ["ben"]),
    ]


def test_a_node_looks_by_itself_only_where_somebody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle node would wake up every second for nobody."""
    looked: list[float] = []
    monkeypatch.setattr("antiphon.runtime.journal._LOOK_S", 0.01)
    monkeypatch.setattr(Journal, "look", lambda self, now: looked.append(now))

    async def story() -> None:
        async with Node("ana", transport="memory"):
            async with asyncio.timeout(20):
                while not looked and logs.is_heard():
                    await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)

    logs.LOGGER.propagate = False  # the test runner listens at the root
    asyncio.run(story())
    assert looked == []
    handler = logs.configure(stream=io.StringIO())
    asyncio.run(story())
    assert looked
    quiet(handler)


def test_lines_for_people_cannot_be_forged() -> None:
    """A peer could name itself so that the logs tell of things that never happened."""
    stream = io.StringIO()
    handler = logs.configure(stream=stream)
    logs.log(logging.INFO, "group.view", {"node": "a b", "joined": ["x\n2026 WARNING drops", 'q"'], "members": 2, "empty": ""})
    quiet(handler)
    (line,) = stream.getvalue().splitlines()
    moment, level, event, rest = line.split(maxsplit=3)
    assert (level, event) == ("INFO", "group.view")
    assert moment.endswith("Z")
    assert rest == r'node="a b" joined="x\n2026 WARNING drops,q\"" members=2 empty=""'


def test_a_program_with_its_own_logging_gets_the_same_words(caplog: pytest.LogCaptureFixture) -> None:
    """Only those who give up their own logging would see anything."""
    with caplog.at_level(logging.INFO, logger="antiphon"):
        logs.log(logging.INFO, "node.started", {"node": "ana", "address": "127.0.0.1:4040"})
    assert caplog.messages == ["node.started node=ana address=127.0.0.1:4040"]


def test_to_configure_twice_is_not_to_write_twice() -> None:
    """Each line would be there as often as the logs were configured."""
    first, second = io.StringIO(), io.StringIO()
    logs.configure(stream=first)
    handler = logs.configure(json=True, level="warning", stream=second)
    logs.log(logging.WARNING, "drops", {"node": "ana"})
    logs.log(logging.INFO, "node.started", {"node": "ana"})
    logs.LOGGER.error("plain %s", "words", exc_info=ValueError("why"))
    quiet(handler)
    assert first.getvalue() == ""
    told = [json.loads(line) for line in second.getvalue().splitlines()]
    assert [line["event"] for line in told] == ["drops", "message"]
    assert (told[1]["text"], "ValueError: why" in told[1]["trace"]) == ("plain words", True)
    with pytest.raises(InvalidOption, match="DEBUG, INFO"):
        logs.configure(level="loud")
