"""Scenarios: stories of a group in text files, told to the simulator, read by people, kept as tests.

One command per line; `#` starts a comment. Lines that start with `> ` record what the command above them printed. A run compares
what is printed now with what is recorded and shows the difference; with `rewrite` it records anew, and the difference is reviewed
in version control.

    group ORDER [MULTICAST] members A B C [seed 7] [delivery safe] [window 64] [fanout 3]
    nodes A B C [late D] [seed 7] [seeds A] [shy B]
    network [from A to B] [latency L] [loss 2%] [duplicate 1%] [reorder 5%] [by 50ms] [bandwidth 100000] [queue 1s] [keyed]
    settings NAME VALUE …                                             (before the group)

    A sends q1 ["text"] [after x y]     A sends m 20 times            A sends big of 200000 bytes
    B answers q1 as a1 ["text"] [after x y]

    at 20ms · wait 50ms · settle [10s]
    cut A B · cut A -> B · split A | B C (or partition) · heal
    crash A · restart A · pause A (or freeze) · resume A · slow A 10ms · skew A +50ms [rate 1.01] · view A B C

    drop|hold|delay 50ms|duplicate|reorder  KIND|frames  [from A] [to B] [out|in]  [first 3 | every 2nd | with 10%]
    release all|one|LABEL … [KIND] [from A] [to B] · drop held [KIND] [from A] [to B] · clear rules

    show deliveries [at A] · show held [at A] · show why q1 at A · show stats at A · show time
    show frames [KIND] [from A] [to B] · show held frames · show rules
    expect A delivered q1 a1 · expect A delivered nothing · expect A holds 2 · expect 7 data [from A] [to B]
    check · replay

`group` starts with a group whose views are what `view` says. `nodes` starts with nodes in no group, which agree on views by
themselves (there is no `view`), and more can be told of them:

    gather g ORDER [MULTICAST] [delivery safe] [window 64] [fanout 3] [majority] [open] [evict [after 10s]]
    A creates g ORDER … [about "text"]
    B joins g [history all|none|last 5|since 2s|state] [via A] [or creates ORDER …]
    A leaves g · C rejects g · A advertises · D asks A for groups · D starts (if it is `late`)
    A says "text" to B · A asks B|all "text" as k · B replies to k "text" · D tells g "text" (from outside, to an open group)
    stop reading A · start reading A

    show views [at A] · show members · show groups [at A] · show history [at A] · show story [at A]
    expect converged · expect same history · expect A sees A B C · expect A knows g · expect A remembers q1 a1

With several groups a line says at its end which it is about, `A sends q1 in g`; otherwise it is about the first. `seeds` are the nodes
that a broadcast reaches; who is `shy` is no name server. The state of an application is the list of what it was told.

A file may tell several groups, one after the other; each starts anew, at time 0. Plain `sends` lines that follow each other are
one turn, so that their messages leave as one batch per sender; every other command first lets the present instant end. What the
group refuses (no credit, no majority, an unread question, a message too large) is printed. `check` asks every promise of the
groups, so settle before it. `replay` does everything since `group` or `nodes` again in a second world and compares what happened.

Limits: 1 MiB, 10,000 lines of 4,000 characters, 64 members, 64 groups, 100,000 messages, one hour of virtual time.
"""

from __future__ import annotations

from antiphon.sim.scenario.document import ScenarioResult, run_file, run_text

__all__ = ["ScenarioResult", "run_file", "run_text"]
