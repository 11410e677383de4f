"""Promises judged while a group runs, row by row as its trace appears. No Spark here: a `Watch` is fed rows and says what is broken.

Which promises are judged is stated in the group's description, by name, as for the audit of whole traces. `watch.py` itself judges that
members describe the group alike (description), number their deliveries one after the other (positions), and deliver only messages of
members and only while they are members (integrity), and that nobody is in a view twice (views). Every promise that is not judged here is
listed.

It goes by what *is* in the trace, never by what is not: a row that is late, or was missed, may hide a violation and cannot make one up. So
what needs absence (agreement, validity, nothing lost) is left to the audit of whole traces.

    watch.py          one group: its members, and who judges which row
    ├─ deliveries.py  no_duplication and fifo: what one member was given of one sender
    ├─ sends.py       integrity: payloads as they were sent and as they were delivered
    ├─ parents.py     parent_before_child: answers and what they answer
    ├─ claims.py      agreement and parent_before_child: messages that are said to be lost and are not
    └─ sequences.py   total: the sequence of each view, against which every member is held
    told.py           a row, and a breach of a promise
    stretches.py      which rows were read without a hole, before those were left out that the watch is not told

**What is kept** is what is still open. A sender's messages are closed up to the number that every member who is heard of has delivered;
below it sends, checksums and parents are forgotten. Of what a member was given stay ranges, and the newest rows to name as witnesses. The
places of a view are forgotten when all have passed them, the view when all have left it. Who stands in a
view and has not been heard of at all holds everything up. Who is not heard of for `PATIENCE` rounds holds nothing up, and for `BURIED`
rounds is forgotten. Everything has a bound besides, beyond which the oldest is forgotten and counted
(`forgotten`): unjudged, never misjudged.
"""
