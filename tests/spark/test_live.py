"""Promises watched while a group runs: every breach with its rows, whatever comes first; nothing made up; nothing kept for ever."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parent))

from injected_descriptions import COMMON
from injected_orders import caused, effect_first
from scenes import Plan, scene

from antiphon.cli.main import OK, UNJUDGED, main
from antiphon.errors import UsageError
from antiphon.sim.swarm import Case, auditable, default_cases, run_recorded
from antiphon.spark.audit.promised import described
from antiphon.spark.audit.verdict import Violation
from antiphon.spark.live import LiveAudit
from antiphon.spark.watching import deliveries, parents, sends, sequences, watch
from antiphon.spark.watching.stretches import stretches
from antiphon.spark.watching.told import COLUMNS, KINDS, Breach, Named, Spot, Told, decode_row
from antiphon.spark.watching.watch import Watch
from antiphon.trace.files import write_rows
from antiphon.trace.row import Row

WAIT_S = 300.0
MEMBERS = ("ana", "ben", "cid")
Trace = dict[str, list[Told]]
"""Rows by writer."""


def group(order: str, deliveries_of: Sequence[tuple[str, int, int]], sent: Iterable[Told] = (), known: int = 100) -> Trace:
    """Three members, who all deliver the same ranges in the same order; then everybody knows all places."""
    trace: Trace = {}
    for member in MEMBERS:
        about = json.dumps({"order": order, "wants": "all"})
        rows = [_row(member, "group", note=about), _row(member, "view", view=1, members=MEMBERS, note='{"previous": 0}')]
        rows += [row for row in sent if row.member == member]
        for sender, first, last in deliveries_of:
            checks = tuple(crc32(f"{sender}{number}".encode()) for number in range(first, last + 1))
            rows.append(_row(member, "deliver", view=1, sender=sender, first=first, last=last, checks=checks))
        rows += stable(member, 1, known, deliveries_of if order == "total" else ())
        trace[member] = numbered(rows)
    return trace


def stable(member: str, view: int, places: int, messages: Iterable[tuple[str, int, int]]) -> list[Told]:
    """Everybody has these messages, and knows so many places."""
    names = tuple(Named(0, sender, last) for sender, _, last in messages)
    held = [_row(member, "stable", view=view, names=names)] if names else []
    return [*held, _row(member, "stable", view=view, amount=places, note="places")]


def _row(member: str, kind: str, **columns: object) -> Told:
    return Told(member, 0, kind, member=member, **columns)  # type: ignore[arg-type]


def sent(sender: str, first: int, last: int, names: Sequence[tuple[int, str, int]] = ()) -> Told:
    checks = tuple(crc32(f"{sender}{number}".encode()) for number in range(first, last + 1))
    named = tuple(Named(*name) for name in names)
    return _row(sender, "send", view=1, sender=sender, first=first, last=last, checks=checks, names=named)


def numbered(rows: Sequence[Told]) -> list[Told]:
    """With the numbers and positions that a recorder gives them."""
    whole, position = [], 0
    for index, row in enumerate(rows, 1):
        whole.append(replace(row, index=index, position=position if row.kind == "deliver" else 0))
        position += row.last - row.first + 1 if row.kind == "deliver" else 0
    return whole


def swapped(rows: list[Told], one: int, other: int) -> list[Told]:
    rows = list(rows)
    rows[one], rows[other] = rows[other], rows[one]
    return numbered(rows)


def rounds_of(trace: Trace, rng: random.Random, amount: int) -> list[list[Told]]:
    """The rows as files might bring them: each writer's in order, cut anywhere."""
    rounds: list[list[Told]] = [[] for _ in range(amount)]
    for rows in trace.values():
        for row, at in zip(rows, sorted(rng.randrange(amount) for _ in rows), strict=True):
            rounds[at].append(row)
    return rounds


def watched(rounds: Iterable[Iterable[Told]]) -> list[Breach]:
    """What is said in the end; between rounds the watch is nothing but its state."""
    state: bytes | None = None
    found: list[Breach] = []
    for rows in rounds:
        mine = Watch.of(state)
        found += mine.round(rows)
        state = mine.state()
    return found


def said(trace: Trace, seed: int = 0, amount: int = 1) -> list[tuple[str, set[tuple[str, int]]]]:
    """Promise and witness of each breach."""
    found = watched(rounds_of(trace, random.Random(seed), amount))
    return [(breach.promise, {(spot.writer, spot.index) for spot in breach.witness}) for breach in found]


# -- each promise ----------------------------------------------------------------------------------------------------------------------
# The rows of `group` are: 1 group, 2 view, what the member sent, one for each delivery, stable.


