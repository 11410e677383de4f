"""What Antiphon's own tests are made of, for yours.

- `pair`: real endpoints joined in memory; you move the clock and script the link.
- `play`: an ordering on its own: what comes in, what must come out.
- `batch`, `record`, `message`: frames written the short way.
- `QUICK`: settings with which a world in virtual time comes to the point.
- `ViewWorld` and the faults it has are in `antiphon.sim.view_world`, thousands of them in `antiphon.sim.swarm`.
- `check`, `check_all` and one oracle per promise judge the logs of any of these; `antiphon.testing.broken` is what they must not believe.
- `antiphon.testing.store_suite` is what every back end of a store must pass, `store_processes` what several processes do to one.

    >>> three = pair("causal", names=("ana", "ben", "eva"))
    >>> three.rule("hold data from ana to eva")
    >>> question = three.send("ana", b"Did you visit Delhi?")
    >>> three.exchange()
    >>> answer = three.send("ben", b"Yes", reply_to=question)
    >>> three.exchange()
    >>> three.payloads("eva")
    []
    >>> three.release()
    1
    >>> three.exchange()
    >>> three.payloads("eva")
    [b'Did you visit Delhi?', b'Yes']
"""

from antiphon.sim.oracles import (
    ORACLES,
    PROMISES,
    Violation,
    agreement,
    causal,
    check,
    check_all,
    fifo,
    integrity,
    minimality,
    no_duplication,
    parent_before_child,
    promised,
    total,
    validity,
    virtual_synchrony,
)
from antiphon.testing.batches import batch, message, record
from antiphon.testing.pair import Pair, pair
from antiphon.testing.playbook import (
    Expectation,
    Input,
    Playbook,
    asks,
    delivers,
    drops,
    got,
    holds,
    nothing,
    orphans,
    play,
    records,
    refuses,
    sends,
    view,
    waits,
)
from antiphon.testing.quick import QUICK

__all__ = [
    "ORACLES",
    "PROMISES",
    "QUICK",
    "Expectation",
    "Input",
    "Pair",
    "Playbook",
    "Violation",
    "agreement",
    "asks",
    "batch",
    "causal",
    "check",
    "check_all",
    "delivers",
    "drops",
    "fifo",
    "got",
    "holds",
    "integrity",
    "message",
    "minimality",
    "no_duplication",
    "nothing",
    "orphans",
    "pair",
    "parent_before_child",
    "play",
    "promised",
    "record",
    "records",
    "refuses",
    "sends",
    "total",
    "validity",
    "view",
    "virtual_synchrony",
    "waits",
]
