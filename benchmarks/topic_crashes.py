"""Kills publishers, subscribers, steppers, collectors and servers at random points, and says what was lost: nothing, it is hoped.

    python benchmarks/topic_crashes.py --kills 200 --seed 1 --store sqlite
    python benchmarks/topic_crashes.py --kills 200 --seed 1 --store nats              # one JetStream server, which is not killed
    python benchmarks/topic_crashes.py --kills 200 --seed 1 --store cluster --json    # three, of which one is killed now and then

Progress goes to standard error, the result to standard output; exit code 1 when anything was violated. What the processes wrote is kept
in `--directory`, where one is given.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import msgspec

from antiphon.store.jetstream.server import LocalServers
from antiphon.testing.store_campaign import campaign, say


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200, help="how many processes are killed in all")
    parser.add_argument("--seed", type=int, default=1, help="decides who is killed, and after what pauses")
    parser.add_argument("--store", choices=["sqlite", "nats", "cluster"], default="sqlite")
    parser.add_argument("--directory", type=Path, help="where stores and journals are kept; a temporary one if left out")
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    chosen = parser.parse_args()
    with ExitStack() as stack:
        directory = chosen.directory or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="antiphon-crashes-")))
        servers: LocalServers | None = None
        if chosen.store != "sqlite":
            servers = stack.enter_context(LocalServers(1 if chosen.store == "nats" else 3, directory / "servers"))

        def url(number: int) -> str:
            return f"sqlite:{directory}/{number}.db" if servers is None else f"{servers.url}&prefix=round{number}"

        cluster = servers if chosen.store == "cluster" else None
        report = asyncio.run(campaign(url, directory, kills=chosen.kills, seed=chosen.seed, servers=cluster, tell=say))
    if chosen.json:
        print(msgspec.json.encode({"store": chosen.store, **msgspec.to_builtins(report)}).decode())
    else:
        kills = ", ".join(f"{role} {count}" for role, count in sorted(report.kills.items()))
        print(f"{report.killed} kills ({kills}) in {report.rounds} rounds; {report.acknowledged:,} values acknowledged")
        print("\n".join(report.violations) or "nothing lost, nothing twice, nothing out of order")
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
