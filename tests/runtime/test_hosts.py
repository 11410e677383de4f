"""Groups over several hosts: multicast, cut cables, split and healed networks. Each host is a network namespace that the test makes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

FIVE = ("ana", "ben", "cem", "dee", "eva")


def on(hosts: Any, names: Sequence[str]) -> Any:
    """What puts each of these on a host of its own, in their order."""
    return lambda name: hosts.argv(names.index(name), [])


@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_split_three_against_two_and_healed_while_all_send(network: Any, company_on: Any, tmp_path: Path, transport: str) -> None:
    """A switch that fails would leave two groups for ever, or messages that only one side has."""
    with network(5) as hosts, company_on(tmp_path, transport=transport, launch=on(hosts, FIVE)) as company:
        for index, name in enumerate(FIVE):
            company.start(name, node={"bind": f"{hosts.address(index)}:4040", "seeds": [f"{hosts.address(0)}:4040"] if index else []})
        company.join(*FIVE, order="total")
        company.wait_for_view(*FIVE)
        company.each("send", *FIVE, count=4_000, size=100, pause_s=0.003)
        hosts.split([0, 1, 2], [3, 4])
        company.wait_for_view(*FIVE[:3])
        company.wait_for_view(*FIVE[3:])
        time.sleep(1.0)
        hosts.heal()
        company.wait_for_view(*FIVE)
        company.wait_until_quiet(*FIVE)
        assert all(report["sent"] == 4_000 and not report["error"] for report in company.reports(*FIVE).values())
        assert len({tuple(sorted(company.stream(name))) for name in FIVE}) == 1
        assert company.check(order="total") == []


def test_nodes_find_each_other_by_multicast_alone(network: Any, company_on: Any, tmp_path: Path) -> None:
    """A local network without a server would need one, or addresses typed in by hand."""
    names = FIVE[:3]
    with network(3) as hosts, company_on(tmp_path, transport="udp", launch=on(hosts, names)) as company:
        for index, name in enumerate(names):
            company.start(name, node={"bind": f"{hosts.address(index)}:0", "seeds": []})
        company.join(*names, order="causal")
        company.wait_for_view(*names)
        before = hosts.sent_datagrams(0)
        company.processes["ana"].ask("send", count=1, size=1_000, wait=True)
        company.wait_until_quiet(*names)
        assert len(company.stream("cem")) == 1
        assert company.reports("ana")["ana"]["stats"]["transport"]["drops"].get("multicast_failed", 0) == 0
        assert hosts.sent_datagrams(0) > before
        assert company.check(order="causal") == []