def test_a_message_that_comes_twice() -> None:
    """An order would be paid twice, and nobody would know until the audit at night."""
    trace = group("unordered", [("ana", 1, 4), ("ana", 9, 9), ("ana", 5, 8)])
    assert said(trace) == []
    row = trace["ben"][3]
    trace["ben"] = numbered([*trace["ben"][:-1], replace(row, first=8, last=9), trace["ben"][-1]])
    assert said(trace) == [("no_duplication", {("ben", 5), ("ben", 6)})]
    (breach,) = watched([[*trace["ben"]]])
    assert breach.sentence == "ben delivered message 8 of ana twice"


def test_a_sender_out_of_order() -> None:
    """A cancelled order would be placed after its cancellation."""
    clean = group("fifo", [("ana", 1, 4), ("ben", 1, 1), ("ana", 5, 6)])
    assert said(clean) == []
    for order, expected in (("fifo", [("fifo", {("cid", 3), ("cid", 5)})]), ("unordered", []), ("semantic", [])):
        trace = group(order, [("ana", 1, 4), ("ben", 1, 1), ("ana", 5, 6)])
        trace["cid"] = swapped(trace["cid"], 2, 4)
        assert said(trace) == expected, order


def test_a_payload_that_is_another_than_was_sent() -> None:
    """Somebody would read what nobody wrote."""
    trace = group("fifo", [("ana", 1, 3), ("ana", 4, 6)], [sent("ana", 1, 2), sent("ana", 3, 6)])
    assert said(trace) == []
    row = trace["ben"][3]
    trace["ben"][3] = replace(row, checks=(row.checks[0], row.checks[1] + 1, row.checks[2]))
    assert said(trace) == [("integrity", {("ana", 4), ("ben", 4)})]
    some = replace(row, first=1, last=200, checks=(7, 8, 9))
    assert sends.Checked.of(some).by_number() == {64: 7, 128: 8, 192: 9}


def test_an_answer_before_its_question() -> None:
    """A reader would meet "yes" before what was asked."""
    named = [sent("ana", 1, 3), sent("ben", 1, 2, [(1, "ana", 2), (2, "ben", 1)])]
    order = [("ana", 1, 1), ("ana", 2, 2), ("cid", 1, 1), ("ben", 1, 2), ("ana", 3, 3)]
    assert said(group("semantic", order, named)) == []
    trace = group("semantic", order, named)
    trace["cid"] = swapped(trace["cid"], 3, 5)
    assert said(trace) == [("parent_before_child", {("cid", 4), ("cid", 6)})]
    early, late = trace["cid"][3], trace["cid"][5]
    trace["cid"][5] = replace(late, note="recovered")
    assert said(trace) == [], "what is recovered is no breach"
    trace["cid"][3] = replace(early, note="orphaned", names=(Named(1, "ana", 2),))
    assert said(trace) == [], "the parent was lost when the child was delivered"
    trace["cid"][5] = late
    trace["cid"][3] = replace(early, note="recovered", names=(Named(1, "ana", 2),))
    assert said(trace) == [], "and when it was recovered"
    trace["cid"][3] = replace(early, note="recovered")
    assert said(trace) == [("parent_before_child", {("cid", 4), ("cid", 6)})], "a recovered child is excused by its mark alone"


def test_two_members_with_another_order() -> None:
    """Two copies of one account would hold different sums."""
    order = [("ana", 1, 2), ("ben", 1, 1), ("cid", 1, 1), ("ana", 3, 9)]
    assert said(group("total", order)) == []
    trace = group("total", order)
    trace["cid"] = swapped(trace["cid"], 3, 4)
    assert said(trace) == [("total", {("ana", 4), ("cid", 4)})]
    # However ranges are cut, the order is the same.
    trace = group("total", order)
    whole = trace["ben"][5]
    cut = [replace(whole, last=5, checks=whole.checks[:3]), replace(whole, first=6, checks=whole.checks[3:])]
    trace["ben"] = numbered([*trace["ben"][:5], *cut, *trace["ben"][6:]])
    assert said(trace) == []


def _stated(trace: Trace, member: str, **changes: object) -> None:
    """Changes what a member states about the group."""
    note = json.loads(trace[member][0].note)
    trace[member][0] = replace(trace[member][0], note=json.dumps({**note, **changes}))


def test_promises_select_what_is_judged_whatever_the_order_is_called() -> None:
    """An order of somebody's own would be called clean however broken it is."""
    order = [("ana", 1, 2), ("ben", 1, 1), ("cid", 1, 1), ("ana", 3, 9)]
    for promises, expected in ((["total"], ["total"]), (["heard_before"], []), (["total", "heard_before"], ["total"])):
        trace = group("lamport", order)
        for member in MEMBERS:
            trace[member] = [*trace[member][:-1], *stable(member, 1, 100, order)]
            _stated(trace, member, promises=promises)
            trace[member] = numbered(trace[member])
        assert said(trace) == []
        trace["cid"] = swapped(trace["cid"], 3, 4)
        assert [promise for promise, _ in said(trace)] == expected
        mine = Watch()
        mine.round([row for rows in trace.values() for row in rows])
        assert mine.unjudged == [name for name in promises if name == "heard_before"]
        assert mine.left == []
    mine = Watch()
    mine.round([row for rows in group("whim", order).values() for row in rows])
    assert mine.unjudged == ["whim"], "an older trace, of an order that is not known"
    assert mine.left == ["agreement", "nothing_lost", "validity", "views", "virtual_synchrony"]


