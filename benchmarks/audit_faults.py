"""Does the audit find one wrong row among a hundred thousand? Every fault that the tests know, at random places of large traces.

    python benchmarks/audit_faults.py                       # every kind once: ten minutes on two cores
    python benchmarks/audit_faults.py --seed 7 --only fifo  # other places; the faults of one promise

Each fault is put into a clean trace of its own with at least a hundred thousand deliveries (or values of a topic); a dozen of them, and a
clean one, are audited at a time. Of each the audit must tell exactly the promises that it breaks, prove it by the rows that alone prove it,
and tell nothing of the others. Exit code 1 where it does not.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "spark"))

from injections import FAULTS, Fault
from scenes import Plan, scene
from test_audit import RUN, audited, injected, judged

from antiphon.spark.session import open_session

TOGETHER = 12
EVENTS = 100_000


def in_dozens(faults: Sequence[Fault]) -> Iterator[Sequence[Fault]]:
    for begin in range(0, len(faults), TOGETHER):
        yield faults[begin : begin + TOGETHER]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="decides where the faults are put")
    parser.add_argument("--only", help="the faults of this promise")
    arguments = parser.parse_args()
    faults = [fault for fault in FAULTS if arguments.only in (None, fault.promise)]
    if not faults:
        parser.error(f"there is no promise {arguments.only}: choose among {', '.join(sorted({fault.promise for fault in FAULTS}))}")
    wrong: list[str] = []
    began, done, events = time.monotonic(), 0, 0
    with tempfile.TemporaryDirectory() as folder, open_session() as spark:
        for some in in_dozens(faults):
            rows, scenes = injected(some, arguments.seed, EVENTS)
            rows += scene(RUN, "clean", Plan(rounds=2_000, batch=20), arguments.seed).rows()
            verdicts = audited(spark, rows, Path(folder, "trace.parquet"))
            wrong += judged(verdicts, scenes)
            looked_at = [verdict for verdict in verdicts.verdicts if verdict.promise == "no_duplication"]
            wrong += [f"{one.group}: only {one.checked:,} deliveries were looked at" for one in looked_at if one.checked < EVENTS]
            done, events = done + len(some), events + verdicts.events
            print(f"{done} of {len(faults)} faults, {events:,} deliveries, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    print("\n".join(wrong) or f"all {len(faults)} faults were found and proven, each among {EVENTS:,} deliveries or more, and nothing else")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
