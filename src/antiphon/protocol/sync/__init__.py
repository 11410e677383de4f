"""What a member lacks of the past: history, synchronisation, and the application's state.

**Theory of operation.** A view, seen from later, is an *epoch*. Every member keeps what it delivered, by epoch (`history`), and knows the
place of each message in the canonical order, which is the same everywhere (`canonical`). When views meet, or somebody comes, those who
come from one old view are a *side*: they have the same messages, so any one of them can speak for all.

1. *Ask.* After a random pause a member broadcasts a question: what it has, as ranges, and what it wants of the rest (`question`). The
   others of its side, who would ask the same, hear it and only listen.
2. *Answer.* Everyone of another side could answer, and waits a random time first; who hears that its side has answered keeps silent, who
   hears another side leaves out what was given (`answerer`, `answer`). An answer holds a chunk of the canonical order.
3. *Take.* Parts of an answer are taken in their order, those that are missing asked for again (`incoming`). What is new is delivered, and
   the next chunk is asked for, until each other side has said once that there is nothing more (`asker`).

Synchronisation goes both ways at once, because every side asks. Its questions are numbered: what was overtaken is late and ignored.

**Why the order holds.** What a member has is closed under happened-before, up to the beginning of its time. An answer is the canonical
order, which extends happened-before, without what the asker has; so every prefix of it can be delivered. What an answer leaves out
because another carried it, it names, and it is taken only after that.

**When things go wrong.** Questions and answers may be lost, doubled, overtaken: whoever waits asks again. A side that stays silent is
given up in the end; the next view is without it. What nobody keeps any more is told as MissedMessages. When the view ends everything
stops, and begins anew in the next with what is here by then.

A newcomer may want the application's state instead of messages: it pulls a snapshot first (`snapshot`), then asks for the rest.
"""