@pytest.mark.parametrize("order", ["unordered", "fifo", "causal", "total", "semantic", "lamport"])
@pytest.mark.parametrize("delivery", ["agreed", "safe"])
def test_every_promise_is_judged_or_listed(order: str, delivery: str) -> None:
    """What nobody looked at while the group ran would pass as kept."""
    own = [*described('{"order": "causal"}').promises, "total", "heard_before", "minimality"]
    trace = group(order, [("ana", 1, 2)])
    for member in MEMBERS:
        _stated(trace, member, delivery=delivery, **({"promises": own} if order == "lamport" else {}))
    promises = described(trace["ana"][0].note).promises
    mine = Watch()
    mine.round([row for rows in trace.values() for row in rows])
    again = Watch.of(mine.state())
    assert sorted([*again.left, *again.unjudged]) == sorted(promises - watch.JUDGED)
    assert again.unjudged == (["heard_before", "minimality"] if order == "lamport" else [])
    assert {"validity", "agreement"} <= {*again.left}
    assert ("safe" in again.left) == (delivery == "safe" and order != "lamport")


def test_a_description_that_is_broken_or_contradicts_another() -> None:
    """Whoever audits the group later would judge it by the wrong promises."""
    clean = [("ana", 1, 2), ("ben", 1, 1)]
    trace = group("fifo", clean)
    trace["ben"][0] = replace(trace["ben"][0], note="{")
    assert said(trace) == [("description", {("ben", 1)})]
    for broken in (
        *({"promises": 7}, {"promises": ["fifo", 7]}, {"promises": []}),
        *({"wants": "nothing"}, {"multicast": "pigeon"}, {"delivery": 3}),
    ):
        trace = group("fifo", clean)
        _stated(trace, "ben", **broken)
        assert said(trace) == [("description", {("ben", 1)})], broken
    for changes in ({"order": "total"}, {"delivery": "safe"}, {"promises": ["fifo", "total"]}):
        trace = group("fifo", clean)
        for member in MEMBERS:
            _stated(trace, member, delivery="agreed", promises=["fifo"])
        assert said(trace) == []
        _stated(trace, "cid", **changes)
        assert said(trace) == [("description", {("ana", 1), ("cid", 1)})], changes
    for one, other in (("ana", "cid"), ("cid", "ana")):
        for changes in ({"delivery": "safe"}, {"delivery": "agreed"}, {"promises": ["fifo", "total"]}):
            trace = group("fifo", clean)
            _stated(trace, one, **changes)
            assert ("description", {(one, 1), (other, 1)}) in said(trace), f"only {one} states {changes}"
    trace = group("fifo", clean)
    trace["cid"] = numbered([*trace["cid"], trace["cid"][0]])
    assert [promise for promise, _ in said(trace)] == ["description"]


def test_who_is_not_in_the_group_is_not_heard_and_hears_nothing() -> None:
    """A stranger could speak to the group, or somebody who left could listen."""
    trace = group("fifo", [("ana", 1, 2), ("eve", 1, 1)])
    assert said({"ben": trace["ben"]}) == [("integrity", {("ben", 4)})]
    trace = group("fifo", [("ana", 1, 2)])
    trace["cid"] = numbered([*trace["cid"], _row("cid", "leave"), _row("cid", "deliver", view=1, sender="ana", first=3, last=3)])
    assert said(trace) == [("integrity", {("cid", 5), ("cid", 6)})]
    trace = group("fifo", [("ana", 1, 2)])
    trace["cid"][1] = replace(trace["cid"][1], members=(*MEMBERS, "ben"))
    assert said(trace) == [("views", {("cid", 2)})]


def test_a_position_that_does_not_follow() -> None:
    """A delivery would be missing from the record of a member, and nobody would miss it."""
    for position in (0, 1, 3, 9):
        trace = group("unordered", [("ana", 1, 2), ("ben", 1, 1)])
        trace["cid"][3] = replace(trace["cid"][3], position=position)
        assert said(trace) == [("positions", {("cid", 3), ("cid", 4)})], position
    trace = group("unordered", [("ana", 1, 2), ("ben", 1, 1)])
    trace["cid"][3] = replace(trace["cid"][3], position=9, index=99)
    assert said({"cid": trace["cid"][:4]}) == [], "rows between the two may have been missed"
    trace["cid"][3] = replace(trace["cid"][3], since=4, until=99)
    assert said({"cid": trace["cid"][:4]}) == [("positions", {("cid", 3), ("cid", 99)})], "they have all been read"


