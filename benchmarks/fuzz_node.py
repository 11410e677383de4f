"""Throws random and wrong frames at a live node, while its group is at work, and judges what became of the group.

    .venv/bin/python benchmarks/fuzz_node.py [--frames 1000000] [--transport udp|tcp] [--key] [--seed 7] [--json]

Three real processes on loopback are a group in total order and send a few messages per second. Everything is thrown at the port of the
first, which coordinates the group and gives its order. It fails (exit code 1) unless afterwards

- all three processes live, have written nothing to their standard error, and are in one view of these three;
- every message that was sent meanwhile was delivered by all three, once and in one order, and the oracles have nothing to say;
- the memory of the target has grown by less than `GROWTH_MB`, and by less than `LATE_GROWTH_MB` in the second half;
- with --key: no view was ever installed meanwhile. Nothing that a stranger says is believed, not even for a moment.

Without a key whoever can reach a node is believed to be who he says he is. It may ask to join, or say that it is another side of the
group; then a view may be made with it and, as it does not answer, another without it, and the group waits meanwhile. That is no failure,
as long as it goes on afterwards. A stranger could even play a coordinator, or a node that carries others' frames, and put words into a
member's mouth: such frames are thrown only where there is a key.

Measured on two cores, a million frames, all of them read: udp 22 s, tcp 15 s, with a key 28 and 9 s (twice to four times as long on a busy
machine). The target grew by 5 to 20 MB, nearly all of it in the first half; with a key the group delivered everything meanwhile as if
nothing were happening.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import socket
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from fuzz.arsenal import Arsenal
from fuzz.tcp import TcpThrower
from fuzz.udp import UdpThrower

from antiphon.model.ids import GroupId, MemberId
from antiphon.model.options import GroupOptions
from antiphon.sim.log import Viewed
from antiphon.testing.forger import Overheard

MEMBERS = ("ana", "ben", "cem")
GROWTH_MB, LATE_GROWTH_MB = 96.0, 24.0
"""Everything that strangers can make a node keep is bounded: half-arrived wires 64 MB at most, what waits for strangers to prove
themselves 16 MB, hints of groups, and so on. After half of a siege all of it is as full as it gets."""
_KEY = "a key for one siege: 5d1f0a7c93be"
_BURST = 1_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--transport", choices=("udp", "tcp"), default="udp")
    parser.add_argument("--key", action="store_true", help="the members hold a key")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = besiege(Path(folder), given.transport, given.frames, given.seed, guarded=given.key)
    print(json.dumps(result, indent=2) if given.json else _table(result))
    sys.exit(1 if result["failures"] else 0)


def besiege(folder: Path, transport: str, frames: int, seed: int, *, guarded: bool) -> dict[str, Any]:
    rng = random.Random(f"{seed}/{transport}/{guarded}")
    thrower = UdpThrower(rng) if transport == "udp" else TcpThrower(rng)
    complaints = folder / "complaints"
    launch = ["sh", "-c", 'exec 2>>"$0" "$@"', str(complaints)]
    if guarded:
        launch += [sys.executable, "-u", str(Path(__file__).parent / "fuzz" / "guarded.py"), _KEY]
    with _company().Company(folder, transport=transport, settings={}, launch=lambda _: launch) as company:
        try:
            result = _Siege(company, thrower, rng, guarded).run(transport, frames, seed)
        finally:
            thrower.close()
    if said := complaints.read_text():
        result["failures"].append(f"the members complained: {said[-2_000:]}")
    return result


class _Siege:
    def __init__(self, company: Any, thrower: UdpThrower | TcpThrower, rng: random.Random, guarded: bool) -> None:
        self._company, self._thrower, self._rng, self._guarded = company, thrower, rng, guarded
        self._thrown = 0

    def run(self, transport: str, frames: int, seed: int) -> dict[str, Any]:
        company = self._company
        self._gather(transport)
        company.each("send", *MEMBERS, count=10_000_000, size=100, pause_s=0.1)
        views, began = self._views(), time.monotonic()
        before = middle = after = self._report()
        self._aim()
        failures: list[str] = []
        try:
            middle = self._throw(frames, began)
            self._thrower.finish()
            after = self._report()
        except AssertionError as error:  # a process that has died, or says nothing any more
            failures.append(str(error))
        seconds = time.monotonic() - began
        reports: dict[str, Any] = {}
        if not failures:
            reports, failures = self._judge(before, after, views)
            failures += _growth(before, middle, after)
        return {
            "transport": transport,
            "key": self._guarded,
            "seed": seed,
            "frames": self._thrown,
            "thrown": dict(self._arsenal.thrown.most_common()),
            "recorded": self._arsenal.recorded,
            "seconds": round(seconds, 1),
            "read_by_the_core": after["stats"]["frames_received"] - before["stats"]["frames_received"],
            "target_cpu_s": round(after["cpu_s"] - before["cpu_s"], 1),
            "delivered_meanwhile": after["delivered"] - before["delivered"],
            "delivered": {name: report["delivered"] for name, report in reports.items()},
            "views": self._views() - views,
            "rss_mb": {"before": before["rss_mb"], "half way": middle["rss_mb"], "after": after["rss_mb"]},
            "drops": dict(_drops(after["stats"]).most_common()),
            "notes": self._thrower.notes,
            "failures": failures,
        }

    def _gather(self, transport: str) -> None:
        """All know all from the beginning, and one of the strangers beside: what members say to everybody, it hears."""
        places = [f"127.0.0.1:{_free_port(transport)}" for _ in MEMBERS]
        stranger = self._thrower.addresses[0]
        for name, place in zip(MEMBERS, places, strict=True):
            node: dict[str, Any] = {"bind": place, "seeds": [*(other for other in places if other != place), stranger]}
            node |= {"multicast": None} if transport == "udp" else {"connections": 256}
            self._company.start(name, node=node)
            self._company.join(name, order="total")
        self._company.wait_for_view(*MEMBERS)

    def _aim(self) -> None:
        company = self._company
        addresses = [company.processes[name].address for name in MEMBERS]
        report = self._report()
        (group,) = report["stats"]["groups"]
        newest = max(event.view.id for log in company.logs() for event in log.events if type(event) is Viewed)
        places = (*addresses, *self._thrower.addresses)
        heard = Overheard(GroupId(group), tuple(map(MemberId, report["view"])), places, GroupOptions(order="total"), newest)
        self._arsenal = Arsenal(heard, self._rng, guarded=self._guarded)
        self._thrower.aim(addresses[0], addresses, self._arsenal, guarded=self._guarded)

    def _throw(self, frames: int, began: float) -> dict[str, Any]:
        """Throws all of them; returns the target's report of when half were thrown."""
        middle, told = None, began
        while self._thrown < frames:
            self._thrown += self._thrower.throw(min(_BURST, frames - self._thrown))
            if middle is None and 2 * self._thrown >= frames:
                middle = self._report()
            if time.monotonic() - told > 5.0:
                told = time.monotonic()
                report = self._report()
                rate = self._thrown / (told - began)
                line = f"{self._thrown:>9,} frames, {rate:,.0f}/s, {report['rss_mb']:.0f} MB, delivered {report['delivered']:,}"
                print(line, file=sys.stderr, flush=True)
        assert middle is not None, "every siege has a middle"
        return middle

    def _judge(self, before: dict[str, Any], after: dict[str, Any], views: int) -> tuple[dict[str, Any], list[str]]:
        """What the members say afterwards, and what is wrong with the group."""
        company = self._company
        try:
            company.wait_until(lambda: self._report()["delivered"] > after["delivered"], "the group goes on")
            company.each("stop_sending", *MEMBERS)
            company.wait_for_view(*MEMBERS)
            company.wait_until_quiet(*MEMBERS)
            reports = company.reports(*MEMBERS)
        except AssertionError as error:
            return {}, [str(error)]
        sent = sum(report["sent"] for report in reports.values())
        wrong = [f"{name} delivered {each['delivered']} of {sent}" for name, each in reports.items() if each["delivered"] != sent]
        wrong += [f"{name}: {each['error']}" for name, each in reports.items() if each["error"]]
        if self._guarded and (made := self._views() - views):
            wrong.append(f"{made} views were installed, although nothing of what came was sealed with the key")
        if self._guarded and after["delivered"] == before["delivered"]:
            wrong.append("nothing was delivered meanwhile")
        return reports, wrong + [str(violation) for violation in company.check(order="total")]

    def _report(self) -> dict[str, Any]:
        for name, process in self._company.processes.items():
            assert process._process.poll() is None, f"{name} ended with exit code {process._process.poll()}"
        report: dict[str, Any] = self._company.reports(MEMBERS[0])[MEMBERS[0]]
        return report

    def _views(self) -> int:
        return sum(type(event) is Viewed for log in self._company.logs() for event in log.events)


