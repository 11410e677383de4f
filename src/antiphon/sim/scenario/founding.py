"""What nodes do about groups: found them, join and leave them, look for them.

    gather g ORDER [MULTICAST] [delivery safe] [window 64] [fanout 3] [majority] [open] [evict [after 10s]]
    A creates g ORDER … [about "text"]
    B joins g [history all|none|last 5|since 2s|state] [via A] [or creates ORDER …]
    A leaves g · C rejects g · A advertises · D asks A for groups · D starts

What the world refuses (there is no such group to join) is printed, as an application would be told.
"""

from __future__ import annotations

from antiphon.debugger.words import Word, duration, seconds, whole
from antiphon.errors import WorldError
from antiphon.model.control import Wants
from antiphon.model.options import GroupOptions
from antiphon.protocol.registry import stages
from antiphon.sim.scenario.reading import end, given, take
from antiphon.sim.scenario.scene import Scene

GATHER_S = 30.0
_COUNT_LIMIT = 1 << 40
_FANOUT_LIMIT = 64
_WORDS_OF_OPTIONS = ("delivery", "window", "fanout", "majority", "open", "evict")


def gather(scene: Scene, rest: list[Word]) -> list[str]:
    """All nodes that run, in one group."""
    world = scene.nodes
    group = scene.found(take(rest, "a name for the group"))
    options = parse_options(rest)
    return [] if world.gather(group, options, GATHER_S) else [f"not gathered after {duration(GATHER_S)}"]


def creates(scene: Scene, name: str, rest: list[Word]) -> list[str]:
    about = ""
    if len(rest) > 1 and rest[-2] == Word("about"):
        about = rest.pop().text
        rest.pop()
    group = scene.found(take(rest, "a name for the group"))
    scene.nodes.create(name, group, parse_options(rest), about)
    return []


def joins(scene: Scene, name: str, rest: list[Word]) -> list[str]:
    word = take(rest, "the name of a group")
    create = None
    if Word("or") in rest:
        at = rest.index(Word("or"))
        create = parse_options(_after(rest[at:], "or", "creates"))
        del rest[at:]
    group = scene.found(word) if create is not None else scene.group(word)
    wants = _wants(rest) if given(rest, "history") else None
    contacts: list[str] = []
    if given(rest, "via"):
        contacts.append(scene.name(take(rest, "a node that is in the group")))
    end(rest)
    try:
        scene.nodes.join(name, group, wants, create, contacts)
    except WorldError as refused:
        return [f"{name} does not join: {refused}"]
    return []


def leaves(scene: Scene, name: str, rest: list[Word]) -> list[str]:
    group = scene.group(take(rest, "the name of a group"))
    end(rest)
    scene.nodes.leave(name, group)
    return []


def rejects(scene: Scene, name: str, rest: list[Word]) -> list[str]:
    group = scene.group(take(rest, "the name of a group"))
    end(rest)
    scene.nodes.reject(name, group)
    return []


def advertises(scene: Scene, name: str, rest: list[Word]) -> list[str]:
    end(rest)
    scene.nodes.advertise(name)
    return []


def starts(scene: Scene, name: str, rest: list[Word]) -> list[str]:
    end(rest)
    scene.nodes.start(name)
    return []


def asks_for_groups(scene: Scene, name: str, rest: list[Word]) -> list[str]:
    """`D asks A for groups`."""
    other = scene.name(take(rest, "a node"))
    end(_after(rest, "for", "groups"))
    scene.nodes.ask_groups(name, other)
    return []


def parse_options(rest: list[Word]) -> GroupOptions:
    """The rest of a line that founds a group."""
    kinds: list[str] = []
    while rest and rest[0].text not in _WORDS_OF_OPTIONS:
        kinds.append(rest.pop(0).text)
    if not 1 <= len(kinds) <= 2:
        raise ValueError("say the order and perhaps the multicast, then the rest: `A creates g causal reliable majority`")
    chosen: dict[str, object] = {"order": kinds[0], **({"multicast": kinds[1]} if len(kinds) == 2 else {})}
    while rest:
        word = rest.pop(0).text
        if word == "majority":
            chosen["partitions"] = "majority"
        elif word == "open":
            chosen["open"] = True
        elif word == "evict":
            chosen["slow"] = "evict"
            if given(rest, "after"):
                chosen["slow_s"] = seconds(take(rest, "a duration, like 10s").text)
        elif word == "delivery":
            chosen["delivery"] = take(rest, "`agreed` or `safe`").text
        elif word in ("window", "fanout"):
            chosen[word] = whole(take(rest, "a number").text, 1, _COUNT_LIMIT if word == "window" else _FANOUT_LIMIT)
        else:
            raise ValueError(f"{word!r} is not understood; after the order and the multicast come {', '.join(_WORDS_OF_OPTIONS)}")
    options = GroupOptions(**chosen)  # type: ignore[arg-type]
    stages(options)  # refuses what cannot work together
    return options


def described(options: GroupOptions) -> str:
    """A group's options for people, without what goes without saying."""
    words = [f"{options.order} over {options.multicast}"]
    words += ["safe"] if options.delivery == "safe" else []
    words += ["majority"] if options.partitions == "majority" else []
    words += ["open"] if options.open else []
    words += ["evict"] if options.slow == "evict" else []
    return ", ".join(words)


def _wants(rest: list[Word]) -> Wants:
    kind = take(rest, "how much of the history: all, none, last 5, since 2s, or state").text
    if kind == "last":
        return Wants(kind, count=whole(take(rest, "a number").text, 1, _COUNT_LIMIT))
    if kind == "since":
        return Wants(kind, since=seconds(take(rest, "a time, like 2s").text))
    if kind not in ("all", "none", "state"):
        raise ValueError(f"{kind!r} is no history: write all, none, last 5, since 2s, or state")
    return Wants(kind)


def _after(rest: list[Word], *words: str) -> list[Word]:
    """What follows these words, which must come next."""
    for word in words:
        take(rest, f"`{word}`", word)
    return rest
