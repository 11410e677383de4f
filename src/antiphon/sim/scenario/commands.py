"""Which word is which command, and what `group`, `nodes`, `network`, `settings` and `replay` do.

A command takes the scene and the words after its own, and returns the lines it prints. What is wrong with the line is a ValueError,
what is wrong with the moment (a crashed member sends) a UsageError, an expectation that does not hold `Unmet`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from antiphon.debugger.rule import ACTIONS
from antiphon.debugger.words import Word
from antiphon.model.options import Settings
from antiphon.sim.network import NetworkModel
from antiphon.sim.node_world import NodeWorld
from antiphon.sim.scenario import expects, faults, founding, privately, shows
from antiphon.sim.scenario.messages import say
from antiphon.sim.scenario.opening import parse_group, parse_network, parse_nodes, parse_settings
from antiphon.sim.scenario.scene import Scene
from antiphon.sim.view_world import ViewWorld

Command: TypeAlias = Callable[[Scene, list[Word]], list[str]]
Deed: TypeAlias = Callable[[Scene, str, list[Word]], list[str]]
"""What a node does: the scene, its name, and the words after the verb."""


class Performance:
    """Carries out one line after the other and remembers those since `group` or `nodes`, for `replay`."""

    def __init__(self, network: NetworkModel | None = None, settings: Settings | None = None, run: str = "") -> None:
        self.scene = Scene(network, settings, run)
        self._done: list[list[Word]] = []
        self._before: tuple[NetworkModel, Settings] = (self.scene.network, self.scene.settings)

    def do(self, words: list[Word]) -> list[str]:
        """Carries out a line of at least one word; returns what it prints."""
        scene, first = self.scene, words[0].text
        verb = words[1].text if len(words) > 1 and not words[1].quoted else ""
        speech = verb in _SPEECH or verb in _DEEDS
        if scene.begun and not (verb == "sends" and Word("after") not in words):
            scene.ground.run(0.0)
        if first in ("group", "nodes") and not speech:
            self._before, self._done = (scene.network, scene.settings), []
        if first == "replay" and not speech:
            return self._replay(words[1:])
        self._done.append(words)
        if verb in _SPEECH:
            return say(scene, words)
        if verb in _DEEDS:
            return _DEEDS[verb](scene, scene.name(words[0]), words[2:])
        if first in ACTIONS:
            return faults.rule(scene, words)
        command = _COMMANDS.get(first)
        if command is None:
            spoken = [f"NAME {verb}" for verb in (*_SPEECH, *_DEEDS)]
            raise ValueError(f"{first!r} is no command; there are {', '.join([*spoken, *_COMMANDS, 'replay', *ACTIONS])}")
        return command(scene, words[1:])

    def _replay(self, rest: list[Word]) -> list[str]:
        if rest:
            raise ValueError("`replay` stands alone")
        again = Performance(*self._before)
        for words in self._done:
            try:
                again.do(words)
            except expects.Unmet:
                continue  # reported where it stands
        again.scene.ground.run_until(self.scene.ground.now)
        same = again.scene.fingerprint() == self.scene.fingerprint()
        if not same:
            raise expects.Unmet("the second run was not the same: something depends on more than the seed")
        return ["the same again"]


def _group(scene: Scene, rest: list[Word]) -> list[str]:
    opening = parse_group(rest)
    world = ViewWorld(opening.seed, opening.members, opening.options, scene.settings, scene.network, scene.trace)
    _check_links(scene.network, opening.members)
    scene.begin(world)
    return []


def _nodes(scene: Scene, rest: list[Word]) -> list[str]:
    opening = parse_nodes(rest)
    names = (*opening.nodes, *opening.late)
    _check_links(scene.network, names)
    servers = [name for name in names if name not in opening.shy]
    more = (opening.seeds, opening.late, servers, scene.trace)
    scene.begin(NodeWorld(opening.seed, opening.nodes, scene.settings, scene.network, *more))
    return []


def _network(scene: Scene, rest: list[Word]) -> list[str]:
    network = parse_network(rest, scene.network)
    if scene.begun:
        _check_links(network, scene.ground.names)
        scene.ground.network = network
    scene.network = network
    return []


def _settings(scene: Scene, rest: list[Word]) -> list[str]:
    scene.settings = parse_settings(rest, scene.settings)
    return []


def _check_links(network: NetworkModel, members: tuple[str, ...]) -> None:
    for link in network.links:
        for name in link:
            if name not in members:
                raise ValueError(f"the network has a link of {name}, who is not in the group")


_SPEECH = ("sends", "answers")
_DEEDS: dict[str, Deed] = {
    "creates": founding.creates,
    "joins": founding.joins,
    "leaves": founding.leaves,
    "rejects": founding.rejects,
    "advertises": founding.advertises,
    "starts": founding.starts,
    "says": privately.says,
    "asks": privately.asks,
    "replies": privately.replies,
    "tells": privately.tells,
}
_COMMANDS: dict[str, Command] = {
    "group": _group,
    "nodes": _nodes,
    "network": _network,
    "settings": _settings,
    "gather": founding.gather,
    "at": faults.at,
    "wait": faults.wait,
    "settle": faults.settle,
    "cut": faults.cut,
    "split": faults.split,
    "partition": faults.split,
    "heal": faults.heal,
    "crash": faults.crash,
    "restart": faults.restart,
    "pause": faults.pause,
    "freeze": faults.pause,
    "resume": faults.resume,
    "stop": faults.stop,
    "start": faults.start,
    "slow": faults.slow,
    "skew": faults.skew,
    "view": faults.view,
    "clear": faults.clear,
    "release": faults.release,
    "show": shows.show,
    "expect": expects.expect,
    "check": expects.check,
}
