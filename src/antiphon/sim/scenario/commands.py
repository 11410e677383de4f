"""Which word is which command, and what `group`, `network`, `settings` and `replay` do.

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
from antiphon.sim.scenario import expects, faults, shows
from antiphon.sim.scenario.messages import say
from antiphon.sim.scenario.opening import parse_group, parse_network, parse_settings
from antiphon.sim.scenario.scene import Scene
from antiphon.sim.world import World

Command: TypeAlias = Callable[[Scene, list[Word]], list[str]]


class Performance:
    """Carries out one line after the other and remembers those since `group`, for `replay`."""

    def __init__(self, network: NetworkModel | None = None, settings: Settings | None = None) -> None:
        self.scene = Scene(network, settings)
        self._done: list[list[Word]] = []
        self._before: tuple[NetworkModel, Settings] = (self.scene.network, self.scene.settings)

    def do(self, words: list[Word]) -> list[str]:
        """Carries out a line of at least one word; returns what it prints."""
        scene, first = self.scene, words[0].text
        speech = len(words) > 1 and words[1] in _SPEECH
        if scene.begun and not (words[1:2] == [Word("sends")] and Word("after") not in words):
            scene.world.run(0.0)
        if first == "group" and not speech:
            self._before, self._done = (scene.network, scene.settings), []
        if first == "replay" and not speech:
            return self._replay(words[1:])
        self._done.append(words)
        if speech:
            return say(scene, words)
        if first in ACTIONS:
            return faults.rule(scene, words)
        command = _COMMANDS.get(first)
        if command is None:
            raise ValueError(f"{first!r} is no command; there are NAME sends, NAME answers, {', '.join([*_COMMANDS, 'replay', *ACTIONS])}")
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
        again.scene.world.run_until(self.scene.world.now)
        same = again.scene.fingerprint() == self.scene.fingerprint()
        if not same:
            raise expects.Unmet("the second run was not the same: something depends on more than the seed")
        return ["the same again"]


def _group(scene: Scene, rest: list[Word]) -> list[str]:
    opening = parse_group(rest)
    world = World(opening.seed, opening.members, opening.options, scene.settings, scene.network)
    _check_links(scene.network, opening.members)
    scene.begin(world)
    return []


def _network(scene: Scene, rest: list[Word]) -> list[str]:
    network = parse_network(rest, scene.network)
    if scene.begun:
        _check_links(network, scene.world.names)
        scene.world.network = network
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


_SPEECH = (Word("sends"), Word("answers"))
_COMMANDS: dict[str, Command] = {
    "group": _group,
    "network": _network,
    "settings": _settings,
    "at": faults.at,
    "wait": faults.wait,
    "settle": faults.settle,
    "cut": faults.cut,
    "split": faults.split,
    "heal": faults.heal,
    "crash": faults.crash,
    "restart": faults.restart,
    "pause": faults.pause,
    "resume": faults.resume,
    "slow": faults.slow,
    "skew": faults.skew,
    "view": faults.view,
    "clear": faults.clear,
    "release": faults.release,
    "show": shows.show,
    "expect": expects.expect,
    "check": expects.check,
}
