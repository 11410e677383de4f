"""What `show` prints of nodes and their groups: views, histories, what is known of groups, and the story of each application."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.debugger.words import Word, quote
from antiphon.model.control import Holdings
from antiphon.model.events import (
    Departed,
    Discovered,
    Event,
    GuestRefused,
    Installed,
    MissedMessages,
    NameServerAnswer,
    NoMajority,
    Orphaned,
    PrivateMessage,
    Recovered,
    StateArrived,
    StateUnavailable,
    StateWanted,
    Synchronised,
    Undelivered,
    Vanished,
)
from antiphon.model.ids import MemberId, MessageId, name_of
from antiphon.model.view import View
from antiphon.sim.scenario.founding import described
from antiphon.sim.scenario.reading import end, take
from antiphon.sim.scenario.scene import Scene


def views(scene: Scene, rest: list[Word]) -> list[str]:
    group = scene.take_group(rest)
    return [_standing(scene, name, group) for name in at(scene, rest)]


def history(scene: Scene, rest: list[Word]) -> list[str]:
    group = scene.take_group(rest)
    members = [name for name in at(scene, rest) if scene.nodes.is_member(name, group)]
    return [f"{name} remembers {scene.listed(scene.nodes.history(name, group))}" for name in members] or [f"nobody is in {group}"]


def groups(scene: Scene, rest: list[Word]) -> list[str]:
    """What nodes have heard of groups, which need not be true any more."""
    lines = []
    for name in at(scene, rest):
        known = sorted(scene.nodes.known(name), key=lambda info: (scene.groups.index(name_of(info.id)), info.id))
        for info in known:
            members = " ".join(sorted(name_of(member) for member, _ in info.members))
            left = " ".join(sorted(name_of(member) for member in info.left))
            about = f" {quote(info.description)}" if info.description not in ("", name_of(info.id)) else ""
            told = f"{name} knows {name_of(info.id)}{about} ({described(info.options)}): {members or 'nobody'}"
            lines.append(told + (f", without {left}" if left else ""))
        if not known:
            lines.append(f"{name} knows no group")
    return lines


def members(scene: Scene, rest: list[Word]) -> list[str]:
    """Who is with whom: one part for each view that somebody is in."""
    group = scene.take_group(rest)
    end(rest)
    found: list[View] = []
    for name in running(scene):
        view = scene.nodes.view_of(name, group)
        if view is not None and view not in found:
            found.append(view)
    return [f"{group}: {' | '.join(_names(view.members) for view in found) or 'nobody'}"]


def story(scene: Scene, rest: list[Word]) -> list[str]:
    """Everything that the applications were told, in their order; deliveries that follow each other are one line."""
    lines = []
    for name in at(scene, rest):
        told: list[tuple[str, str]] = []
        for _, group, event in scene.heard_by_node[name]:
            where = f" in {name_of(group)}" if group is not None and len(scene.groups) > 1 else ""
            verb, what = _told(scene, event)
            if not verb:
                continue
            if told and what and told[-1][0] == verb + where:
                told[-1] = (verb + where, f"{told[-1][1]} {what}")
            else:
                told.append((verb + where, what))
        lines += [f"{name} {verb}{':' if what else ''} {what}".rstrip() for verb, what in told] or [f"{name} was told nothing"]
    return lines


def running(scene: Scene) -> list[str]:
    """The nodes that have started and live."""
    return [name for name in scene.nodes.names if scene.nodes.started(name) and scene.nodes.alive(name)]


def at(scene: Scene, rest: list[Word]) -> list[str]:
    """The nodes after `at`, or all that run."""
    if not rest:
        return running(scene)
    take(rest, "`at` and nodes", "at")
    return scene.names(rest)


def _standing(scene: Scene, name: str, group: str) -> str:
    world = scene.nodes
    if not world.started(name) or not world.alive(name):
        return f"{name} {'has crashed' if world.started(name) else 'has not started'}"
    view = world.view_of(name, group)
    if view is None:
        return f"{name} is in no view"
    membership = world.member(name, group)
    but = [] if membership.stable else ["not stable"]
    but += ["catching up"] if membership.synchronising else []
    but += [] if membership.quorum else ["no majority"]
    return ", ".join([f"{name} is in {view}", *but])


def _told(scene: Scene, event: Event) -> tuple[str, str]:
    """An event as a verb, and what it is about where several may share a line; nothing for events that say nothing new."""
    if type(event) is tuple:
        batch, low, high = event
        return "delivers", scene.listed(MessageId(batch.sender, seqno) for seqno in range(low, high + 1))
    if type(event) is Orphaned:
        return "delivers", f"{scene.called(MessageId(event.batch.sender, event.seqno))} (without {scene.listed(event.missing)})"
    if type(event) is Recovered and event.missing:
        return "recovers", f"{scene.called(MessageId(event.batch.sender, event.low))} (without {scene.listed(event.missing)})"
    if type(event) is Recovered:
        return "recovers", scene.listed(MessageId(event.batch.sender, seqno) for seqno in range(event.low, event.high + 1))
    if type(event) is MissedMessages:
        return "misses", _ranges(event.lost)
    return _news(event), ""


def _news(event: Event) -> str:
    match event:
        case Installed(view, _, sides) if len(sides) > 1:
            return f"merges into view {view.number} [{' | '.join(map(_names, sides))}]"
        case Installed(view):
            return f"is in {view}"
        case Synchronised():
            return "has caught up"
        case NoMajority():
            return "has no majority"
        case Departed(reason, unsaid):
            return f"is out: {reason}{f', {unsaid} of its messages unsaid' if unsaid else ''}"
        case PrivateMessage(sender, data, kind):
            verb = {"say": "hears", "ask": "is asked", "reply": "is answered"}.get(kind, kind)
            return f"{verb} {quote(data.decode(errors='replace'))} {'from' if kind == 'say' else 'by'} {name_of(sender)}"
        case Undelivered(to, _, kind):
            return f"could not {'reply to' if kind == 'reply' else kind} {name_of(to)}"
        case StateWanted():
            return "is asked for its state"
        case StateArrived(state):
            return f"is given the state {quote(state.decode(errors='replace'))}"
        case StateUnavailable(reason):
            return f"is given no state: {reason}"
        case Discovered(info):
            return f"hears of {name_of(info.id)}"
        case Vanished(group):
            return f"hears that {name_of(group)} has ended"
        case NameServerAnswer(_, groups, refused, reason):
            names = " ".join(sorted(name_of(info.id) for info in groups))
            return f"is told of {names or 'no group'}" if not refused and not reason else f"is told of no group: {reason or 'refused'}"
        case GuestRefused(group, _, why):
            return f"is not let into {name_of(group)}: {why}"
        case _:
            return ""  # Writable and Stabilised: nothing that a reader of the story waits for


def _names(members: Sequence[MemberId]) -> str:
    return " ".join(map(name_of, members))


def _ranges(holdings: Holdings) -> str:
    told = []
    for sender in sorted(holdings):
        flat = holdings[sender]
        for low, high in zip(flat[::2], flat[1::2], strict=True):
            told.append(f"{name_of(sender)}:{low}" + (f"..{high}" if high > low else ""))
    return " ".join(told)
