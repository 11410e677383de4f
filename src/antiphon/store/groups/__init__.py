"""Groups whose members need no network between them: a record says who is in, a topic says what was said, both in a store.

**The record** (`record.py`) is one key, changed by compare-and-set alone: who joins, leaves, comes back or puts out the silent writes the
next epoch on condition that nobody else has, so of two who join at the same moment both are in. The view with number e is the record at
epoch e.

**The topic** is shared, and the store is its sequencer: whoever reads it reads the same values in the same order. Messages are values, as
the batches they would be on a network, and views are values too (`values.py`): so all members see the same messages and the same views in
one order.

**Views are placed before they are followed.** The record and the topic are two writes. Who changes the record writes the view afterwards,
and may die in between. Therefore nobody changes a record whose view is not known to be in the topic: it is placed first, by whoever comes.
A view that two have placed counts once, where it was first. That somebody has read the view (`readers`) proves that it is there.

    record   e=1 {ana}      e=2 {ana ben}            e=3 {ben}
    topic    view 1 · m1 m2 · view 2 · m3 m4 · view 3 · m5

**Time-outs.** Each member beats in a record of its own (`presence.py`), by the store's time. One that is silent for `silence_s` is put out
by the others, at the latest four thirds of that after its last beat plus what the calls take, while one of them reaches the store. If it
was only away it comes in again (`merged`), reads on where it was, and has missed nothing.

**Names.** A node name has one member. A newcomer whose name is held claims it in the record; a live holder refutes the claim, a dead one is
replaced in the change that admits the newcomer, without waiting for `silence_s` (`record.py`, `membership.py`).

**History** of groups on a network can be in a topic as well (`archive.py`).
"""
