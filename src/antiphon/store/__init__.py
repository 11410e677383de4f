"""Durable topics on a store.

A *store* keeps *topics*; a topic has values, numbered from 1, each with the store's time. Whoever publishes gets an acknowledgement that
says what it is worth; whoever subscribes reads every value that is due, in order, and leaves a *continuation* (position and state) from
which it, or another in its place, goes on. What nobody needs is collected; what a reader missed it is told as a gap.

    back end                   contract.py: what a store must do; memory.py, sqlite/, jetstream/ do it
    ▲ reach.py                 every call goes through it: repeated, bounded, counted
    ├─ publishing.py           own numbers, batches (gathering.py), the outbox while the store does not answer (outbox.py, draining.py)
    ├─ prefetch.py             reading ahead; succession.py accounts for every number
    ├─ continuation.py         position and state, by compare-and-set
    ├─ ring.py, collector.py   what may be collected: holdings.py says what is needed here, holders.py who keeps a topic
    └─ Store, Topic, Subscription: what users see

`records.py` has the nouns, `retention.py` the rule of what may go.
"""

from __future__ import annotations

from antiphon.store.acknowledgement import Accepted, Acknowledgement, Published, Queued
from antiphon.store.agents.agent import Agent
from antiphon.store.holders import CollectionHold
from antiphon.store.opening import open_store
from antiphon.store.records import Collected, Gap, TopicInfo, TopicOptions, Value
from antiphon.store.settings import StoreSettings
from antiphon.store.store import Store
from antiphon.store.subscription import Subscription
from antiphon.store.topic import SubscriberInfo, Topic

__all__ = [
    "Accepted",
    "Acknowledgement",
    "Agent",
    "Collected",
    "CollectionHold",
    "Gap",
    "Published",
    "Queued",
    "Store",
    "StoreSettings",
    "SubscriberInfo",
    "Subscription",
    "Topic",
    "TopicInfo",
    "TopicOptions",
    "Value",
    "open_store",
]
