"""The opening lines of a scenario: which group or which nodes, over which network, with which settings.

    group ORDER [MULTICAST] members A B C [seed 7] [delivery safe] [window 64] [fanout 3]
    nodes A B C [late D] [seed 7] [seeds A] [shy B]
    network [from A to B] [latency L] [loss 2%] [duplicate 1%] [reorder 5%] [by 50ms] [bandwidth 100000] [queue 1s] [keyed]
    settings NAME VALUE …

A latency is constant `20ms`, uniform `20ms..200ms`, exponential `5ms+20ms` (at least, and on average more) or log-normal
`20ms~0.5` (median, sigma). A bandwidth is in bytes per second. Settings are those of `antiphon.model.options.Settings`; the ones
that end in `_s` are durations. Everything raises ValueError, or InvalidOption when the values do not fit together.
"""

from __future__ import annotations

import re

from msgspec import Struct
from msgspec.structs import replace

from antiphon.debugger.words import Word, seconds, share, whole
from antiphon.errors import InvalidName
from antiphon.model.options import GroupOptions, Settings
from antiphon.sim.network import Constant, Exponential, Latency, LinkModel, LogNormal, NetworkModel, Uniform

MEMBERS_LIMIT = 64
_NUMBER_LIMIT = 1 << 40
_WORDS_OF_GROUP = ("members", "seed", "delivery", "window", "fanout")
_WORDS_OF_NODES = ("late", "seed", "seeds", "shy")


class Opening(Struct, frozen=True, kw_only=True):
    """A `group` line."""

    members: tuple[str, ...]
    options: GroupOptions
    seed: int = 1


class NodesOpening(Struct, frozen=True, kw_only=True):
    """A `nodes` line. Broadcasts reach `seeds` (None: everybody); who is `shy` is no name server."""

    nodes: tuple[str, ...]
    late: tuple[str, ...] = ()
    seeds: tuple[str, ...] | None = None
    shy: tuple[str, ...] = ()
    seed: int = 1


def parse_group(words: list[Word]) -> Opening:
    """The words after `group`."""
    rest = [word.text for word in words]
    kinds: list[str] = []
    while rest and rest[0] not in _WORDS_OF_GROUP:
        kinds.append(rest.pop(0))
    if not 1 <= len(kinds) <= 2:
        raise ValueError("say the order and perhaps the multicast, then the rest: `group causal reliable members A B C seed 7`")
    members: tuple[str, ...] = ()
    chosen: dict[str, str] = {}
    while rest:
        word = rest.pop(0)
        if word == "members":
            members += _names(rest, _WORDS_OF_GROUP)
        elif word in _WORDS_OF_GROUP:
            chosen[word] = _value(rest, word)
        else:
            raise ValueError(f"{word!r} is not understood; after the order and the multicast come {', '.join(_WORDS_OF_GROUP)}")
    _check_names(members, "members A B C")
    options = GroupOptions(
        order=kinds[0],
        multicast=kinds[1] if len(kinds) == 2 else "reliable",
        delivery=chosen.get("delivery", "agreed"),
        window=whole(chosen.get("window", "8192"), 1, _NUMBER_LIMIT),
        fanout=whole(chosen.get("fanout", "2"), 1, MEMBERS_LIMIT),
    )
    return Opening(members=members, options=options, seed=whole(chosen.get("seed", "1"), 0, _NUMBER_LIMIT))


def parse_nodes(words: list[Word]) -> NodesOpening:
    """The words after `nodes`."""
    rest = [word.text for word in words]
    names = {"nodes": _names(rest, _WORDS_OF_NODES)}
    seed = "1"
    while rest:
        word = rest.pop(0)
        if word == "seed":
            seed = _value(rest, word)
        elif word in names:
            raise ValueError(f"say `{word}` once")
        else:
            names[word] = _names(rest, _WORDS_OF_NODES)
    nodes, late = names["nodes"], names.get("late", ())
    _check_names((*nodes, *late), "nodes A B C")
    for name in (*names.get("seeds", ()), *names.get("shy", ())):
        if name not in (*nodes, *late):
            raise ValueError(f"there is no node {name}; the nodes are {', '.join((*nodes, *late))}")
    shy = names.get("shy", ())
    return NodesOpening(nodes=nodes, late=late, seeds=names.get("seeds"), shy=shy, seed=whole(seed, 0, _NUMBER_LIMIT))


