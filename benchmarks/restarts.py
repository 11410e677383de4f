"""Restart real processes at their old address, many times, and count joins that fail and groups that go on twice.

Four nodes on loopback TCP found a group with `order="total", partitions="majority", delivery="safe", expect=4`, each with the three
others as seeds. Again and again one of them is killed with SIGKILL, started again at its address after a random pause, and joins with the
same call. The next one follows as soon as this `join` has returned. All members send numbered messages meanwhile.

    python benchmarks/restarts.py --restarts 200 --seed 1

Prints a line per ten restarts. Reports failed joins, the times to rejoin, second primaries and deliveries in different orders. Exits with
status 1 if there was any failed join, second primary or difference, 2 if the arguments are wrong or the time is over (`--minutes`).

A primary view is one that a majority of its members installed. All of them must be one line: each follows from the one before, by the
views that its members came from, and contains a majority of it. At least three members run at any moment, so a view of a second founding
(another `origin`) is a second primary too.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

NAMES = ("a", "b", "c", "d")
OPTIONS: dict[str, Any] = {"order": "total", "partitions": "majority", "delivery": "safe"}
JOIN_S = 30.0
MINUTES_LIMIT = 1_440
PAUSES_S = (0.0, 0.05, 0.2, 0.5, 1.0, 3.0)
_LINE_BYTES = 1 << 16


class InstalledView(NamedTuple):
    """A view as one member installed it. `previous` is the id of the view that this member came from, None for its first; `origin` is that
    of the group's founding."""

    id: int
    members: tuple[str, ...]
    previous: int | None
    origin: int


class Replica:
    """One process, which prints a JSON object per line: `joined`, `failed`, `view`, `read`."""

    def __init__(self, name: str, addresses: dict[str, str]) -> None:
        seeds = [address for other, address in addresses.items() if other != name]
        argv = [sys.executable, "-u", __file__, "--replica", json.dumps({"name": name, "bind": addresses[name], "seeds": seeds})]
        self.name, self.began = name, time.monotonic()
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        self.joined_s: float | None = None
        self.failed = ""
        self.views: list[InstalledView] = []
        self.read: list[str] = []
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        self._rest = ""

    def look(self) -> None:
        """Take what the process has printed so far."""
        assert self.process.stdout is not None
        while True:
            try:
                data = os.read(self.process.stdout.fileno(), _LINE_BYTES)
            except BlockingIOError:
                return
            if not data:
                return
            *lines, self._rest = (self._rest + data.decode()).split("\n")
            for line in lines:
                self._take(json.loads(line))

    def _take(self, told: dict[str, Any]) -> None:
        if "joined" in told:
            self.joined_s = time.monotonic() - self.began
        elif "failed" in told:
            self.failed = told["failed"]
        elif "view" in told:
            self.views.append(InstalledView(told["view"], tuple(told["members"]), told["previous"], told["origin"]))
        else:
            self.read += told["read"]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)
        self.look()


async def replica(config: dict[str, Any]) -> None:
    from antiphon import Node
    from antiphon.api.message import MessageBatch
    from antiphon.errors import AntiphonError
    from antiphon.model.events import ViewChange

    def say(**told: Any) -> None:
        print(json.dumps(told), flush=True)

    async with Node(config["name"], transport="tcp", bind=config["bind"], seeds=config["seeds"]) as node:
        try:
            group = await node.join("log", create=True, expect=len(NAMES), history="all", timeout=JOIN_S, **OPTIONS)
        except AntiphonError as error:
            say(failed=str(error))
            return
        say(joined=True)
        origin = node.core.memberships[group.id].origin

        async def send() -> None:
            while True:
                await group.send(b"%d" % random.getrandbits(32))
                await asyncio.sleep(0.1)

        sending = asyncio.create_task(send())
        async for event in group.events():
            if isinstance(event, ViewChange):
                previous = None if event.previous is None else event.previous.id
                say(view=event.view.id, members=event.view.members, previous=previous, origin=origin)
            elif isinstance(event, MessageBatch):
                say(read=[str(message.id) + message.sender for message in event])
        sending.cancel()


def second_primaries(views_by_replica: Iterable[Iterable[InstalledView]]) -> list[str]:
    """Return a sentence for each primary view that does not continue the line of the primary views before it."""
    reports_by_id: dict[int, list[InstalledView]] = {}
    for views in views_by_replica:
        for view in views:
            reports_by_id.setdefault(view.id, []).append(view)
    line = [
        reports[0]
        for _, reports in sorted(reports_by_id.items(), key=lambda item: (item[1][0].origin, item[0]))
        if 2 * len(reports) > len(reports[0].members)
    ]
    found = []
    for before, after in pairwise(line):
        earlier, later = (f"view {view.id} {list(view.members)}" for view in (before, after))
        common = len(set(before.members) & set(after.members))
        if before.origin != after.origin:
            found.append(f"{later} is of a second founding: its origin is {after.origin}, that of {earlier} is {before.origin}")
        elif before.id not in _ancestors(after.id, reports_by_id):
            found.append(f"{later} does not follow from {earlier}")
        elif 2 * common <= len(before.members) and not (len(before.members) == 2 and before.members[0] in after.members):
            found.append(f"{later} has no majority of {earlier}")
    return found


