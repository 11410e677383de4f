"""The audit: were the promises kept? Written from the guarantee cards alone; the simulator's oracles are another reading of the same cards.

Theory of operation. The trace is moved and sorted once, by (group, member, index), with few columns: the **walk** (`walk.py`, `walker.py`)
goes through every member's rows in Arrow batches and leaves little: ranges, sums over blocks, the rows of which there are few, and, of all
but very large members, their rows packed as arrays (`sheet.py`). That meets again where a group is judged (`judging.py`): its **ledger** of
ranges and views (`ledger.py`, `evidence.py`) by the judges of whole groups, in plain Python; its sheets by quick judges (`suspicion.py`)
that pass what is certainly right. They never pass what is wrong, but may suspect what is right. What they suspect is looked at by the
judges that sort the rows of those groups (`integrity`, `causal`, `parents`, `minimality`, `topics`, and `entries` for ledgers), which say
what is wrong as **findings** (`finding.py`); only for those the trace is looked at again, to name the rows that prove them (`opening.py`).
So a clean trace costs one walk, and a broken group what it takes to explain it.

Which promises a group gives is in its `group` rows (`promised.py`), by name; judges ask for names, never for the order's. A name that no
judge knows is reported as not judged. `gap` rows and orphans' marks are believed only as far as no other member contradicts them
(`losses.py`).

| file | promises |
|---|---|
| `description`, `presence` | description, positions |
| `integrity`, `strangers`, `presence` | integrity |
| `no_duplication`, `fifo` | from `ranges` |
| `validity` | validity, nothing_lost |
| `agreement`, `virtual_synchrony`, `views` | from ledgers |
| `total` | by sums over blocks of places |
| `causal` | by clocks |
| `parents`, `orphans` | parent_before_child |
| `minimality` | minimality |
| `topics` | all of durable topics |
"""

from __future__ import annotations

from antiphon.spark.audit.audit import audit
from antiphon.spark.audit.verdict import PROMISES, Summary, Unjudged, Verdict, Verdicts, Violation, Witness

__all__ = ["PROMISES", "Summary", "Unjudged", "Verdict", "Verdicts", "Violation", "Witness", "audit"]
