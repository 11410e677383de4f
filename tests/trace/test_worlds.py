"""What simulated worlds record: the same as their logs say, and without changing anything."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import UsageError
from antiphon.model.control import Wants
from antiphon.model.ids import MessageId, name_of
from antiphon.model.options import GroupOptions, Settings
from antiphon.protocol.registry import promises_of
from antiphon.sim.ground import Ground
from antiphon.sim.log import Delivered, Received, Sent, Viewed
from antiphon.sim.network import Constant, LinkModel, NetworkModel
from antiphon.sim.node_world import NodeWorld
from antiphon.sim.swarm import Case, auditable, default_cases, run_recorded, run_seed
from antiphon.sim.swarm.node_run import run_nodes
from antiphon.sim.swarm.view_run import run_views
from antiphon.sim.view_world import ViewWorld
from antiphon.sim.world import World
from antiphon.trace.reader import read
from antiphon.trace.row import Row
from antiphon.trace.schema import COLUMNS, KINDS

CASES = list(map(auditable, default_cases(range(36))))


def messages(row: Row) -> list[MessageId]:
    assert row.sender is not None
    return [MessageId(row.sender, number) for number in range(row.first, row.last + 1)]  # type: ignore[arg-type]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind}-{case.order}-{case.multicast}-{case.seed}")
def test_recording_changes_nothing(case: Case) -> None:
    """A run that goes otherwise when it is watched would make every trace the trace of something else."""
    watched, rows = run_recorded(case)
    assert watched == run_seed(case)
    number_by_writer: dict[str, int] = defaultdict(int)
    ended = set()
    for row in rows:
        assert len(row) == len(COLUMNS)
        assert row.kind in KINDS
        assert row.index == number_by_writer[row.writer], "numbers without a gap"
        assert row.writer not in ended
        number_by_writer[row.writer] += 1
        assert (row.kind == "open") == (row.index == 0)
        if row.kind in ("close", "crash"):
            ended.add(row.writer)
    assert ended == set(number_by_writer)


@pytest.mark.parametrize("case", CASES[:12], ids=lambda case: f"{case.kind}-{case.order}-{case.multicast}-{case.seed}")
def test_the_trace_tells_what_the_log_tells(case: Case) -> None:
    """An audit would judge something else than the oracles if trace and log did not agree."""
    worlds: list[Ground[Any]] = []
    run_case: Any = run_nodes if case.kind == "nodes" else run_views
    run_case(case, None, worlds.append)
    (world,) = worlds
    told: dict[str, dict[str, list[object]]] = defaultdict(lambda: defaultdict(list))
    for row in world.rows():
        if row.kind in ("send", "receive", "deliver"):
            assert row.kind == "receive" or (row.checks is not None and len(row.checks) == row.last - row.first + 1)
        if row.kind == "deliver":
            assert row.position == len(told[row.member or ""]["deliver"]), "positions without a gap"
        if row.kind in ("send", "deliver"):
            named: dict[int, tuple[tuple[str, int], ...]] = defaultdict(tuple)
            for seqno, whose, number in row.names or ():
                named[seqno] += ((whose, number),)
            view = row.view if row.kind == "deliver" else 0
            for message, check in zip(messages(row), row.checks or (), strict=True):
                told[row.member or ""][row.kind].append((message, check, named[message.seqno], view))
        elif row.kind == "receive":
            told[row.member or ""]["receive"] += messages(row)
        elif row.kind == "view":
            told[row.member or ""]["view"].append((row.view, tuple(row.members or ())))
    for log in world.logs:
        sent = [(event.id, event.payload_hash, event.names, 0) for event in log.events if type(event) is Sent]
        delivered = [(event.id, event.payload_hash, event.lost, event.view) for event in log.events if type(event) is Delivered]
        assert told[log.member]["send"] == sorted(sent)
        assert told[log.member]["deliver"] == delivered
        assert told[log.member]["receive"] == [event.id for event in log.events if type(event) is Received]
        assert told[log.member]["view"] == [(event.view.id, event.view.members) for event in log.events if type(event) is Viewed]


def test_what_is_received_and_must_wait_is_held_and_says_for_what() -> None:
    """Nobody could tell from a trace whether a message waited longer than it had to."""
    network = NetworkModel(latency=Constant(0.01), links={("C", "D"): LinkModel(latency=Constant(0.2))})
    patience = Settings(digest_s=1.0, heartbeat_s=2.0, nack_s=1.0)
    for order in ("semantic", "causal"):
        world = ViewWorld(7, ("A", "B", "C", "D"), GroupOptions(order=order), patience, network, trace=True)
        question = world.send("C", b"Did you visit Delhi?")
        world.run(0.05)
        answer = world.send("B", b"Yes", reply_to=question)
        assert world.settle(5.0)
        rows = [row for row in world.rows() if row.member == world.id_of("D")]
        kinds = [(row.kind, row.sender) for row in rows if row.kind in ("receive", "hold", "deliver")]
        b, c = world.id_of("B"), world.id_of("C")
        assert kinds == [("receive", b), ("hold", b), ("receive", c), ("deliver", c), ("deliver", b)]
        (held,) = [row for row in rows if row.kind == "hold"]
        assert (held.first, held.last, held.names) == (answer.seqno, answer.seqno, [(0, c, question.seqno)])


def test_a_crash_is_the_last_that_is_told_and_says_what_was_stable() -> None:
    """A crashed member would be judged for messages that it could not know of."""
    world = ViewWorld(3, ("a", "b", "c"), GroupOptions(order="total"), trace="the run")
    for _ in range(5):
        world.send("a", b"x")
        world.run(0.2)
    assert world.settle(5.0)
    world.run(3.0)
    victim = world.id_of("b")
    world.send("b", b"said and not sent")
    world.crash("b")
    rows = [row for row in world.rows() if row.writer == victim]
    assert rows[-1].kind == "crash"
    assert rows[-1].run == "the run"
    assert [row.kind for row in rows].count("send") == 1
    stable = [row for row in rows if row.kind == "stable"]
    assert (0, world.id_of("a"), 5) in (next(row.names for row in reversed(stable) if row.names) or ())
    assert next(row.amount for row in reversed(stable) if row.note == "places") == 5


def test_what_happened_before_has_no_larger_hybrid_clock() -> None:
    """With clocks that go wrong nobody could put the rows of several nodes into an order that may have been."""
    world = NodeWorld(5, ("a", "b", "c"), trace=True)
    assert world.gather(options=GroupOptions(order="causal"))
    for name, offset_s in (("a", 40.0), ("b", 0.0), ("c", 3.0)):
        world.skew(name, offset_s)
    for turn in range(60):
        world.send("abc"[turn % 3], b"x")
        world.run(0.003 if turn % 2 else 0.02)
    assert world.settle(20.0)
    sent_at: dict[MessageId, int] = {}
    latest: dict[str, int] = defaultdict(int)
    rows = [row for row in world.rows() if row.member]
    for row in rows:
        assert row.hlc >= latest[row.member or ""]
        latest[row.member or ""] = row.hlc
        if row.kind == "send":
            sent_at |= dict.fromkeys(messages(row), row.hlc)
    others = [row for row in rows if row.kind in ("receive", "deliver") and row.sender != row.member]
    assert len(others) > 100
    assert all(row.hlc > sent_at[message] for row in others for message in messages(row))
    assert any(row.wall < sent_at[messages(row)[0]] for row in others), "wall clocks alone would not do"


def test_a_world_is_one_file_and_keeps_every_name(tmp_path: Path) -> None:
    """The longest and strangest names would make a run vanish from its trace."""
    names = ("🦜" * 60, "a/b", "x" * 40)
    world = ViewWorld(1, names, trace="🦜/" * 30)
    world.send(names[0], b"x")
    assert world.settle(5.0)
    path = world.write_trace(tmp_path)
    assert path.is_file()
    contents = read(tmp_path)
    assert [file.reason for file in contents.files] == [""]
    assert {name_of(writer.writer) for writer in contents.writers()} == set(names)
    assert sorted(contents.rows()) == sorted(world.rows(), key=lambda row: row[:3])


def test_programs_are_recorded_too() -> None:
    """A program that was tried in virtual time could not be audited like the same one on a network."""
    world = World(2, trace=True)

    async def ana() -> None:
        async with world.node("ana") as node:
            group = await node.create("trip", order="total")
            await group.send_many([b"1", b"2"])
            assert await world.settle("trip")
            async for _ in group:
                break

    world.run(ana())
    rows = world.rows()
    kinds = [row.kind for row in rows]
    for kind in ("open", "group", "view", "send", "receive", "deliver", "leave", "close"):
        assert kind in kinds
    (group,) = [json.loads(row.note or "") for row in rows if row.kind == "group"]
    assert (group["name"], group["order"], group["wants"]) == ("trip", "total", "founder")
    assert group["promises"] == [*promises_of(GroupOptions(order="total"))]


def test_nothing_is_delivered_to_who_has_left() -> None:
    """An application that has closed its files on `Departed` would be handed messages of the same turn afterwards."""
    (case,) = default_cases(range(911, 912))
    _, rows = run_recorded(case)
    left: set[str | None] = set()
    for row in sorted(rows, key=lambda row: (row.writer, row.index)):
        left |= {row.member} if row.kind == "leave" else set()
        assert row.kind != "deliver" or row.member not in left, row
    assert left


def test_who_is_not_recorded_says_so() -> None:
    """Somebody who forgot to ask for a trace would be given an empty one."""
    with pytest.raises(UsageError, match="trace=True"):
        ViewWorld().rows()


def test_a_state_stands_for_the_messages_that_it_holds() -> None:
    """Who was given a state instead of messages would be accused of not having delivered them."""
    world = NodeWorld(4, ("a", "b", "c"), trace=True)
    world.create("a", options=GroupOptions(order="fifo"))
    for name in "abc":
        world.on_state(name, lambda: b"state", lambda state: None)
    for _ in range(3):
        world.send("a", b"x")
    assert world.wait_for(lambda: bool(world.known("c")), 10.0)
    world.join("c", wants=Wants("state"))
    assert world.settle(20.0)
    world.send("a", b"y")
    assert world.settle(20.0)
    rows = [row for row in world.rows() if row.member == world.id_of("c")]
    assert [(row.first, row.last, row.note) for row in rows if row.kind == "gap"] == [(1, 3, "state")]
    assert [(row.first, row.last) for row in rows if row.kind == "deliver"] == [(4, 4)]
    assert [json.loads(row.note or "")["wants"] for row in rows if row.kind == "group"] == ["state"]
