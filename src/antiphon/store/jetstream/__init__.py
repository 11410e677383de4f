"""Topics on NATS JetStream: `backend.py` keeps the contract, `server.py` starts servers for development.

**Theory of operation.** One topic is one stream, so that one leader decides the order of everything that happens to it:

    PREFIX.t.<topic>.w.v            values of an ordinary topic
    PREFIX.t.<topic>.w.v.<name>     values of a publisher in a shared topic
    PREFIX.t.<topic>.k.<key>        values of a mutable topic: a new one rolls up the one before
    PREFIX.t.<topic>.w.pub          who has the topic, its options, and how far the numbers are
    PREFIX.t.<topic>.p.<name>       how far the own numbers of a publisher are
    PREFIX.t.<topic>.w.claim        somebody cannot get through: let it
    PREFIX.t.<topic>.c.sub.<id>     a subscriber
    PREFIX.t.<topic>.c.floor        up to where values are collected; the gate
    PREFIX.t.<topic>.c.look         a collector has looked at all subscribers
    PREFIX.r.<key…>, PREFIX.m.…     records, the clock and the ballast, in one further stream with one message per subject
    PREFIX.o.<topic>.<digest>.<n>   parts of states that are too large for a message

Whoever writes values reads what is there, decides, and writes one atomic batch on condition that the newest message of `w.>` is still
the one it has seen: that is how numbers have no holes, a repeat is not written twice, and a fenced publisher fails. All writers name the
very same condition, because a cluster tells writes in flight apart by the text of their conditions only. Who fails again and again, because
others write without a pause, writes a claim: it has no condition and says nothing, but the condition of the others fails by it, and they
wait a moment. `c.floor` is the gate between collectors and new subscribers: both write it, on condition that nobody else has.

JetStream numbers messages per stream; a value's number in its topic is in its header, and its place is the stream's number.
"""

from antiphon.store.jetstream.backend import JetStreamBackend
from antiphon.store.jetstream.server import LocalServers

__all__ = ["JetStreamBackend", "LocalServers"]
