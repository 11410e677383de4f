"""A case of nodes, run to its end: they find each other, the weather does to them what it likes, then it calms down, and they are judged.

While the weather lasts, nodes crash, come back, leave, stand still, and are cut off from each other in every way, and all of them talk.
Then nothing is lost or cut any more, who was paused goes on, who is slow is quick again: now everybody who lives and has not left must be
in one stable view, have caught up with everything, and take new messages. That is liveness; what is left after `play.CALM_LIMIT_S` is a
stall. A group in which only a majority goes on may have lost its majority for good, if somebody died or left: then all must have stopped.

Safety is judged by the oracles over the whole run; and the canonical history of the members, which must be one and obey the order. Where
frames were corrupted, only recovery is judged: what an altered frame said may have been believed.
"""

from __future__ import annotations

from itertools import pairwise

from antiphon.model.control import Wants
from antiphon.model.ids import MemberId, MessageId
from antiphon.sim.log import Delivered, MemberLog, Missed
from antiphon.sim.oracles import ORACLES, Violation, check_group, promised
from antiphon.sim.oracles.history import History, Life
from antiphon.sim.swarm.case import Case
from antiphon.sim.swarm.chatter import GROUP
from antiphon.sim.swarm.node_weather import SHORT_HISTORY, NodeWeather
from antiphon.sim.swarm.outcome import Keep, Outcome, outcome_of
from antiphon.sim.swarm.play import Play

_ORDERS_OF_HISTORY = ("fifo", "causal", "parent_before_child")


def run_nodes(case: Case, weather: NodeWeather | None = None, trace: Keep | None = None) -> Outcome:
    """Runs a case of nodes, in another weather than its seed's if one is given. `trace` is given the world, recorded, at its end."""
    play = Play(case, weather or NodeWeather.of(case), trace=trace is not None)
    stalled = error = ""
    try:
        stalled = play.run()
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
    if trace is not None:
        trace(play.world)
    # A run that did not come to its end is judged only for what may be said at any moment.
    settled = not (stalled or error or play.stopped)
    violations = play.violations
    if play.weather.corruption is None:
        violations += check_group(play.world.logs_of(GROUP), play.weather.options, play.world.wants, settled=settled)
        if settled:
            violations += judge_histories(play)
    sent, refused = (play.chatter.sent, play.chatter.refused) if play.chatter is not None else (0, 0)
    return outcome_of(case, play.world, violations, sent=sent, refused=refused, stalled=stalled, error=error)


def judge_histories(play: Play) -> list[Violation]:
    """Every member's `history()` holds what it delivered, as far as it keeps that, in an order that all share and that obeys the group's
    promises."""
    world = play.world
    found: list[Violation] = []
    members = [world.member(name, GROUP) for name in world.names if world.is_member(name, GROUP)]
    names = [name for name in world.names if world.is_member(name, GROUP)]
    history_by_member = {member.me: world.history(name, GROUP) for name, member in zip(names, members, strict=True)}
    whole = [messages for member, messages in history_by_member.items() if play.world.wants.get(member, Wants()).kind == "all"]
    longest = max(whole or history_by_member.values(), key=len, default=[])
    short = play.weather.settings.history_messages == SHORT_HISTORY
    place_of = {message: place for place, message in enumerate(longest)}
    log_by_member = {log.member: log for log in world.logs_of(GROUP)}
    view_by_message = {event.id: event.view for log in log_by_member.values() for event in log.events if type(event) is Delivered}
    for member, messages in history_by_member.items():
        delivered = {event.id for event in log_by_member[member].events if type(event) is Delivered}
        for odd in sorted(set(messages) - delivered if short else delivered.symmetric_difference(messages))[:1]:
            why = f"delivered {odd} and lacks it in its history" if odd in delivered else f"never delivered {odd}, which is in its history"
            found.append(Violation("history", member, (odd,), why))
        # In total order, who has not the whole of an epoch that ended in several ways lists what it has of it by time.
        partial = short or play.world.wants.get(member, Wants()).kind != "all"
        if partial and play.weather.options.order == "total":
            continue
        # The same holds for an epoch of which messages are lost to a member.
        holed = _views_with_losses(log_by_member[member], view_by_message) if play.weather.options.order == "total" else set()
        for one, two in pairwise(message for message in messages if message in place_of):
            view = view_by_message.get(one)
            if place_of[two] < place_of[one] and not (view in holed and view == view_by_message.get(two)):
                found.append(Violation("history", member, (one, two), f"has {one} before {two}, which others have first"))
                break
    # Where lost messages are not repaired, or old ones forgotten, nobody has a whole history.
    return found if short or play.weather.options.multicast == "besteffort" else found + _judge_canon(play, longest)


def _views_with_losses(log: MemberLog, view_by_message: dict[MessageId, int]) -> set[int]:
    """Return the views in which messages were sent of which this member was told that they are lost."""
    missed = Life(log).missed
    return {view for message, view in view_by_message.items() if message.sender in missed and message.seqno in missed[message.sender]}


def _judge_canon(play: Play, canon: list[MessageId]) -> list[Violation]:
    """The shared history, judged like the life of a member that delivered exactly that, and was told of the same gaps as the members."""
    events = [event for log in play.world.logs_of(GROUP) for event in log.events]
    gaps = [event for event in events if type(event) is Missed]
    lost_by_message = {event.id: event.lost for event in events if type(event) is Delivered and event.lost}
    phantom = MemberLog(
        MemberId("history"), [*gaps, *(Delivered(play.world.now, message, lost=lost_by_message.get(message, ())) for message in canon)]
    )
    history = History([*play.world.logs_of(GROUP), phantom], play.world.wants)
    options = play.weather.options
    promises = promised(options.order, options.multicast)
    return [
        violation
        for name in _ORDERS_OF_HISTORY
        if name in promises
        for violation in ORACLES[name](history, options.multicast, options.delivery)
        if violation.member == phantom.member
    ]