def _growth(before: dict[str, Any], middle: dict[str, Any], after: dict[str, Any]) -> list[str]:
    whole, late = after["rss_mb"] - before["rss_mb"], after["rss_mb"] - middle["rss_mb"]
    wrong = [f"the target grew by {whole:.0f} MB, above {GROWTH_MB:.0f}"] if whole > GROWTH_MB else []
    return wrong + ([f"the target still grew by {late:.0f} MB in the second half"] if late > LATE_GROWTH_MB else [])


def _drops(stats: dict[str, Any], name: str = "") -> Counter[str]:
    """Every count under `drops`, wherever in the stats, by place and reason."""
    found: Counter[str] = Counter()
    for key, value in stats.items():
        if key == "drops":
            found.update({f"{name}{reason}": count for reason, count in value.items()})
        elif isinstance(value, dict):
            found.update(_drops(value, name if key == "groups" else f"{key.partition('#')[0]}: "))
    return found


def _table(result: dict[str, Any]) -> str:
    lines = [f"{result['frames']:,} frames over {result['transport']}{' under a key' if result['key'] else ''}, {result['seconds']} s"]
    lines += [f"  thrown   {count:>10,}  {kind}" for kind, count in result["thrown"].items()]
    lines += [f"  dropped  {count:>10,}  {reason}" for reason, count in result["drops"].items()]
    memory = ", ".join(f"{when} {size:.0f}" for when, size in result["rss_mb"].items())
    lines += [f"  memory of the target in MB: {memory}; its processor time: {result['target_cpu_s']} s"]
    lines += [f"  views meanwhile: {result['views']}; delivered meanwhile: {result['delivered_meanwhile']}, in all: {result['delivered']}"]
    lines += [f"  note: {note}" for note in result["notes"]]
    good = "the group was undisturbed" if result["key"] else "the group went on"
    lines += [f"FAILED: {failure}" for failure in result["failures"]] or [good]
    return "\n".join(lines)


def _free_port(transport: str) -> int:
    kind = socket.SOCK_DGRAM if transport == "udp" else socket.SOCK_STREAM
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _company() -> Any:
    """The module that starts real processes for the tests: tests are no package."""
    path = Path(__file__).parents[1] / "tests" / "runtime" / "company.py"
    spec = importlib.util.spec_from_file_location("antiphon_test_company", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
