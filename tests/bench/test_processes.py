"""The processes of a benchmark: what becomes of a run when one of them fails, and that none is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from antiphon.bench.contest import measure, result
from antiphon.bench.processes import BenchFailed, Crew
from antiphon.bench.work import Work

WORK = Work(system="limit", members=2, seconds=0.2, warmup_s=0.1)


def script(source: str) -> list[str]:
    return [sys.executable, "-c", source]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("order", ["total", "fifo"])
def test_the_bare_loop_keeps_its_promise(order: str) -> None:
    """The row that everything is compared with would be fast because it does not do the work."""
    measured = measure(Work(system="limit", members=3, order=order, seconds=0.3, warmup_s=0.2))
    assert measured.order_equal, measured.complaints
    assert measured.deliveries_per_s_per_member > 0
    assert measured.cpu_s_per_million is not None
    assert measured.p50_us is None


def test_delays_are_those_of_the_receivers_after_the_warm_up() -> None:
    """A percentile would be that of a sender hearing itself, or of the first messages of a cold process."""
    measured = measure(
        Work(system="limit", kind="pace", members=3, order="fifo", senders=1, rate=200.0, timed=True, size=64, seconds=0.5, warmup_s=0.3)
    )
    assert measured.order_equal, measured.complaints
    assert measured.p50_us is not None
    assert measured.p99_us is not None
    assert 0 < measured.p50_us <= measured.p99_us


def test_a_member_that_fails_ends_the_run_with_its_last_words() -> None:
    """Somebody would wait for a benchmark that cannot end, or be told nothing of why it ended."""
    with pytest.raises(BenchFailed, match="member 1 ended early: ValueError: no such thing") as failed, Crew(WORK, _second_fails) as crew:
        crew.tallies()
    assert "Traceback" in failed.value.output
    assert not any(alive(pid) for pid in crew.pids)


def _second_fails(member: int) -> list[str]:
    return script("raise ValueError('no such thing')" if member else "import time; time.sleep(60)")


def test_members_that_say_nothing_are_ended_when_the_time_is_over() -> None:
    """A hanging peer would hang the whole table."""
    with (
        pytest.raises(BenchFailed, match="did not finish within"),
        Crew(WORK, lambda _: script("import time; time.sleep(60)"), 0.5) as crew,
    ):
        crew.tallies()
    assert not any(alive(pid) for pid in crew.pids)


def test_a_program_that_cannot_be_started_is_a_failure_of_the_run() -> None:
    """A traceback of the standard library would tell the user nothing."""
    with pytest.raises(BenchFailed, match="could not be started"), Crew(WORK, lambda _: ["/nowhere/antiphon"]):
        pass


def test_an_interrupted_run_leaves_no_process_behind() -> None:
    """Every Ctrl-C would leave members that flood the machine."""
    with pytest.raises(KeyboardInterrupt), Crew(WORK, lambda _: script("import time; time.sleep(60)")) as crew:
        raise KeyboardInterrupt
    assert not any(alive(pid) for pid in crew.pids)


def test_what_a_library_prints_does_not_disturb() -> None:
    """A peer that greets its user on stdout would break the run."""
    source = (
        "print('hello'); print('antiphon-bench no json', flush=True); print('antiphon-bench {\"meet\": 1}', flush=True); input();"
        'print(\'antiphon-bench {"tally": {"member": %d, "sent": 1, "delivered": 2, "seconds": 1, "deliveries": 2, "cpu_s": 1,'
        '"server_cpu_s": 0, "rss_mb": 1, "digest": "x", "count_by_sender": [1, 1]}}\')'
    )
    with Crew(WORK, lambda member: script(source % member)) as crew:
        told = result(WORK, crew.tallies())
    assert told.order_equal
    assert told.deliveries_per_s_per_member == 2


def test_members_whose_sequences_differ_make_a_broken_row() -> None:
    """A run whose members disagree would be printed like any other."""
    source = (
        'print(\'antiphon-bench {"tally": {"member": %d, "sent": 1, "delivered": 2, "seconds": 1, "deliveries": 2, "cpu_s": 1,'
        '"server_cpu_s": 0, "rss_mb": 1, "digest": "of %d", "count_by_sender": [1, 1]}}\')'
    )
    with Crew(WORK, lambda member: script(source % (member, member))) as crew:
        told = result(WORK, crew.tallies())
    assert not told.order_equal
    assert told.complaints == ("the members delivered in different orders",)


def test_members_whose_parent_was_killed_end() -> None:
    """A killed benchmark would leave its members flooding the machine until their limit."""
    source = (
        "import time; from antiphon.bench.processes import Crew; from antiphon.bench.work import Work\n"
        "with Crew(Work(system='limit', members=2, seconds=600.0)) as crew:\n"
        "    print(*crew.pids, flush=True); crew.tallies()\n"
    )
    parent = subprocess.Popen(script(source), stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 2
    parent.kill()
    parent.communicate(timeout=60)
    give_up_at = time.monotonic() + 60
    while any(map(alive, pids)) and time.monotonic() < give_up_at:
        time.sleep(0.05)
    assert not any(map(alive, pids))