def test_a_position_that_skips_is_seen_between_rows_of_other_kinds() -> None:
    """Before each delivery there is the row of what was received, which the watch is not told."""
    one = scene("r", "trip#1", Plan(), 1)
    member = one.members[0]
    one.of(member, view=2)[3].jump = 3
    rows = [row for row in one.rows() if row.writer == member]
    jump = next(place for place, row in enumerate(rows) if row.kind == "deliver" and row.position > 0 and _skips(rows, place))
    for files in ([rows], [rows[:jump], rows[jump:]], [rows[: jump - 1], rows[jump - 1 :]], [rows[:20], rows[20:40], rows[40:]]):
        (breach,) = watched(_read(file) for file in files)
        assert (breach.promise, breach.witness[-1].index) == ("positions", rows[jump].index)
    for gone in (jump - 1, jump - 2):
        less = [*rows[:gone], *rows[gone + 1 :]]
        assert watched([_read(less)]) == [], "what is missing may be a delivery"
        assert watched([_read(less[:gone]), _read(less[gone:])]) == []
    stable = replace(_told(rows[jump - 1]), kind="stable")
    late = [*_read(rows[: jump - 3]), stable, replace(_told(rows[jump]), since=jump - 1, until=jump)]
    assert watched([late]) == [], "that it follows a row at once says nothing about those before that"


def _skips(rows: Sequence[Row], place: int) -> bool:
    before = [row for row in rows[:place] if row.kind == "deliver"]
    return bool(before) and rows[place].position != before[-1].position + before[-1].last - before[-1].first + 1


def _read(rows: Sequence[Row], group: str = "trip#1") -> list[Told]:
    """What a watch is told of some rows that are read together."""
    writers = {writer: number for number, writer in enumerate({row.writer for row in rows})}
    since, until = stretches(np.array([writers[row.writer] for row in rows]), np.array([row.index for row in rows]))
    return [
        replace(_told(row), since=int(begin), until=int(end))
        for row, begin, end in zip(rows, since, until, strict=True)
        if row.group == group and row.kind in KINDS
    ]


def test_what_is_called_lost_and_is_not() -> None:
    """A member that loses messages would only have to say so."""
    order = [("ana", 1, 1), ("ben", 1, 1), ("ana", 2, 2)]
    named = [sent("ana", 1, 2), sent("ben", 1, 1, [(1, "ana", 1)])]
    next_view = {"view": 2, "members": MEMBERS, "note": '{"previous": 1}'}

    def told(
        note: str = "", apart: bool = False, wants: str = "all", late: bool = False, first: bool = False
    ) -> list[tuple[str, set[tuple[str, int]]]]:
        """`first`: it says so before it delivers anything; `late`: after it has caught up."""
        trace = group("semantic", order, named)
        _stated(trace, "cid", wants=wants)
        lines = [row for row in trace["cid"] if (row.sender, row.first) != ("ana", 2)]
        claim = [_row("cid", "settled", view=1)] if late else []
        claim.append(_row("cid", "gap", view=1, sender="ana", first=2, last=2, note=note))
        trace["cid"] = [*lines[:2], *claim, *lines[2:]] if first else [*lines, *claim]
        sides = '{"previous": 1, "sides": [["ana", "ben"], ["cid"]]}'
        after = {**next_view, "note": sides} if apart else next_view
        return said({member: numbered([*rows, _row(member, "view", **after)]) for member, rows in trace.items()})

    assert [(promise, len(rows)) for promise, rows in told()] == [("agreement", 2)]
    assert told(note="state", wants="state", first=True) == []
    assert [promise for promise, _ in told(note="state", first=True)] == ["agreement"], "it was given no state"
    assert [promise for promise, _ in told(note="state", wants="state", late=True, first=True)] == ["agreement"], "it had caught up"
    assert [promise for promise, _ in told(note="state", wants="state")] == ["agreement"], "it had delivered something"
    assert told(apart=True) == []
    trace = group("semantic", order, named)
    trace["cid"] = numbered([*trace["cid"], _row("cid", "gap", view=1, sender="ana", first=2, last=2)])
    assert [promise for promise, _ in said(trace)] == ["integrity"], "it had delivered it"


