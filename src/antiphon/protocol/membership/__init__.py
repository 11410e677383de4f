"""Who is in the group: agreement on views, over failures, partitions and merges.

**Theory of operation.** There is one protocol for every change, whether somebody comes, goes, dies, or two sides of a partition meet.

1. *Propose.* A coordinator (the lowest-ranked member of its view that nobody suspects) chooses a ballot, which is also the id of the
   view to be, and proposes it to all who would be in that view, and to those who leave with it. A participant promises the highest ballot
   it has seen. It freezes: it sends nothing and takes no data any more, and answers with what it holds of its old view.
2. *Flush.* Participants that come from the same old view are one side. The coordinator takes the union of what they hold; whoever lacks
   some of it fetches exactly that from the others, and takes nothing else.
3. *Install.* When nobody lacks anything the view is installed; under the `majority` policy, when everybody has stored it. All who come
   from one old view have then delivered the same messages in it. The coordinator repeats the view until every member has
   acknowledged it; when all have caught up as well, its first member says that the view is stable.
4. *Synchronise.* What one side lacks of the others', and a newcomer of the past, it asks for (`antiphon.protocol.sync`), and delivers it
   before anything of the new view. A member that is still catching up when the next change begins has delivered nothing of its view: it
   is then a side of its own, and its own messages are sent again in the next view, under the same numbers.

**When things go wrong.** A participant that does not answer is left out after `change_s`, in a new attempt under a higher ballot. A
coordinator that dies is replaced by the next in rank, whose attempt has a higher ballot. If it died after some had installed
its view, the next proposal carries that view's Install, and those who promised it and miss only that install it first. Two
coordinators at once: the higher ballot counts, the other gives way. A participant stays frozen until some view is installed, so
nothing can be delivered between the answer it gave and the view that was made of it.

**Failure detection.** Digests are the heartbeat. Who is silent for `suspect_s` is probed, directly and through others; an answer
refutes the suspicion. A member that only others hear is reached through them (`antiphon.protocol.routes`), so links that fail in
one direction, or between two members only, do not split a group.

**Founding.** One node founds a group alone; under the `majority` policy, unless it was told to, only all founders together (`founding`):
the first view is agreed on by all of them.

**Partitions.** Each side goes on (`continue`), or only the one with a majority of the last stable view, and of every view installed since
(`majority`). A side remembers whom it lost and its coordinator looks for them, ever less often, never giving up. When two sides meet, the
coordinator with the larger view id asks the members of the other, and proposes a view of both to those who answer.
"""
