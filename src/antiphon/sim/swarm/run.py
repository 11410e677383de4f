"""One case, whatever its kind, run to its end and judged."""

from __future__ import annotations

from pathlib import Path

from antiphon.sim.swarm.case import Case
from antiphon.sim.swarm.node_run import run_nodes
from antiphon.sim.swarm.node_weather import NodeWeather
from antiphon.sim.swarm.outcome import Keep, Outcome
from antiphon.sim.swarm.view_run import run_views
from antiphon.sim.swarm.weather import Weather
from antiphon.trace.row import Row


def run_seed(case: Case, weather: Weather | NodeWeather | None = None, trace: Path | str | None = None) -> Outcome:
    """Runs a case, in another weather than its seed's if one is given. The same case gives the same outcome, `log_hash` included,
    in every process. What the protocols raise is in the outcome; only a case that cannot be run raises. With
    `trace` what happened is written below this directory."""
    return _run(case, weather, None if trace is None else lambda world: world.write_trace(trace))


def run_recorded(case: Case, weather: Weather | NodeWeather | None = None) -> tuple[Outcome, list[Row]]:
    """The same, and the rows of its trace."""
    rows: list[Row] = []
    return _run(case, weather, lambda world: rows.extend(world.rows())), rows


def _run(case: Case, weather: Weather | NodeWeather | None, keep: Keep | None) -> Outcome:
    if case.kind == "nodes":
        assert weather is None or isinstance(weather, NodeWeather), "nodes have a weather of their own"
        return run_nodes(case, weather, keep)
    assert weather is None or isinstance(weather, Weather), "the weather of nodes is another"
    return run_views(case, weather, keep)