def parse_network(words: list[Word], network: NetworkModel) -> NetworkModel:
    """`network` with what the words after `network` change: the model of all links, or of the one they name."""
    rest = [word.text for word in words]
    link: tuple[str, str] | None = None
    if len(rest) >= 4 and rest[0] == "from" and rest[2] == "to":
        link = (rest[1], rest[3])
        del rest[:4]
    if not rest:
        raise ValueError("say what changes: `network latency 20ms..200ms loss 2%`")
    changes: dict[str, object] = {}
    while rest:
        word = rest.pop(0)
        if word == "keyed" and link is None:
            changes["keyed"] = True
        elif word == "latency":
            changes["latency"] = latency(_value(rest, word))
        elif word in ("loss", "duplicate", "reorder"):
            changes[word] = share(_value(rest, word))
        elif word == "by":
            changes["reorder_s"] = seconds(_value(rest, word))
        elif word == "queue":
            changes["queue_s"] = seconds(_value(rest, word))
        elif word == "bandwidth":
            changes["bandwidth"] = float(whole(_value(rest, word), 1, _NUMBER_LIMIT))
        else:
            raise ValueError(f"{word!r} is not understood; a network has latency, loss, duplicate, reorder, by, bandwidth, queue, keyed")
    if link is None:
        return replace(network, **changes)
    own = network.links.get(link)
    if own is None:
        own = LinkModel(**{name: getattr(network, name) for name in LinkModel.__struct_fields__})
    return replace(network, links=network.links | {link: replace(own, **changes)})


def parse_settings(words: list[Word], settings: Settings) -> Settings:
    """`settings` with what the words after `settings` change."""
    rest = [word.text for word in words]
    changes: dict[str, object] = {}
    while rest:
        name = rest.pop(0)
        if name not in Settings.__struct_fields__:
            raise ValueError(f"there is no setting {name!r}; there are {', '.join(Settings.__struct_fields__)}")
        value = _value(rest, name)
        changes[name] = seconds(value) if name.endswith("_s") else whole(value, 1, _NUMBER_LIMIT)
    if not changes:
        raise ValueError("say which: `settings nack_s 100ms batch_messages 16`")
    return replace(settings, **changes)


def latency(text: str) -> Latency:
    """`20ms`, `20ms..200ms`, `5ms+20ms` or `20ms~0.5`."""
    if ".." in text:
        low, _, high = text.partition("..")
        return Uniform(seconds(low), seconds(high))
    if "+" in text:
        base, _, mean = text.partition("+")
        return Exponential(seconds(base), seconds(mean))
    if "~" in text:
        median, _, sigma = text.partition("~")
        if not _DECIMAL.fullmatch(sigma):
            raise ValueError(f"{sigma!r} is no sigma: write a median and a number, like 20ms~0.5")
        return LogNormal(seconds(median), float(sigma))
    return Constant(seconds(text))


def _names(rest: list[str], until: tuple[str, ...]) -> tuple[str, ...]:
    names: tuple[str, ...] = ()
    while rest and rest[0] not in until:
        names += (rest.pop(0),)
    return names


def _check_names(names: tuple[str, ...], example: str) -> None:
    if not 1 <= len(names) <= MEMBERS_LIMIT or len(set(names)) != len(names):
        raise ValueError(f"name one to {MEMBERS_LIMIT} members, each once: `{example}`")
    for name in names:
        if not _NAME.fullmatch(name):
            raise InvalidName(name, "in scenarios a name is a letter and then letters, digits, - and _")


def _value(rest: list[str], word: str) -> str:
    if not rest:
        raise ValueError(f"`{word}` needs a value after it")
    return rest.pop(0)


_NAME = re.compile(r"[A-Za-z][\w-]{0,30}")
_DECIMAL = re.compile(r"\d{1,3}(\.\d{1,6})?")