def test_orphans_that_are_none() -> None:
    """A member could deliver answers before their questions, and only have to call them orphans."""
    order = [("ana", 1, 1), ("ben", 1, 1)]
    named = [sent("ana", 1, 1), sent("ben", 1, 1, [(1, "ana", 1)])]
    trace = group("semantic", order, named)
    child = trace["cid"][3]
    trace["cid"][3] = replace(child, note="orphaned", names=(Named(1, "ana", 1),))
    assert said(trace) == [("parent_before_child", {("cid", 3), ("cid", 4)})], "it had the parent"
    trace["cid"][3] = replace(child, note="recovered", names=(Named(1, "ana", 1),))
    assert said(trace) == [("parent_before_child", {("cid", 3), ("cid", 4)})], "it had the parent before it recovered the child"
    trace["cid"][3] = replace(child, note="orphaned")
    assert said(trace) == [("parent_before_child", {("cid", 4)})], "it names none"
    trace["cid"][3] = replace(child, note="orphaned", names=(Named(1, "eve", 7),))
    ask = ("ben", trace["ben"].index(next(row for row in trace["ben"] if row.kind == "send")) + 1)
    assert said(trace) == [("parent_before_child", {ask, ("cid", 4)})], "it does not name that"
    strange = group("semantic", order, [named[0], sent("ben", 1, 1, [(1, "eve", 7)])])
    for member in MEMBERS:
        at = next(place for place, row in enumerate(strange[member]) if (row.kind, row.sender) == ("deliver", "ben"))
        strange[member][at] = replace(strange[member][at], note="orphaned", names=(Named(1, "eve", 7),))
    assert said(strange) == [], "nobody ever sent the parent"
    trace = group("semantic", [("ben", 1, 1), ("ana", 1, 1)], named)
    for member in MEMBERS:
        at = next(place for place, row in enumerate(trace[member]) if (row.kind, row.sender) == ("deliver", "ben"))
        trace[member][at] = replace(trace[member][at], note="orphaned", names=(Named(1, "ana", 1),))
    assert said(trace) == [], "its sender did not have the parent either"
    trace = group("semantic", order, named[:1])
    for member in MEMBERS:
        sends = [named[1]] if member == "ben" else []
        trace[member] = numbered([*trace[member][:-2], *sends, *trace[member][-2:]])
    trace["cid"] = [*trace["cid"][:2], replace(child, note="orphaned", names=(Named(1, "ana", 1),)), *trace["cid"][4:]]
    both = {member: [*rows, _row(member, "view", view=2, members=MEMBERS, note='{"previous": 1}')] for member, rows in trace.items()}
    assert [promise for promise, _ in said({member: numbered(rows) for member, rows in both.items()})] == ["parent_before_child"]


def test_what_differs_counts_only_once_all_knew_it_or_went_on_together() -> None:
    """A member that is about to crash, or to be cut off, would be blamed for what it is not promised."""
    order = [("ana", 1, 1), ("ben", 1, 1)]
    trace = group("total", order, known=0)
    trace["cid"] = swapped(trace["cid"], 2, 3)
    assert said(trace) == []
    apart = {member: [*rows, replace(rows[1], index=99, view=view)] for (member, rows), view in zip(trace.items(), (2, 2, 3), strict=True)}
    assert said(apart) == []
    together = {member: [*rows, replace(rows[1], index=99, view=2)] for member, rows in trace.items()}
    assert said(together) == [("total", {("ana", 3), ("cid", 3)})]
    sides = '{"previous": 1, "sides": [["ana", "ben"], ["cid"]]}'
    merged = {member: [*rows[:-1], replace(rows[-1], note=sides)] for member, rows in together.items()}
    assert said(merged) == []


def test_who_knows_a_place_and_lacks_its_message_has_the_next_one_there() -> None:
    """A member would be blamed for having been cut off between the sequencer's word and the message that it was about."""
    trace = group("total", [("ana", 1, 1), ("ben", 1, 1), ("cid", 1, 1)])
    without = [row for row in trace["cid"] if row.sender != "ben"]
    trace["cid"] = numbered(without)
    assert said(trace) == [("total", {("ana", 4), ("cid", 4)})], "everybody had it"
    for member in MEMBERS:
        trace[member] = [replace(row, names=tuple(name for name in row.names if name.sender != "ben")) for row in trace[member]]
    assert said(trace) == []


@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_read_first_the_same_is_found(seed: int) -> None:
    """Which file appears first is chance: a breach would be found on some days."""
    rng = random.Random(seed)
    named = [sent("ana", 1, 3), sent("ben", 1, 2, [(1, "ana", 3)])]
    trace = group("total", [("ana", 1, 2), ("cid", 1, 2), ("ana", 3, 3), ("ben", 1, 2), ("cid", 3, 3)], named)
    assert said(trace, seed, 6) == []
    victim = rng.choice(MEMBERS)
    rows = trace[victim]
    at = next(index for index, row in enumerate(rows) if row.kind == "deliver" and row.sender == "ben")
    altered = replace(rows[at], checks=(rows[at].checks[0] + 1, *rows[at].checks[1:]))
    trace[victim] = swapped([*rows[:at], altered, *rows[at + 1 :]], at, at - 1)
    found = said(trace, seed, 6)
    assert sorted({promise for promise, _ in found}) == ["integrity", "parent_before_child", "total"]
    assert all(any(writer == victim for writer, _ in witness) for _, witness in found)
    assert len([promise for promise, _ in found if promise != "total"]) == 2, "each is said once"


