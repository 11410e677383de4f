"""Ordering: decides when what has arrived is delivered.

Theory of operation. Multicast hands up every message exactly once, in any order, as ranges of batches. An ordering delivers a
range at once, or keeps it and delivers it with the event that makes it deliverable: another message or, in total order, a record of
the sequencer.

| order     | a message waits for                                   | keeps                              | at the bound                 |
|-----------|-------------------------------------------------------|------------------------------------|------------------------------|
| unordered | nothing                                               | nothing                            | –                            |
| fifo      | its sender's earlier messages                         | ranges beyond a gap, per sender    | the window refuses more      |
| causal    | those, and all its sender had delivered before it     | batches, under one cause each      | what would wait is not taken |
| total     | its place in the sequencer's numbering                | unplaced data, places without data | what would wait is not taken |
| semantic  | the messages it names                                 | messages, under each missing parent | what would wait is not taken |

A view change ends every wait that cannot end otherwise: see each order's `on_view`.
"""
