"""Scenarios: stories of a group in text files, told to the simulator, read by people, kept as tests.

One command per line; `#` starts a comment. Lines that start with `> ` record what the command above them printed. A run compares
what is printed now with what is recorded and shows the difference; with `rewrite` it records anew, and the difference is reviewed
in version control.

    group ORDER [MULTICAST] members A B C [seed 7] [delivery safe] [window 64] [fanout 3]
    network [from A to B] [latency L] [loss 2%] [duplicate 1%] [reorder 5%] [by 50ms] [bandwidth 100000] [queue 1s] [keyed]
    settings NAME VALUE …                                             (before the group)

    A sends q1 ["text"] [after x y]     A sends m 20 times            A sends big of 200000 bytes
    B answers q1 as a1 ["text"] [after x y]

    at 20ms · wait 50ms · settle [10s]
    cut A B · cut A -> B · split A | B C · heal
    crash A · restart A · pause A · resume A · slow A 10ms · skew A +50ms [rate 1.01] · view A B C

    drop|hold|delay 50ms|duplicate|reorder  KIND|frames  [from A] [to B] [out|in]  [first 3 | every 2nd | with 10%]
    release all|one|LABEL … [KIND] [from A] [to B] · drop held [KIND] [from A] [to B] · clear rules

    show deliveries [at A] · show held [at A] · show why q1 at A · show stats at A · show time
    show frames [KIND] [from A] [to B] · show held frames · show rules
    expect A delivered q1 a1 · expect A delivered nothing · expect A holds 2 · expect 7 data [from A] [to B]
    check · replay

A file may tell several groups, one after the other; each starts anew, at time 0. Plain `sends` lines that follow each other are
one turn, so that their messages leave as one batch per sender; every other command first lets the present instant end. What the
group refuses (no credit, an unread question, a message too large) is printed. `check` asks every promise of the group's order,
so settle before it. `replay` does everything since `group` again in a second world and compares what happened.

Limits: 1 MiB, 10,000 lines of 4,000 characters, 64 members, 100,000 messages, one hour of virtual time.
"""

from __future__ import annotations

from antiphon.sim.scenario.document import ScenarioResult, run_file, run_text

__all__ = ["ScenarioResult", "run_file", "run_text"]
