"""The audit: were the promises kept? Written from the guarantee cards alone; the simulator's oracles are another reading of the same cards.

Theory of operation. The trace is sorted a few times, each time with few columns and by keys that no single group can fill: by (member,
sender, number) for what was delivered, by (sender, block of numbers) for what was sent, by (member, index) for what came before what. What
is left of it is small: **ledgers** of ranges, views and sums (`ledger.py`), judged group by group in plain Python on the executors, and
**findings** (`finding.py`), one row for each thing that is wrong. They are counted and the first few of each kind fetched; only for those
the trace is looked at again, to name the rows that prove them (`opening.py`).

| file | promises |
|---|---|
| `integrity`, `strangers` | integrity |
| `no_duplication`, `fifo` | from `ranges` |
| `validity` | validity, nothing_lost |
| `agreement`, `virtual_synchrony`, `views` | from ledgers |
| `total` | by sums over blocks of places |
| `causal` | by clocks |
| `parents` | parent_before_child |
| `minimality` | minimality |
| `topics` | all of durable topics |
"""

from __future__ import annotations

from antiphon.spark.audit.audit import audit
from antiphon.spark.audit.verdict import PROMISES, Summary, Verdict, Verdicts, Violation, Witness

__all__ = ["PROMISES", "Summary", "Verdict", "Verdicts", "Violation", "Witness", "audit"]
