"""Multicast: moves frames to every member of the view, and makes sure they arrive.

Theory of operation. A view of n members has n data streams, one per sender, by rank, and n record streams after them for
orderings that speak among themselves. Everything in a stream is numbered without holes, so a member sees what it misses: from
the ranges that arrive, and from the digests in which members say how far they have each stream.

    send      keep the frame, put it on its way, hand the batch to the own ordering
    receive   cut off what is here already; keep the frame; forward it (flood, tree); hand the new part up
    gap       wait a little (reordering), then ask everyone; twice as long before each further request
    asked     the stream's sender answers at once, to the asker alone, to all when several ask; when the request is repeated,
              anyone who holds the frame answers after a random pause, to all, unless another's answer is heard first
    digest    soon after news, then at intervals that double up to the heartbeat; enough news at once is said at once
    stable    what every member of the view has is dropped from the store; own stable position + window − last sent is the credit

`besteffort` does only the first two lines, without keeping. `flood` and `tree` differ from `reliable` in where a frame is sent
and forwarded. In `safe` groups a gate holds back what is not yet at a majority of the view.
"""
