"""Evict members that do not read, with real nodes on loopback TCP, and count how often that succeeds.

Four nodes are in a group with `slow="evict"`. The last one does not read, the first two send without end. A run succeeds when the last
node is in no other's view within `--limit-s` and both senders have continued after that.

    python benchmarks/evictions.py --runs 20                               # fifo, one message at a time
    python benchmarks/evictions.py --runs 20 --order total --batch 100     # total order, many at once

Prints progress to standard error and the result to standard output. Exits with status 1 if a member was not evicted in time, 2 if the
arguments are wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from antiphon.bench.evictions import evict
from antiphon.errors import InvalidOption
from antiphon.model.options import GroupOptions, Settings
from antiphon.protocol import registry


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20, help="how many evictions")
    parser.add_argument("--order", default="fifo", help="the group's order")
    parser.add_argument("--batch", type=int, default=1, help="messages sent at a time")
    parser.add_argument("--bytes", type=int, default=1_000, help="bytes of a message")
    parser.add_argument("--slow-s", type=float, default=3.0, help="the group's slow_s")
    parser.add_argument("--window", type=int, default=8_192, help="the group's window")
    parser.add_argument("--inbox", type=int, default=131_072, help="messages that wait for an application that does not read")
    parser.add_argument("--window-bytes", type=int, default=32 << 20, help="own bytes on their way at which a sender waits")
    parser.add_argument("--poll", action="store_true", help="senders use try_send and pause, instead of waiting in send")
    parser.add_argument("--limit-s", type=float, default=20.0, help="seconds after which a member counts as not evicted")
    chosen = parser.parse_args()
    for name, value in (("runs", chosen.runs), ("batch", chosen.batch), ("bytes", chosen.bytes)):
        if value < 1:
            parser.error(f"argument --{name}: give at least 1, not {value}")
    if not 0.0 < chosen.limit_s < float("inf"):
        parser.error(f"argument --limit-s: give more than 0, not {chosen.limit_s:g}")
    try:
        settings = Settings(inbox_messages=chosen.inbox, window_bytes=chosen.window_bytes)
        registry.stages(GroupOptions(order=chosen.order, slow="evict", slow_s=chosen.slow_s, window=chosen.window))
    except InvalidOption as error:
        parser.error(str(error))
    if chosen.bytes > settings.message_bytes:
        parser.error(f"argument --bytes: give at most {settings.message_bytes:,}, not {chosen.bytes:,}")
    times: list[float] = []
    for run in range(1, chosen.runs + 1):
        took = asyncio.run(
            evict(
                order=chosen.order,
                batch=chosen.batch,
                payload_bytes=chosen.bytes,
                slow_s=chosen.slow_s,
                window=chosen.window,
                settings=settings,
                polls=chosen.poll,
                limit_s=chosen.limit_s,
            )
        )
        times += [] if took is None else [took]
        told = f"not evicted within {chosen.limit_s:g} s" if took is None else f"evicted after {took:.1f} s"
        print(f"run {run}: {told}", file=sys.stderr, flush=True)
    slowest = f", the last after {max(times):.1f} s" if times else ""
    print(f"{len(times)} of {chosen.runs} evicted{slowest} ({chosen.order}, {chosen.batch} at a time, {chosen.bytes:,} B)")
    return 0 if len(times) == chosen.runs else 1


if __name__ == "__main__":
    sys.exit(main())
