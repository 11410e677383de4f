"""Agents: functions that live on a store, run by any node, moved when their node dies, each of whose steps happens once.

    def dispatch(crash: Value, calls: int) -> Outcome:
        return calls + 1, [("cops", crash.data), ("ambulance", crash.data)]

    await store.run(Agent("911", "crash", dispatch, outputs=("cops", "ambulance"), state=0))

An agent (`agent.py`) reads a topic. A *step* takes some values, and from them and the state it had makes a new state and publications
(`deciding.py`). Position, state and publications belong together, whatever is killed at whatever point, and whatever the function would say
if it were asked again (`stepping.py`):

- on a store with transactions they are one;
- on another the *decision* is written first: position, state and plan (what is to be published, and under which numbers) are one record,
  changed by compare-and-set. Then the plan is published; the next decision takes its place. Whoever finds a decision there publishes its
  plan again, and the store drops what it has already, by the publisher's own numbers.

Who runs it is a record (`ownership.py`) that only saves work: two nodes that both believe to run an agent cannot both make a step, because
whoever comes raises the epochs of the agent's subscriber and of its right to publish (`running.py`), and so fences the other.
"""

from __future__ import annotations

from antiphon.store.agents.agent import Agent, AgentStats, Function, Outcome

__all__ = ["Agent", "AgentStats", "Function", "Outcome"]
