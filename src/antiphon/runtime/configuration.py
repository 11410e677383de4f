"""A node as a file or flags describe it: what it is called, where it listens, who may take part, which groups it is in.

`configuration_file.py` reads it from TOML. `EXAMPLE` is such a file with everything in it, as `antiphon node config` prints it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from antiphon.errors import InvalidOption
from antiphon.model.options import GroupOptions, Settings
from antiphon.protocol.registry import stages
from antiphon.runtime.logs import LEVELS
from antiphon.runtime.node import Node
from antiphon.store.groups.record import SILENCE_S
from antiphon.store.records import TopicOptions

if TYPE_CHECKING:
    from antiphon.runtime.security import Certificates, PreSharedKey

TRANSPORTS = ("udp", "tcp")
RETENTION_S = TopicOptions().retention_s


class Log(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    json: bool = False
    level: str = "INFO"

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise InvalidOption("level", self.level, f"choose one of {', '.join(LEVELS)}")


class Security(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key that all share, or a certificate of the node's own; beside either, keys of single groups by their names."""

    key_file: str = ""
    certificate: str = ""
    private_key: str = ""
    authority: str = ""
    groups: dict[str, str] = {}

    def __post_init__(self) -> None:
        parts = {"certificate": self.certificate, "private_key": self.private_key, "authority": self.authority}
        if self.key_file and any(parts.values()):
            raise InvalidOption("key_file", self.key_file, "a node has a key or a certificate: leave one of them out")
        missing = [part for part, value in parts.items() if not value]
        if 0 < len(missing) < len(parts):
            raise InvalidOption(missing[0], "", f"a certificate needs all of {', '.join(parts)}")

    def credentials(self) -> PreSharedKey | Certificates | None:
        from antiphon.runtime.security import Certificates, PreSharedKey

        if self.key_file:
            return PreSharedKey.from_file(self.key_file)
        return Certificates(self.certificate, self.private_key, self.authority) if self.certificate else None

    def keys(self) -> dict[str, PreSharedKey]:
        from antiphon.runtime.security import PreSharedKey

        return {group: PreSharedKey.from_file(path) for group, path in self.groups.items()}