def test_who_comes_later_is_judged_from_the_first_place_on() -> None:
    """The first file of a node would come a second after those of the others, and what it did wrong in it would not be seen."""
    total = [("ana", 1, 2), ("ben", 1, 1), ("cid", 1, 1)]
    trace = group("total", total)
    late = swapped(trace["cid"], 3, 4)
    first = [*trace["ana"], *trace["ben"]]
    assert [breach.witness for breach in watched([first, [], late])] == [(Spot("ana", 4), Spot("cid", 4))]
    # The same where it was heard of, and is still in the view before.
    ahead = group("total", [])
    for name, rows in ahead.items():
        rows.append(_row(name, "view", view=2, members=MEMBERS, note='{"previous": 1}'))
        rows += [_row(name, "deliver", view=2, sender=sender, first=first, last=last) for sender, first, last in total]
        rows += stable(name, 2, 4, total)
    here = {name: numbered(rows) for name, rows in ahead.items()}
    late = swapped(here["cid"], 5, 6)
    assert [breach.witness for breach in watched([[*here["ana"], *here["ben"], *late[:3]], [], late])] == [(Spot("ana", 6), Spot("cid", 6))]


def test_rows_that_are_missing_make_nothing_up() -> None:
    """A disk that was full for a moment would look like another order."""
    for gone in (3, 4, 5):
        trace = group(
            "total", [("ana", 1, 2), ("ben", 1, 1), ("ana", 3, 3), ("cid", 1, 1)], [sent("ana", 1, 3), sent("cid", 1, 1, [(1, "ana", 2)])]
        )
        for member in MEMBERS:
            del trace[member][gone]
            assert said(trace) == [], (gone, member)


def test_rows_that_come_again_are_passed_over() -> None:
    """A file that was copied would look like a second delivery of everything."""
    trace = group("total", [("ana", 1, 4), ("ben", 1, 1)])
    rows = [row for rows in trace.values() for row in rows]
    assert watched([rows, rows]) == []


# -- worlds ----------------------------------------------------------------------------------------------------------------------------


WORLDS = [case for seeds in (range(20), range(2007, 2008), range(5427, 5428)) for case in map(auditable, default_cases(seeds))]
"""In the last two a newcomer is given a state in the middle of a view."""


@pytest.mark.parametrize("case", WORLDS, ids=lambda case: f"{case.kind}-{case.order}-{case.multicast}-{case.seed}")
def test_worlds_with_faults_break_nothing(case: Case) -> None:
    """A watch that cries wolf would be switched off."""
    _, rows = run_recorded(case)
    rng = random.Random(case.seed)
    for name in {row.group for row in rows if row.group}:
        lag_by_writer = {row.writer: rng.random() for row in rows}
        rounds: dict[int, list[Row]] = {}
        for row in sorted(rows, key=lambda row: (row.writer, row.index)):
            rounds.setdefault(int(row.at / 1e9 + lag_by_writer.setdefault(row.writer, 0.0)), []).append(row)
        assert watched(_read(rounds[at], name) for at in sorted(rounds)) == []


def _told(row: Row) -> Told:
    columns = {name: getattr(row, name) for name in COLUMNS if getattr(row, name) is not None}
    if row.names:
        columns["names"] = [{"seqno": seqno, "sender": whose, "number": number} for seqno, whose, number in row.names]
    return decode_row(json.dumps(columns).encode())


# -- what is kept ----------------------------------------------------------------------------------------------------------------------


def _busy(rounds: int, silent: str = "") -> Iterable[list[Told]]:
    """A group in total order that goes on and on; one member may say nothing after its first row."""
    start = group("total", [])
    index, number = 10, 1
    yield [row for rows in start.values() for row in rows[:2]]
    for turn in range(rounds):
        rows: list[Told] = []
        for step in range(20):
            names = [(number + 1, "ana", number)] if step % 5 == 0 else []
            first, last = number, number + 9
            rows.append(replace(sent("ana", first, last, names), index=index))
            for member in MEMBERS:
                if member != silent:
                    given = _row(member, "deliver", view=1, sender="ana", first=first, last=last, position=first - 1)
                    rows.append(replace(given, index=index + 1))
            index, number = index + 2, last + 1
        yield [*rows, replace(_row("ana", "stable", view=1, amount=turn * 200, note="places"), index=index)]
        index += 1


def _sizes(rounds: Iterable[list[Told]]) -> list[int]:
    state: bytes | None = None
    sizes = []
    for rows in rounds:
        mine = Watch.of(state)
        assert mine.round(rows) == []
        state = mine.state()
        sizes.append(len(state))
    return sizes


def test_what_everybody_has_is_forgotten() -> None:
    """A watch over a group that runs for a week would need the memory of a week."""
    sizes = _sizes(_busy(200))
    assert max(sizes[100:]) <= 1.2 * max(sizes[20:40])


