"""One case, whatever its kind, run to its end and judged."""

from __future__ import annotations

from antiphon.sim.swarm.case import Case
from antiphon.sim.swarm.node_run import run_nodes
from antiphon.sim.swarm.node_weather import NodeWeather
from antiphon.sim.swarm.outcome import Outcome
from antiphon.sim.swarm.view_run import run_views
from antiphon.sim.swarm.weather import Weather


def run_seed(case: Case, weather: Weather | NodeWeather | None = None) -> Outcome:
    """Runs a case, in another weather than its seed's if one is given. The same case gives the same outcome, `log_hash` included,
    in every process. What the protocols raise is in the outcome; only a case that cannot be run raises."""
    if case.kind == "nodes":
        assert weather is None or isinstance(weather, NodeWeather), "nodes have a weather of their own"
        return run_nodes(case, weather)
    assert weather is None or isinstance(weather, Weather), "the weather of nodes is another"
    return run_views(case, weather)