class Membership(GroupOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A group to be in: its options if this node founds it, and what is wanted of the past: `all`, `none` or `last 100`. One that is on
    the node's store has `silence_s` and `retention_s` instead of what concerns a network."""

    history: str = "all"
    on: str = "network"
    silence_s: float = SILENCE_S
    retention_s: float = RETENTION_S

    def __post_init__(self) -> None:
        super().__post_init__()
        stages(self)
        self.wanted()
        if self.on not in ("network", "store"):
            raise InvalidOption("on", self.on, "choose network, or store for a group on the node's store")
        if self.on == "network" and self.partitions == "majority" and not self.expect:
            why = "a group with partitions = \"majority\" needs it: write the number of nodes that found it, or a list of their names"
            raise InvalidOption("expect", self.expect, why)
        if self.on == "store" and self.order not in (GroupOptions().order, "total"):
            raise InvalidOption("order", self.order, "a group on a store has the order of the store: leave it out, or write total")
        for name in ("silence_s", "retention_s"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InvalidOption(name, getattr(self, name), "write a number of seconds above 0")

    @property
    def needs_store(self) -> bool:
        return self.on == "store" or self.history_in == "store"

    def wanted(self) -> str | tuple[str, float]:
        """`history` as `Node.join` takes it."""
        if self.history in ("all", "none"):
            return self.history
        found = re.fullmatch(r"last (\d{1,9})", self.history)
        if found is None or not int(found[1]):
            raise InvalidOption("history", self.history, "write all, none, or how many messages: last 100")
        return "last", int(found[1])

    def options(self) -> dict[str, Any]:
        """The options that `Node.join` takes beside."""
        if self.on == "store":
            return {"on": self.on, "silence_s": self.silence_s, "retention_s": self.retention_s}
        return {field: getattr(self, field) for field in GroupOptions.__struct_fields__}


class NodeConfiguration(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str = ""
    transport: str = "udp"
    bind: str = ""
    seeds: tuple[str, ...] = ()
    interface: str = ""
    metrics: str = ""
    store: str = ""
    outbox: str = ""
    trace: str = ""
    directory: str = ""
    log: Log = Log()
    security: Security = Security()
    groups: dict[str, Membership] = {}
    settings: Settings = Settings()

    def __post_init__(self) -> None:
        if self.transport not in TRANSPORTS:
            raise InvalidOption("transport", self.transport, f"choose {' or '.join(TRANSPORTS)}")
        if self.interface and self.transport != "udp":
            raise InvalidOption("interface", self.interface, 'it says where to multicast: leave it out, or set transport = "udp"')
        if self.outbox and not self.store:
            raise InvalidOption("outbox", self.outbox, 'it keeps what a store does not take: say which, as in store = "sqlite:field.db"')
        lacking = [name for name, group in self.groups.items() if group.needs_store and not self.store]
        if lacking:
            raise InvalidOption("store", "", f'the group {lacking[0]} needs one: say which, as in store = "sqlite:field.db"')

    def node(self) -> Node:
        """The node, not started yet. Raises what is wrong with its name, its addresses or its keys."""
        if not self.name:
            raise InvalidOption("name", "", "a node needs one: set it in the file, or with --name")
        more: dict[str, Any] = {"interface": self.interface} if self.interface else {}
        return Node(
            self.name,
            transport=self.transport,
            bind=self.bind or None,
            seeds=self.seeds,
            credentials=self.security.credentials(),
            keys=self.security.keys(),
            settings=self.settings if self.settings != Settings() else None,
            metrics=self.metrics or None,
            store=self.store or None,
            outbox=self.outbox or None,
            trace=self.trace or None,
            directory=self.directory or None,
            **more,
        )


EXAMPLE = '''\
# A node of Antiphon. Run it with: antiphon node run --config node.toml
# What is commented out shows the default, or one way to set what has none.

name = "ana"
transport = "udp"                     # udp: nodes of a local network find each other by multicast; tcp: through seeds
# bind = "0.0.0.0:4040"               # where this node listens; port 0 is any free one (tcp without it: this machine only)
# seeds = ["192.168.1.7:4040"]        # nodes to find others through, where multicast does not reach
# interface = "eth0"                  # udp: which network to multicast in, by name or address
# metrics = "9464"                    # Prometheus reads http://127.0.0.1:9464/metrics; host:port opens it to others
# store = "sqlite:field.db"           # durable topics, groups on a store, histories; nats://host:4222 for many machines
# outbox = "outbox.db"                # keeps, on this machine, what the store does not take while it does not answer
# directory = "state"                 # remembers, across restarts, who founded the groups with partitions = "majority"
# trace = "traces"                    # records what happens, in files in this directory; all nodes of a trial may share it

[log]
json = false                          # true: one JSON object per line
level = "INFO"                        # DEBUG, INFO, WARNING or ERROR

[security]                            # without any of these everybody who reaches the node can take part
# key_file = "node.key"               # a key that all nodes share: antiphon doctor key --out node.key
# certificate = "ana.pem"             # or a certificate made out to the node's name,
# private_key = "ana.key"             # its key,
# authority = "authority.pem"         # and who signs the nodes' certificates

[security.groups]                     # groups with a key of their own, beside
# board = "board.key"

[groups.trip]                         # a group to be in; it is founded with these options if nobody has
order = "semantic"                    # unordered, fifo, causal, total or semantic
multicast = "reliable"                # besteffort, reliable, flood or tree
# delivery = "agreed"                 # safe: a message is delivered when a majority of the members hold it
# partitions = "continue"             # majority: only a side with more than half of the members goes on
# expect = 3                          # majority: how many nodes found the group together, or their names: ["ana", "ben", "cem"]
# open = false                        # true: nodes outside may send to it
# slow = "block"                      # evict: who holds the others up for slow_s is put out
# slow_s = 10.0
# history = "all"                     # what is wanted of the past: all, none, or "last 100"
# history_in = ""                     # store: members archive what they deliver in the store, newcomers read it there
# on = "network"                      # store: the group is on the store, and its members need no network between them;
# silence_s = 30.0                    # then who does not beat for so long is put out,
# retention_s = 604800.0              # and messages are kept for so long

[settings]                            # bounds and intervals of this node; see Settings in the API
# heartbeat_s = 1.0
# suspect_s = 2.5
# inbox_messages = 131072
'''