def test_who_falls_silent_holds_up_no_more_than_the_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """One member that hangs would fill the memory of the watch, too."""
    for module, name in ((sends, "ROWS"), (parents, "PAIRS"), (sequences, "RUNS"), (deliveries, "ROWS")):
        monkeypatch.setattr(module, name, 50)
    monkeypatch.setattr(watch, "PATIENCE", 1_000)
    sizes = _sizes(_busy(100, silent="cid"))
    assert max(sizes[60:]) <= 1.2 * max(sizes[20:40])
    monkeypatch.undo()
    monkeypatch.setattr(watch, "PATIENCE", 5)
    sizes = _sizes(_busy(60, silent="cid"))
    assert max(sizes[40:]) <= 1.2 * max(sizes[10:20])


def test_members_that_are_long_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group whose members come and go would remember everybody who ever was in it."""
    monkeypatch.setattr(watch, "BURIED", 10)
    # Senders that never were members are forgotten as well; a group that promises integrity would report them.
    about = json.dumps({"order": "mine", "promises": ["no_duplication", "fifo", "total"], "wants": "all"})

    def of_turn(row: Told, turn: int) -> Told:
        names = tuple(f"{name}{turn}" for name in row.members)
        note = about if row.kind == "group" else row.note
        return replace(row, member=f"{row.member}{turn}", writer=f"{row.writer}{turn}", view=turn, members=names, note=note)

    sizes = _sizes(
        [of_turn(row, turn) for rows in group("total", [(f"guest{turn}", 1, 3)]).values() for row in rows] for turn in range(1, 200)
    )
    assert max(sizes[100:]) <= 1.2 * max(sizes[20:40])


def test_a_flood_of_breaches_is_counted_not_told() -> None:
    """A broken group would bury everything else under its reports."""
    trace = group("unordered", [("ana", 1, 1)] * (watch.REPORTS + 50))
    assert len(said({"ben": trace["ben"]})) == watch.REPORTS


def test_a_group_that_everybody_has_left_is_over() -> None:
    """Groups that have ended would stay in the state for ever."""
    trace = group("fifo", [("ana", 1, 1)])
    mine = Watch()
    mine.round([row for rows in trace.values() for row in rows])
    assert not mine.over
    mine.round([replace(_row(member, "leave"), index=50) for member in MEMBERS])
    assert mine.over


# -- through Spark ---------------------------------------------------------------------------------------------------------------------


def _recorded(trace: Trace, run: str = "run", name: str = "trip#1") -> list[Row]:
    """As a recorder writes it."""
    rows = []
    for told in (row for rows in trace.values() for row in rows):
        names = [(each.seqno, each.sender, each.number) for each in told.names] or None
        ranges = {"view": told.view, "position": told.position, "first": told.first, "last": told.last, "amount": told.amount}
        about = {"members": list(told.members) or None, "names": names, "checks": list(told.checks) or None, "note": told.note or None}
        rows.append(Row(run, told.writer, told.index, told.kind, 1, 1, 1, name, told.member, sender=told.sender or None, **ranges, **about))  # type: ignore[arg-type]
    return rows


def _until(audit: LiveAudit, amount: int) -> list[tuple[str, str, tuple[tuple[str, int], ...]]]:
    found: list[tuple[str, str, tuple[tuple[str, int], ...]]] = []
    until = time.monotonic() + WAIT_S
    while len(found) < amount:
        assert time.monotonic() < until, f"only {found} was found in {WAIT_S} s"
        time.sleep(0.2)
        for each in audit.found():
            found.append((each.group, each.promise, tuple(sorted((row.writer, row.index) for row in each.witness))))
    return sorted(found)


def test_a_query_tells_breaches_as_files_appear(spark: SparkSession, tmp_path: Path) -> None:
    """The state would not survive from one micro-batch to the next, a file that is no trace would end the query, or its directory's name
    would be taken for a pattern: another group's breaches would be told, and its own would not."""
    odd, matched = tmp_path / "[a-z]* {of} friday?", tmp_path / "a [a-z] of fridays"
    odd.mkdir()
    clean = group("total", [("ana", 1, 2), ("ben", 1, 1), ("cid", 1, 1)], [sent("ana", 1, 2)])
    broken = {**clean, "cid": swapped(clean["cid"], 3, 4)}
    write_rows(_recorded(broken, name="trip#3"), matched, "run", "all")
    (odd / "run").mkdir()
    (odd / "run" / "half-000000.parquet.tmp").write_bytes(b"PAR1")
    audit = LiveAudit.start(spark, str(odd))
    try:
        for writer, rows in clean.items():
            write_rows(_recorded({writer: rows}, name="trip#1"), odd, "run", writer)
        for writer, rows in broken.items():
            write_rows(_recorded({writer: rows[:-1]}, name="trip#2"), odd, "run", f"{writer}-two")
        (odd / "run" / "damaged-000000.parquet").write_bytes(b"PAR1 and nothing more")
        write_rows(_recorded({"ana": broken["ana"][-1:]}, name="trip#2"), odd, "run", "ana-two", 1)
        assert _until(audit, 1) == [("trip#2", "total", (("ana", 5), ("cid", 4)))]
        again = replace(clean["ben"][3], index=77, position=4)
        write_rows(_recorded({"ben": [again]}, name="trip#1"), odd, "run", "ben", 1)
        assert _until(audit, 1) == [("trip#1", "no_duplication", (("ben", 4), ("ben", 77)))]
        assert audit.found() == []
    finally:
        audit.stop()


