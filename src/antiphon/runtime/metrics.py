"""What a node counts, under names that monitoring systems understand.

The catalogue below says for each entry of `node.stats()` under which name it is exported, whether it only grows (`counter`) or goes up and
down (`gauge`), its unit (UCUM, as OpenTelemetry spells units: `By` is bytes, `{message}` a count of messages), and what it says.
`docs/metrics.md` has the same table for people, and a test holds the two together. Counters begin at 0 with a node, those of a group with
each time the node joins it, and those of the multicast with each view: read them as rates.

    for sample in samples(node.name, node.stats()):
        print(sample.metric.name, sample.labels, sample.value)

Nothing here costs anything while nobody asks. Asking costs what `stats` does, and a few µs per group.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from antiphon.model.ids import name_of

_SUFFIX_BY_UNIT = {"By": "_bytes", "s": "_seconds"}


class Metric(Struct, frozen=True):
    """`label` is what a metric is divided by, beside the node and the group: `reason`, or `member`."""

    name: str
    kind: str
    unit: str
    help: str
    label: str = ""

    @property
    def prometheus(self) -> str:
        """The name after the rules by which OpenTelemetry's is turned into Prometheus's."""
        total = "_total" if self.kind == "counter" else ""
        return self.name.replace(".", "_") + _SUFFIX_BY_UNIT.get(self.unit, "") + total


class Sample(Struct, frozen=True):
    metric: Metric
    labels: dict[str, str]
    value: float


def _counter(name: str, unit: str, help: str, label: str = "") -> Metric:
    return Metric(f"antiphon.{name}", "counter", unit, help, label)


def _gauge(name: str, unit: str, help: str, label: str = "") -> Metric:
    return Metric(f"antiphon.{name}", "gauge", unit, help, label)


NODE: dict[str, Metric] = {
    "frames_received": _counter("node.frames.received", "{frame}", "Frames that came from other nodes"),
    "bytes_received": _counter("node.received", "By", "Bytes of the frames that came, without what transport and sealing add"),
    "frames_sent": _counter("node.frames.sent", "{frame}", "Frames sent, each counted once however many nodes it goes to"),
    "bytes_sent": _counter("node.sent", "By", "Bytes of the frames sent, each counted once"),
    "relayed": _counter("node.frames.relayed", "{frame}", "Frames passed on for two nodes that cannot reach each other"),
    "routes": _gauge("node.routes", "{node}", "Nodes that are reached through another"),
    "known_groups": _gauge("node.groups.known", "{group}", "Groups that this node has heard of"),
    "searches": _gauge("node.groups.wanted", "{group}", "Groups that are looked for, to be joined"),
    "outsiders": _gauge("node.groups.outside", "{group}", "Open groups that this node sends to without being in them"),
    "drops": _counter("node.drops", "{frame}", "Frames dropped before they reached a group", "reason"),
    "refused": _counter("node.refused", "{frame}", "Frames and connections refused for want of the right credentials", "cause"),
}
TRANSPORT: dict[str, Metric] = {
    "wires_sent": _counter("transport.wires.sent", "{wire}", "Wires handed to connections, each counted for each receiver"),
    "bytes_sent": _counter("transport.sent", "By", "Bytes handed to connections"),
    "links": _gauge("transport.links", "{connection}", "Peers that this node connects to, connected or trying"),
    "doors": _gauge("transport.doors", "{connection}", "Connections that peers made to this node"),
    "connections_made": _counter("transport.connections.made", "{connection}", "Connections that this node made and that succeeded"),
    "half_wires_bytes": _gauge("transport.half_wires", "By", "Bytes of wires that have half arrived over connections"),
    "sent_datagrams": _counter("transport.datagrams.sent", "{datagram}", "Datagrams sent"),
    "sent_bytes": _counter("transport.datagrams.sent.size", "By", "Bytes of the datagrams sent"),
    "received_datagrams": _counter("transport.datagrams.received", "{datagram}", "Datagrams that came"),
    "received_bytes": _counter("transport.datagrams.received.size", "By", "Bytes of the datagrams that came"),
    "send_queue_bytes": _gauge("transport.queue.size", "By", "Bytes that wait until the system takes them"),
    "receive_buffer_bytes": _gauge("transport.buffer.receive", "By", "What the system grants for datagrams that wait to be read"),
    "send_buffer_bytes": _gauge("transport.buffer.send", "By", "What the system grants for datagrams that wait to be sent"),
    "datagram_bytes": _gauge("transport.datagram.limit", "By", "The largest datagram that is sent in one piece"),
    "frame_bytes": _gauge("transport.frame.limit", "By", "The largest frame that is made for this network"),
    "reassembly.held_bytes": _gauge("transport.reassembly.size", "By", "Bytes of half-arrived wires"),
    "reassembly.wires": _gauge("transport.reassembly.wires", "{wire}", "Half-arrived wires"),
    "reassembly.sources": _gauge("transport.reassembly.sources", "{node}", "Known nodes whose wires are put together"),
    "reassembly.strangers": _gauge("transport.reassembly.strangers", "{node}", "Unknown nodes whose wires are put together"),
    "multicast.sent_datagrams": _counter("transport.multicast.sent", "{datagram}", "Datagrams sent to the multicast group"),
    "multicast.audiences": _gauge("transport.multicast.audiences", "{audience}", "Sets of nodes that are multicast to"),
    "multicast.hearing": _gauge("transport.multicast.hearing", "{node}", "Nodes that are known to hear multicasts of this one"),
    "seeds.known": _gauge("transport.seeds.known", "{node}", "Seeds whose address is known"),
    "seeds.unknown": _gauge("transport.seeds.unknown", "{node}", "Seeds whose name could not be looked up"),
    "met": _gauge("transport.met", "{node}", "Nodes that broadcasts are also sent to, because they were heard"),
    "drops": _counter("transport.drops", "{wire}", "What the transport could not send, or did not take", "reason"),
}
SECURITY: dict[str, Metric] = {
    "sessions": _gauge("security.sessions", "{session}", "Nodes that have proven who they are"),
    "unproven": _gauge("security.unproven", "{session}", "Nodes that have yet to"),
    "handshakes": _gauge("security.handshakes", "{handshake}", "Handshakes under way"),
    "drops": _counter("security.drops", "{datagram}", "What was refused for want of a credential", "reason"),
}
GROUP: dict[str, Metric] = {
    "members": _gauge("group.members", "{member}", "Members of the view"),
    "views_installed": _counter("group.views.installed", "{view}", "Views since this node came in"),
    "stable": _gauge("group.stable", "{flag}", "1 when every member has the view and has caught up in it, else 0"),
    "synchronised": _gauge("group.synchronised", "{flag}", "1 when this member has caught up, else 0"),
    "suspects": _gauge("group.suspects", "{member}", "Members that are taken for dead"),
    "absent": _gauge("group.absent", "{member}", "Former members that did not leave, and are looked for"),
    "sent": _counter("group.messages.sent", "{message}", "Messages accepted from the application"),
    "unsent": _gauge("group.messages.unsent", "{message}", "Messages accepted and not yet sent, because of a change of the view"),
    "delivered": _counter("group.messages.delivered", "{message}", "Messages delivered, the own ones among them, read or not"),
    "recovered": _counter("group.messages.recovered", "{message}", "Messages that came late, by synchronisation"),
    "held": _gauge("group.messages.held", "{message}", "Messages that are here and wait for others before them"),
    "delivered_places": _counter("group.places.delivered", "{message}", "Total order: places delivered in this view"),
    "known_places": _counter("group.places.known", "{message}", "Total order: places that the sequencer has given in this view"),
    "letters_delivered": _counter("group.letters.delivered", "{message}", "Messages and questions to this member alone"),
    "private_under_way": _gauge("group.letters.under_way", "{message}", "Messages to single members that are not acknowledged"),
    "bad_payloads": _counter("group.payloads.bad", "{message}", "Payloads that were read and are not of the group's type"),
    "inbox_messages": _gauge("group.inbox.messages", "{message}", "Messages that the application has not read, about"),
    "inbox_bytes": _gauge("group.inbox.size", "By", "Bytes that the application has not read, about"),
    "inbox_deliveries": _gauge("group.inbox.deliveries", "{delivery}", "Batches and other events that the application has not read"),
    "reading": _gauge("group.reading", "{flag}", "1 while the application takes what is delivered; 0 when it holds the others up"),
    "credit": _gauge("group.credit", "{message}", "Messages that would be accepted now"),
    "sends_waiting": _gauge("group.sends.waiting", "{call}", "Calls of send that wait for credit"),
    "lag_by_member": _gauge("group.lag", "{message}", "How many messages of this member another does not hold yet", "member"),
    "frames_sent": _counter("group.frames.sent", "{frame}", "Batches and fragments sent in this view"),
    "kept_frames": _gauge("group.kept.frames", "{frame}", "Frames kept until every member has them"),
    "kept_bytes": _gauge("group.kept.size", "By", "Bytes of them"),
    "gaps": _gauge("group.gaps", "{message}", "Messages that are known to exist and have not come"),
    "requests_sent": _counter("group.repairs.requested", "{frame}", "Requests for what is missing, in this view"),
    "repairs_sent": _counter("group.repairs.sent", "{frame}", "Frames sent again for others, in this view"),
    "digests_sent": _counter("group.digests.sent", "{frame}", "Digests sent in this view"),
    "history_messages": _gauge("group.history.messages", "{message}", "Messages kept for those who come later"),
    "history_bytes": _gauge("group.history.size", "By", "Bytes of them"),
    "history_epochs": _gauge("group.history.epochs", "{epoch}", "Stretches of views that they belong to"),
    "sync_questions": _counter("group.synchronisation.questions", "{frame}", "What this member asked for when it caught up"),
    "sync_answers": _counter("group.synchronisation.answers", "{frame}", "What it answered to others"),
    "sync_answers_suppressed": _counter(
        "group.synchronisation.answers.suppressed", "{frame}", "What it did not answer, because another had"
    ),
    "drops": _counter("group.drops", "{frame}", "Frames of the group that were dropped", "reason"),
    "record_conflicts": _counter("group.record.conflicts", "{write}", "On a store: changes of its record in which another was faster"),
    "views_placed_for_others": _counter("group.views.placed", "{view}", "On a store: views told in the place of who had made them"),
    "members_put_out": _counter("group.members.removed", "{member}", "On a store: members that this one put out, for they were silent"),
    "merges": _counter("group.merges", "{merge}", "On a store: times this member was put out and came in again"),
    "gaps_told": _counter("group.gaps.told", "{gap}", "On a store: stretches of the past that are gone"),
    "foreign_values": _counter("group.values.foreign", "{value}", "On a store: values in its topic that are none of a group"),
    "store_unreachable": _counter("group.store.unanswered", "{call}", "Attempts for the group that the store did not answer"),
    "store_losses": _counter("group.store.losses", "{loss}", "On a store: times that the store did not answer for longer than `lost_s`"),
    "view_stale": _gauge("group.view.stale", "{flag}", "On a store: 1 while it does not answer and the view may be out of date, else 0"),
    "archive_waiting": _gauge("group.archive.waiting", "{message}", "Messages that wait until the archive has them"),
    "archived": _counter("group.archive.messages", "{message}", "Messages that this member wrote to the archive"),
    "archive_dropped": _counter("group.archive.dropped", "{message}", "Messages that could not be archived in time"),
}
STORE: dict[str, Metric] = {
    "published": _counter("store.values.published", "{value}", "Values that the store has acknowledged"),
    "batches": _counter("store.batches.published", "{batch}", "Publishes they took"),
    "publishing": _gauge("store.values.publishing", "{value}", "Values that wait to be acknowledged"),
    "queued": _counter("store.values.queued", "{value}", "Values that went to the outbox, because the store did not answer"),
    "read": _counter("store.values.read", "{value}", "Values delivered to readers"),
    "prefetched": _gauge("store.values.prefetched", "{value}", "Values and gaps that are read ahead"),
    "expired": _counter("store.values.expired", "{value}", "Values that were not delivered, because they were older than the lease"),
    "gaps": _counter("store.gaps", "{gap}", "Gaps that were told: stretches of values that are gone"),
    "done": _counter("store.positions.written", "{write}", "Positions of subscribers written, with their states"),
    "subscriptions": _gauge("store.subscriptions", "{subscription}", "Subscriptions that are open here"),
    "subscriptions_unreachable": _gauge(
        "store.subscriptions.unreachable", "{subscription}", "Subscriptions for which the store does not answer"
    ),
    "unreachable": _counter("store.calls.unanswered", "{call}", "Attempts that the store did not answer"),
    "retries": _counter("store.calls.repeated", "{call}", "Those of them that were made again"),
    "fenced": _counter("store.fenced", "{holder}", "Publishers and subscriptions here in whose place another has come"),
    "outbox.waiting": _gauge("store.outbox.values", "{value}", "Values that wait in the outbox"),
    "outbox.waiting_bytes": _gauge("store.outbox.size", "By", "Bytes of them"),
    "outbox.drained": _counter("store.outbox.drained", "{value}", "Values that went from the outbox to the store"),
    "outbox.batches": _counter("store.outbox.batches", "{batch}", "Publishes they took"),
    "outbox.retries": _counter("store.outbox.retries", "{call}", "Attempts to send from the outbox that failed"),
    "outbox.blocked": _gauge("store.outbox.blocked", "{topic}", "Topics whose values in the outbox the store refuses"),
    "ring.member": _gauge("store.ring.member", "{flag}", "1 while what this node reads is kept from being collected, else 0"),
    "ring.absences": _counter("store.ring.absences", "{absence}", "Times this node was silent for so long that nobody waited for it"),
    "ring.rounds": _counter("store.ring.rounds", "{round}", "Rounds of the ring that ended here"),
    "ring.unreachable": _counter("store.ring.unanswered", "{call}", "Turns of the ring that failed"),
    "collector.collections": _counter("store.collections", "{collection}", "Collections made here"),
    "collector.removed": _counter("store.values.collected", "{value}", "Values they removed"),
    "collector.failures": _counter("store.collections.failed", "{collection}", "Collections that failed"),
}

CATALOGUE: tuple[Metric, ...] = tuple(metric for part in (NODE, TRANSPORT, SECURITY, GROUP, STORE) for metric in part.values())


def samples(node: str, stats: Mapping[str, Any]) -> Iterator[Sample]:
    """What `node.stats()` says, as samples of the catalogue, each with the labels that tell it from all others."""
    labels = {"node": node}
    yield from _of(NODE, stats, labels)
    transport: Mapping[str, Any] = stats.get("transport", {})
    yield from _of(TRANSPORT, transport, labels)
    yield from _of(SECURITY, transport.get("security", {}), labels)
    yield from _of(STORE, stats.get("store", {}), labels)
    groups: Mapping[str, Mapping[str, Any]] = stats.get("groups", {})
    same_name = Tally(map(name_of, groups))
    for id, group in groups.items():
        name = name_of(id)
        # Two groups of one name would be one series with two values, for which a scraper refuses all of them.
        yield from _of(GROUP, group, {**labels, "group": name if same_name[name] == 1 else id})


def _of(part: Mapping[str, Metric], stats: Mapping[str, Any], labels: dict[str, str]) -> Iterator[Sample]:
    for path, metric in part.items():
        value = _at(stats, path)
        if value is None:
            continue
        if metric.label:
            for key, each in _by_label(metric.label, value).items():
                yield Sample(metric, {**labels, metric.label: key}, each)
        else:
            yield Sample(metric, labels, value if isinstance(value, int | float) else len(value))


def _at(stats: Mapping[str, Any], path: str) -> Any:
    """The entry of that name, `outer.inner` in a nested one; None where there is none."""
    value: Any = stats
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _by_label(label: str, values: Mapping[str, float]) -> dict[str, float]:
    if label != "member":
        return dict(values)
    worst: dict[str, float] = {}
    for member, value in values.items():  # ids are new with every start: by name there is one series per member, not per start
        worst[name_of(member)] = max(value, worst.get(name_of(member), 0))
    return worst
