"""The audit finds what was put into a trace, proves it by the rows that alone prove it, and finds nothing else."""

from __future__ import annotations

import random
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parent))

from injected_claims import of_who_was_in_no_view
from injections import FAULTS, Fault, Proof
from scenes import Line, Plan, Scene, scene, topic

from antiphon.spark.audit import PROMISES, Verdicts, Violation, Witness, audit
from antiphon.spark.audit.sheet import Limits
from antiphon.spark.tables import EVENTS, Tables
from antiphon.trace.files import table_of
from antiphon.trace.row import Row

RUN = "r"
SEED = 20_261_116


@pytest.fixture(scope="module")
def plain(spark: SparkSession) -> Iterator[SparkSession]:
    """Compiling code for tables of some thousand rows takes longer than working through them."""
    settings = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    before = {name: spark.conf.get(name) or "" for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.set(name, value)


def audited(spark: SparkSession, rows: Sequence[Row], path: Path, limits: Limits = Limits()) -> Verdicts:  # noqa: B008
    pq.write_table(table_of(list(rows)), path)
    return audit(Tables.of_events(spark.read.schema(EVENTS).parquet(str(path))), limits)


def by_group(verdicts: Verdicts) -> dict[str, dict[str, int]]:
    """What is broken, by group and promise."""
    broken: dict[str, dict[str, int]] = defaultdict(dict)
    for verdict in verdicts.verdicts:
        if verdict.violations:
            broken[verdict.group][verdict.promise] = verdict.violations
    return broken


def proven(scene: Scene, proofs: Sequence[Proof]) -> set[frozenset[Witness]]:
    return {frozenset(Witness(scene.run, member, scene.index(member, line)) for member, line in proof) for proof in proofs}


def wrongs(fault: Fault, scene: Scene, proofs: Sequence[Proof], broken: dict[str, int], told: Sequence[Violation]) -> list[str]:
    """What the audit got wrong about an injected fault."""
    found = [] if set(broken) == fault.breaks else [f"{fault.name}: breaks {sorted(fault.breaks)}, and {sorted(broken)} is told"]
    expected = proven(scene, proofs)
    seen = [frozenset(violation.witness) for violation in told if violation.promise == fault.promise]
    if not any(witness in expected for witness in seen):
        found.append(f"{fault.name}: is proven by one of {[_short(one) for one in expected]}, not by {[_short(one) for one in seen]}")
    return found


def _short(witness: frozenset[Witness]) -> str:
    return " ".join(f"{one.writer[:3]}:{one.index}" for one in sorted(witness))


def injected(faults: Sequence[Fault], seed: int, events: int = 0) -> tuple[list[Row], dict[str, tuple[Fault, Scene, list[Proof]]]]:
    """Each fault in a scene of its own, with at least so many deliveries."""
    rows: list[Row] = []
    scenes: dict[str, tuple[Fault, Scene, list[Proof]]] = {}
    for fault in faults:
        group = f"{fault.promise}/{fault.name}"
        one = fault.scene(RUN, group, seed, events)
        proofs = fault.inject(one, random.Random(f"{seed}/{group}/where"))
        rows += one.rows()
        scenes[group] = fault, one, proofs
    return rows, scenes


def judged(verdicts: Verdicts, scenes: dict[str, tuple[Fault, Scene, list[Proof]]]) -> list[str]:
    broken = by_group(verdicts)
    told = defaultdict(list)
    for violation in verdicts.violations:
        told[violation.group].append(violation)
    strays = [f"{group}: {found}" for group, found in broken.items() if group not in scenes]
    return strays + [
        wrong for group, (fault, one, proofs) in scenes.items() for wrong in wrongs(fault, one, proofs, broken[group], told[group])
    ]


def clean_scenes(seed: int) -> list[Scene]:
    plans = [
        Plan(order=order, multicast=multicast, delivery=delivery)
        for order in ("unordered", "fifo", "causal", "total", "semantic")
        for multicast in ("reliable", "tree")
        for delivery in ("agreed", "safe")
    ]
    plans += [replace(plan, dies=True, replies=0.5) for plan in plans[::2]] + [replace(plan, leaves=True) for plan in plans[::3]]
    plans += [Plan(order="semantic", multicast="besteffort", replies=0.5), Plan(order="unordered", multicast="besteffort")]
    plans += [replace(plan, wants=wants) for plan, wants in zip(plans, ("all", "none", "since", "state", "last"), strict=False)]
    clean = [scene(RUN, f"clean/{number}", plan, seed) for number, plan in enumerate(plans)]
    clean += [not_there_yet(RUN, f"early/{number}", seed + number) for number in range(3)]
    clean += [lost_to_all(RUN, f"lost/{wants}", seed, wants) for wants in ("founder", "all", "state")]
    clean.append(scene(RUN, "cut-short/1", Plan(), seed))
    of_who_was_in_no_view(clean[-1], ends=False)  # what it was told of views may have come after what is left of its trace
    return [*clean, topic(RUN, "clean/topic", seed)]


def not_there_yet(run: str, group: str, seed: int) -> Scene:
    """A faulty member answers what is not sent yet: all deliver that as an orphan, and what it answers when it comes."""
    one = scene(run, group, Plan(order="semantic", batch=1, rounds=16), seed)
    rng = random.Random(seed)
    sends = [(sender, line) for sender in one.members for line in one.of(sender, "send", view=2)]
    sender, early = rng.choice([pair for pair in sends if any(other.round > pair[1].round for _, other in sends)])
    whose, later = rng.choice([(other, line) for other, line in sends if line.round > early.round])
    early.names = [(early.first, whose, later.first)]
    for member in one.members:
        child = one.one(member, sender, early.first)
        child.note, child.names = "orphaned", list(early.names)
    return one


def lost_to_all(run: str, group: str, seed: int, wants: str) -> Scene:
    """What a member says last dies with it: those who stay are told that it is lost, and one who answers it is an orphan."""
    plan = Plan(order="semantic", replies=0.4, batch=1, rounds=16, dies=True, places=False, wants=wants)
    one = scene(run, group, plan, seed)
    dead, *_ = reversed(one.members)
    last = one.of(dead, sender=dead)[-1]
    for member in one.members[:-1]:
        line = one.one(member, dead, last.first)
        received, _ = one.unit(member, line)
        gap = Line("gap", 1, dead, last.first, last.last, note="state" if wants == "state" else None)
        one.move(member, [gap], before=received)
        one.remove(member, received, line)
        for child in one.of(member):
            (send,) = [send for send in one.of(child.sender or "", "send") if send.holds(child.first)]
            lost = [name for name in send.names or [] if name[1:] == (dead, last.first)]
            if lost:
                child.note, child.names = "orphaned", lost
    return one


def test_there_are_five_kinds_for_every_promise() -> None:
    """A promise that nobody breaks in a test may be one that nobody looks at."""
    kinds = defaultdict(set)
    for fault in FAULTS:
        kinds[fault.promise].add(fault.name)
    assert {promise: len(names) for promise, names in kinds.items() if len(names) < 5} == {}
    assert set(kinds) == set(PROMISES)


@pytest.mark.parametrize("limits", [Limits(), Limits(of_member=20)], ids=["small", "large"])
def test_every_fault_is_found_and_proven_and_nothing_else(plain: SparkSession, tmp_path: Path, limits: Limits) -> None:
    """An audit that misses a broken promise, or cries wolf, is worse than none: people act upon what it says. Be the members as small as
    these are, or some of them too large to be kept."""
    rows, scenes = injected(FAULTS, SEED)
    rows += [row for one in clean_scenes(SEED) for row in one.rows()]
    verdicts = audited(plain, rows, tmp_path / "trace.parquet", limits)
    assert judged(verdicts, scenes) == []
    assert not verdicts.clean
    assert verdicts.rows == len(rows)
    assert verdicts.events == sum(row.last - row.first + 1 for row in rows if row.kind == "deliver")


def test_faults_in_a_hundred_thousand_deliveries(plain: SparkSession, tmp_path: Path) -> None:
    """One wrong row among a hundred thousand must not drown: that is where audits are needed."""
    rng = random.Random(SEED)
    chosen = [rng.choice([fault for fault in FAULTS if fault.promise == promise]) for promise in PROMISES]
    rows, scenes = injected(chosen, SEED + 1, 50_000)
    verdicts = audited(plain, rows, tmp_path / "trace.parquet")
    assert judged(verdicts, scenes) == []
    deliveries = [verdict.checked for verdict in verdicts.verdicts if verdict.promise == "no_duplication"]
    assert min(deliveries) > 45_000
    assert verdicts.events > 100_000 * len(deliveries)