def test_a_query_sees_that_a_position_skips(spark: SparkSession, tmp_path: Path) -> None:
    """Rows that the watch is not told lie between any two deliveries, also where a file ends."""
    for name in ("clean#1", "skips#2"):
        one = scene("r", name, Plan(), 1)
        member = one.members[0]
        line = one.of(member, view=2)[3]
        line.jump = 3 if name == "skips#2" else 0
        for writer in one.members:
            rows = [row for row in one.rows() if row.writer == writer]
            cut = one.index(member, line) if writer == member else len(rows) // 2
            write_rows(rows[:cut], tmp_path, "r", f"{writer}-{name}", 0)
            write_rows(rows[cut:], tmp_path, "r", f"{writer}-{name}", 1)
    before = one.of(member)[one.of(member).index(line) - 1]
    audit = LiveAudit.start(spark, str(tmp_path))
    try:
        expected = tuple((member, one.index(member, each)) for each in (before, line))
        assert _until(audit, 1) == [("skips#2", "positions", expected)]
        assert audit.found() == []
    finally:
        audit.stop()


def test_a_directory_that_is_not_there_is_said_so(spark: SparkSession, tmp_path: Path) -> None:
    """A misspelt name would be watched for ever, and nothing would ever be found."""
    with pytest.raises(UsageError, match="is no directory"):
        LiveAudit.start(spark, str(tmp_path / "nowhere"))


def test_the_command_tells_and_leaves_with_one(spark: SparkSession, tmp_path: Path) -> None:
    """Whoever watches from a script would not be told, or be told that all is well."""
    trace = group("fifo", [("ana", 1, 1), ("ana", 2, 2)])
    trace["ben"] = swapped(trace["ben"], 2, 3)
    write_rows(_recorded(trace), tmp_path, "run", "all")
    code = "import sys; from antiphon.cli.main import main; sys.exit(main(sys.argv[1:]))"
    program = [sys.executable, "-c", code, "pipeline", "live", str(tmp_path), "--json", "--master", "local[2]"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        patience = threading.Timer(WAIT_S, running.kill)
        patience.start()
        try:
            assert running.stdout is not None
            told = json.loads(running.stdout.readline() or "null")
            assert told is not None, running.communicate()[1]
            running.send_signal(signal.SIGINT)
            assert running.wait(WAIT_S) == 1
        finally:
            patience.cancel()
            running.kill()
    assert (told["promise"], [row["index"] for row in told["witness"]]) == ("fifo", [3, 4])


@pytest.mark.parametrize("json_lines", [False, True], ids=["text", "json"])
def test_the_command_lists_what_it_does_not_judge(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    json_lines: bool,
) -> None:
    """A broken promise that is for the audit afterwards would pass as kept, and nobody would start that audit."""
    plan = Plan(order="mine", promises=(*COMMON, "fifo", "causal", "heard_before"))
    one = scene("r", "trip#1", plan, 5)
    effect_first(one, *caused(one, random.Random(7)))
    write_rows(one.rows(), tmp_path, "r", "all")
    found, until = LiveAudit.found, time.monotonic() + WAIT_S

    def found_or_stopped(audit: LiveAudit) -> list[Violation]:
        assert time.monotonic() < until, f"nothing was listed in {WAIT_S} s"
        if audit.left_to_audit:
            raise KeyboardInterrupt
        return found(audit)

    monkeypatch.setattr(LiveAudit, "found", found_or_stopped)
    left = ["agreement", "causal", "nothing_lost", "validity", "views", "virtual_synchrony"]
    for strict, expected in (((), OK), (("--strict",), UNJUDGED)):
        assert main(["pipeline", "live", str(tmp_path), *strict, *(["--json"] if json_lines else [])]) == expected
        out = capsys.readouterr().out
        if json_lines:
            lines = [json.loads(line) for line in out.splitlines()]
            assert [line["left_to_audit"] for line in lines if "left_to_audit" in line] == left
            assert [line["not_judged"] for line in lines if "not_judged" in line] == ["heard_before"]
            assert {(line["run"], line["group"]) for line in lines} == {("r", "trip#1")}
        else:
            plain = " ".join(out.split())
            assert f"trip#1: left to `antiphon pipeline audit`: {', '.join(left)}" in plain
            assert "trip#1: not judged, live or afterwards: heard_before" in plain
            assert "no promise was seen broken; not judged, live or afterwards: heard_before; left to `antiphon" in plain
            assert "every" not in plain