def _ancestors(id: int, reports_by_id: dict[int, list[InstalledView]]) -> set[int]:
    """Return the ids of all views from which members came into this one, directly or through other views."""
    found: set[int] = set()
    waiting = [id]
    while waiting:
        for report in reports_by_id.get(waiting.pop(), ()):
            if report.previous is not None and report.previous not in found:
                found.add(report.previous)
                waiting.append(report.previous)
    return found


def judge(replicas: list[Replica]) -> tuple[list[str], list[str]]:
    """Return the second primaries and the differences in order that the replicas' reports show."""
    second = second_primaries(one.views for one in replicas)
    longest = max((one.read for one in replicas), key=len, default=[])
    place = {message: index for index, message in enumerate(longest)}
    differences = []
    for one in replicas:
        places = [place[message] for message in one.read if message in place]
        if places != sorted(places):
            differences.append(f"{one.name} read in another order than {longest[:1]}…")
    return second, differences


def campaign(restarts: int, seed: int, minutes: float) -> int:
    rng = random.Random(seed)
    addresses = {name: f"127.0.0.1:{port}" for name, port in zip(NAMES, _free_ports(len(NAMES)), strict=True)}
    running = {name: Replica(name, addresses) for name in NAMES}
    retired: list[Replica] = []
    failed: list[str] = []
    rejoin_s: list[float] = []
    until = time.monotonic() + 60.0 * minutes
    code = 0
    try:
        if why := _wait_until_joined(running, until):
            print(f"the group was not founded: {why}")
            return 1
        for number in range(1, restarts + 1):
            name = rng.choice(NAMES)
            running[name].kill()
            retired.append(running[name])
            time.sleep(rng.choice(PAUSES_S))
            running[name] = Replica(name, addresses)
            if why := _wait_until_joined(running, until):
                failed.append(f"restart {number} of {name}: {why}")
                if time.monotonic() >= until:
                    code = 2
                    break
                running[name].kill()
                retired.append(running[name])
                running[name] = Replica(name, addresses)
            elif (joined_s := running[name].joined_s) is not None:
                rejoin_s.append(joined_s)
            if number % 10 == 0 or number == restarts:
                slowest = max(rejoin_s, default=0.0)
                print(f"{number} of {restarts} restarts, {len(failed)} failed joins, slowest rejoin {slowest:.1f} s", flush=True)
    finally:
        for one in running.values():
            one.kill()
    second, differences = judge([*retired, *running.values()])
    for line in (*failed, *second[:5], *differences[:5]):
        print(line)
    median = statistics.median(rejoin_s) if rejoin_s else 0.0
    print(
        f"{restarts} restarts: {len(failed)} failed joins, {len(second)} second primaries, {len(differences)} differences in order; "
        f"start to rejoin {median:.2f} s (median), {max(rejoin_s, default=0.0):.2f} s (slowest)"
    )
    return code or int(bool(failed or second or differences))


def _wait_until_joined(running: dict[str, Replica], until: float) -> str:
    """Wait until `join` has returned in all processes; return what is wrong if that does not happen in time."""
    limit = min(until, time.monotonic() + JOIN_S + 10.0)
    while time.monotonic() < limit:
        for one in running.values():
            one.look()
            if one.failed or one.process.poll() is not None:
                return f"{one.name}: {one.failed or 'the process has ended'}"
        if all(one.joined_s is not None for one in running.values()):
            return ""
        time.sleep(0.02)
    return "not joined in time: " + "; ".join(f"{one.name} in {one.views[-1:]}" for one in running.values())


def _free_ports(count: int) -> list[int]:
    """Return ports below those that the system hands out by itself: nobody else takes one while its process is down."""
    ports: list[int] = []
    for port in random.SystemRandom().sample(range(12_000, 30_000), 1_000):
        with contextlib.suppress(OSError):
            socket.create_server(("127.0.0.1", port)).close()
            ports.append(port)
        if len(ports) == count:
            return ports
    raise SystemExit("no free ports between 12000 and 30000")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--restarts", type=int, default=200, help="number of restarts (default: 200)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the choice of members and pauses (default: 1)")
    parser.add_argument("--minutes", type=float, default=30.0, help="end after this many minutes (default: 30)")
    parser.add_argument("--replica", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.restarts < 1:
        parser.error(f"argument --restarts: give at least 1, not {arguments.restarts}")
    if not 0.0 < arguments.minutes <= MINUTES_LIMIT:
        parser.error(f"argument --minutes: give more than 0 and at most {MINUTES_LIMIT:,}, not {arguments.minutes:g}")
    if arguments.replica:
        asyncio.run(replica(json.loads(arguments.replica)))
        return 0
    sys.path.insert(0, str(Path(__file__).parent.parent / "src"))
    return campaign(arguments.restarts, arguments.seed, arguments.minutes)


if __name__ == "__main__":
    raise SystemExit(main())
