"""The stories of membership, on real processes: each judged by the oracles of the simulator."""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest

FIVE = ("ana", "ben", "cem", "dee", "eva")


@pytest.mark.parametrize("order", ["fifo", "total"])
def test_a_sequencer_killed_under_load_takes_nothing_with_it(company: Any, order: str) -> None:
    """A machine that dies would stop its group, or leave it with two orders."""
    company.gather(*FIVE, order=order)
    company.each("send", *FIVE, count=3_000, size=100, pause_s=0.0005)
    time.sleep(0.5)
    company.processes["ana"].kill()
    rest = FIVE[1:]
    company.wait_for_view(*rest)
    company.wait_until_quiet(*rest)
    reports = company.reports(*rest)
    assert all(report["sent"] == 3_000 and not report["error"] for report in reports.values()), reports
    assert company.check(order=order) == []


def test_a_coordinator_frozen_and_back_catches_up(company: Any) -> None:
    """A laptop that was closed for a while would come back to a group that does not know it, or with messages missing."""
    company.gather(*FIVE, order="total")
    company.processes["ana"].signal(signal.SIGSTOP)
    rest = FIVE[1:]
    company.each("send", *rest, count=500, size=100, pause_s=0.001)
    company.wait_for_view(*rest)
    company.processes["ana"].signal(signal.SIGCONT)
    company.wait_for_view(*FIVE)
    company.each("send", *FIVE, count=100, size=100, wait=True)
    company.wait_until_quiet(*FIVE)
    assert len({tuple(sorted(company.stream(name))) for name in FIVE}) == 1
    assert company.check(order="total") == []


def test_twenty_at_once(company: Any) -> None:
    """A class of twenty that starts the program on a word would end in twenty groups."""
    names = tuple(f"n{number:02}" for number in range(20))
    company.start(*names)
    company.join(*names, order="causal")
    company.wait_for_view(*names)
    company.each("send", *names, count=20, wait=True)
    company.wait_until_quiet(*names)
    assert len(company.stream("n00")) == 400
    assert company.check(order="causal") == []


def test_payloads_from_nothing_to_twenty_megabytes(company: Any) -> None:
    """A photograph would arrive broken, or not at all, and messages after it before it."""
    sizes = [0, 1, 100, 0, 60_000, 240_001, 3 << 20, 1, 20 << 20, 17]
    company.gather("ana", "ben", "cem", order="total")
    company.each("sizes", "ana", "ben", sizes=sizes)
    company.wait_until(lambda: company.reports("cem")["cem"]["delivered"] >= 2 * len(sizes), "everything at cem")
    company.wait_until_quiet("ana", "ben", "cem")
    assert len(company.stream("cem")) == 2 * len(sizes)
    assert all(report["bytes"] == 2 * sum(sizes) for report in company.reports("ana", "ben", "cem").values())
    refused = company.processes["ana"].ask("sizes", sizes=[(20 << 20) + 1])
    assert refused["error"] == "TooLarge"
    assert company.check(order="total") == []


def test_a_newcomer_gets_a_large_state_under_load(company: Any) -> None:
    """Who joins a busy group with much state would wait for ever, stop the others, or begin with half of it."""
    size = 100 << 20
    company.start("ana", "ben", "cem", state_bytes=size)
    company.join("ana", "ben", "cem", order="total")
    company.wait_for_view("ana", "ben", "cem")
    company.each("send", "ana", "ben", "cem", count=4_000, size=200, pause_s=0.002)
    company.start("dee")
    company.join("dee", history="state")
    joined = company.processes["dee"].joined
    assert joined["state_bytes"] == size // 64 * 64
    everyone = ("ana", "ben", "cem", "dee")
    company.wait_until_quiet("ana", "ben", "cem")
    company.wait_for_view(*everyone)
    late = company.stream("dee")
    assert late == company.stream("ana")[-len(late) :]
    assert late


def test_a_slow_reader_slows_the_others_and_stays_within_its_memory(company: Any) -> None:
    """One stuck program would fill its memory, or lose messages without a word, and its group would never know."""
    company.gather("ana", "ben", "cem", order="fifo")
    before = company.reports("ben")["ben"]["rss_mb"]
    company.processes["ben"].ask("stop_reading")
    company.each("send", "ana", "cem", count=200_000, size=1_000)
    company.wait_until(lambda: _is_stuck(company, "ana", "cem"), "the senders wait for the reader")
    reports = company.reports("ana", "ben", "cem")
    assert reports["ana"]["blocked"]
    assert reports["ana"]["sent"] < 200_000
    assert company.processes["ana"].ask("try_send")["error"] == "WouldBlock"
    assert reports["ben"]["rss_mb"] - before < 256
    company.processes["ben"].ask("go_on_reading")
    sent = reports["ana"]["sent"]
    company.wait_until(lambda: company.reports("ana")["ana"]["sent"] > sent, "the senders go on")
    company.each("stop_sending", "ana", "cem")
    company.wait_until_quiet("ana", "ben", "cem")
    assert company.check(order="fifo") == []


def _is_stuck(company: Any, *names: str) -> bool:
    before = [report["sent"] for report in company.reports(*names).values()]
    time.sleep(1.5)
    return [report["sent"] for report in company.reports(*names).values()] == before


def test_a_member_killed_and_restarted_at_its_address_returns(company: Any) -> None:
    """A replica that is killed and started again would be alone, or begin a second log beside the others."""
    four = ("ana", "ben", "cem", "dee")
    options: dict[str, Any] = {"order": "total", "partitions": "majority", "delivery": "safe"}
    company.start(*four)
    company.join(*four, expect=4, **options)
    company.wait_for_view(*four)
    for victim in ("dee", "ana", "dee"):
        company.each("send", *four, count=50, wait=True)
        company.wait_until_quiet(*four)
        company.restart(victim)
        company.join(victim, expect=4, **options)
        company.wait_for_view(*four)
    company.each("send", *four, count=50, wait=True)
    company.wait_until_quiet(*four)
    assert len({tuple(sorted(company.stream(name))) for name in four}) == 1
    assert company.check(**options) == []


def test_all_killed_and_restarted_found_the_group_again(company: Any) -> None:
    """After a power failure every replica would wait for the others without end, or begin alone."""
    three = ("ana", "ben", "cem")
    options: dict[str, Any] = {"order": "total", "partitions": "majority", "delivery": "safe", "expect": [*three]}
    company.start(*three)
    company.join(*three, **options)
    company.wait_for_view(*three)
    for name in three:
        company.processes[name].kill()
    for name in three:
        company.restart(name)
    company.join(*three, **options)
    company.wait_for_view(*three)
    company.each("send", *three, count=20, wait=True)
    company.wait_until_quiet(*three)
    assert [len(company.stream(name)) for name in three] == [60, 60, 60]
