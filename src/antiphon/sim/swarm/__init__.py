"""The swarm: thousands of small worlds, each from one seed, each with its own faults, each judged by every oracle of its order.

There are two kinds of worlds: one group of members whose views are given to them (`views`), and nodes that find, join and leave a group and
agree on its views themselves (`nodes`).

    outcome = run_seed(Case(seed=7, order="total", multicast="tree", faults=("loss", "crash")))
    assert outcome.ok, f"{outcome}; replay with: {replay_command(outcome.case)}"

    summary = campaign(default_cases(range(10_000)), jobs=2, resume="swarm.jsonl")

A case costs 20 to 100 ms. A failing seed is printed as the command that replays it. An order of your own joins in with
`load("your_order.py")`, or in a campaign over several processes with `campaign(…, load=["your_order.py"])`.
"""

from antiphon.sim.swarm.campaign import Summary, campaign
from antiphon.sim.swarm.case import (
    FAULTS,
    KINDS,
    MIX,
    NODE_FAULTS,
    Case,
    auditable,
    default_cases,
    faults_of,
    replay_command,
)
from antiphon.sim.swarm.extension import load
from antiphon.sim.swarm.node_weather import Act, NodeWeather
from antiphon.sim.swarm.outcome import Outcome
from antiphon.sim.swarm.run import run_recorded, run_seed
from antiphon.sim.swarm.weather import Weather

__all__ = [
    "FAULTS",
    "KINDS",
    "MIX",
    "NODE_FAULTS",
    "Act",
    "Case",
    "NodeWeather",
    "Outcome",
    "Summary",
    "Weather",
    "auditable",
    "campaign",
    "default_cases",
    "faults_of",
    "load",
    "replay_command",
    "run_recorded",
    "run_seed",
]
