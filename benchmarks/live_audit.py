"""How soon the live audit tells of a violation: nodes of a real group record, and now and then a row is written that cannot be.

    python benchmarks/live_audit.py --violations 5
    python benchmarks/live_audit.py --violations 20 --rate 2000 --json

Three processes are in one total order over TCP on loopback, each sending `--rate` messages per second and recording with a file per second.
A fourth writes, as a recorder would, a file with one more row of one of them: a delivery of a message that it had delivered before. Told is
the time from the moment at which that file had appeared to the report. Reports of anything else are false, and make the exit code 1.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from antiphon.spark.live import SETTINGS, LiveAudit
from antiphon.spark.session import open_session
from antiphon.trace.files import write_rows
from antiphon.trace.reader import read
from antiphon.trace.row import Row

_WAIT_S = 300.0
_LOOK_S = 0.1
_MEMBERS = ("ana", "ben", "cid")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--violations", type=int, default=5)
    parser.add_argument("--rate", type=int, default=200, help="messages per second and member")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--member", help=argparse.SUPPRESS)
    parser.add_argument("--directory", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--seed-address", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.member:
        asyncio.run(take_part(chosen.member, chosen.directory, chosen.rate, chosen.seed_address))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))  # so that the members are ended too
    with tempfile.TemporaryDirectory(prefix="antiphon-live-") as directory:
        report = measure(Path(directory), chosen.violations, chosen.rate)
    if chosen.json:
        print(json.dumps(report))
    else:
        print(f"{len(report['seconds'])} of {report['violations']} violations told, {report['false']} reports of what was not written")
        print(f"from the file to the report: {', '.join(f'{seconds:.1f} s' for seconds in report['seconds'])}")
        print(f"meanwhile {report['rows']:,} rows were recorded")
    return 0 if not report["false"] and len(report["seconds"]) == report["violations"] else 1


def measure(directory: Path, violations: int, rate: int) -> dict[str, Any]:
    members: list[subprocess.Popen[str]] = []
    address = ""
    traces = directory / "traces"
    traces.mkdir()
    try:
        for member in _MEMBERS:
            command = [sys.executable, __file__, "--member", member, "--directory", str(traces), "--rate", str(rate)]
            if address:
                command += ["--seed-address", address]
            members.append(subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True))
            out = members[-1].stdout
            assert out is not None
            address = out.readline().strip()
        with open_session(name="antiphon live", settings=SETTINGS) as spark:
            audit = LiveAudit.start(spark, str(traces))
            _quiet(audit, 5.0)
            seconds, false = [], 0
            for number in range(violations):
                expected, appeared = _inject(traces, number)
                until = time.time() + _WAIT_S
                while expected and time.time() < until:
                    time.sleep(_LOOK_S)
                    for found in audit.found():
                        if (found.witness[-1].writer, found.witness[-1].index) == expected:
                            seconds.append(time.time() - appeared)
                            expected = None
                        else:
                            false += 1
                            print(found, file=sys.stderr)
            audit.stop()
        return {"violations": violations, "seconds": seconds, "false": false, "rows": len(read(traces).rows())}
    finally:
        for process in members:
            process.kill()
            process.wait(10)


def _quiet(audit: LiveAudit, seconds: float) -> None:
    """Lets the query get going: the first micro-batch pays for what is started once."""
    until = time.monotonic() + seconds
    while time.monotonic() < until or not audit.batches:
        time.sleep(_LOOK_S)
        for found in audit.found():
            raise SystemExit(f"a violation that nobody has injected: {found}")


def _inject(traces: Path, number: int) -> tuple[tuple[str, int] | None, float]:
    """Repeats a delivery of a member, under the name of a second writer, so that no number is there twice."""
    rows = [row for row in read(traces).rows() if row.kind == "deliver"]
    row: Row = rows[(number * 7_919) % len(rows)]
    again = row._replace(writer=f"{row.writer}+{number}", index=0)
    write_rows([again], traces, again.run, again.writer)
    return (again.writer, again.index), time.time()


async def take_part(name: str, directory: Path, rate: int, seed: str | None) -> None:
    import antiphon
    from antiphon.trace import Trace

    trace = Trace(directory=str(directory), rotate_s=1.0)
    async with antiphon.Node(name, transport="tcp", bind="127.0.0.1:0", seeds=[seed] if seed else [], trace=trace) as node:
        group = await (node.join("trip", timeout=60) if seed else node.create("trip", order="total"))
        print(node.address, flush=True)
        listening = asyncio.create_task(_listen(group))
        while not listening.done():
            for _ in range(max(1, rate // 20)):
                await group.send(b"x" * 100)
            await asyncio.sleep(0.05)


async def _listen(group: Any) -> None:
    async for _ in group.batches():
        pass


if __name__ == "__main__":
    sys.exit(main())
