"""`antiphon.sync` where it is more than the asynchronous API: threads, interrupts, the end of the interpreter, forks."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from textwrap import dedent
from typing import Any

import pytest

from antiphon.api.message import MessageBatch
from antiphon.errors import NotInGroup, TimedOut
from antiphon.sync import Group, Node
from antiphon.sync.background import Background

WAIT_S = 20.0


@pytest.fixture
def pair() -> Iterator[tuple[Group, Group]]:
    """Two members of one group."""
    with Node("ana", transport="memory") as ana, Node("ben", transport="memory") as ben:
        here = ana.create("trip", order="fifo")
        yield here, ben.join(here.id, at=[ana.address], timeout=WAIT_S)


def test_messages_batches_and_events_are_one_stream(pair: tuple[Group, Group]) -> None:
    """A program that reads one message and then the rest as batches would miss some, or read some twice."""
    here, there = pair
    here.send_many([b"%d" % number for number in range(10)])
    first = there.receive(timeout=WAIT_S)
    second = next(iter(there))  # the iterator is thrown away in the middle of a batch
    rest: list[bytes] = []
    batches = there.batches()
    while len(rest) < 8:
        batch = next(batches)
        assert isinstance(batch, MessageBatch)
        rest += batch.payloads
    assert [first.data, second.data, *rest] == [b"%d" % number for number in range(10)]


def test_nothing_that_waits_to_be_read_is_unknown(pair: tuple[Group, Group]) -> None:
    """`why` would say that a message does not exist which the next call returns."""
    here, there = pair
    ids = here.send_many([b"one", b"two", b"three"])
    assert there.receive(timeout=WAIT_S).data == b"one"
    assert [there.why(each).state for each in ids] == ["delivered"] * 3
    assert "waits" in there.why(ids[2]).reason


def test_a_reader_waits_only_as_long_as_it_says(pair: tuple[Group, Group]) -> None:
    """A program that looks now and then whether there is something new would hang, or lose what comes a moment later."""
    here, there = pair
    with pytest.raises(TimedOut):
        there.receive(timeout=0)
    with pytest.raises(TimedOut):
        there.receive(timeout=0.05)
    with pytest.raises(TimedOut):
        there.views().receive(timeout=0.05)
    here.send(b"now")
    assert there.receive(timeout=WAIT_S).data == b"now"


def test_threads_share_the_messages(pair: tuple[Group, Group]) -> None:
    """Workers that read one group would process a message twice, or never."""
    here, there = pair
    count = 3_000
    read: list[list[bytes]] = [[], [], []]

    def work(mine: list[bytes]) -> None:
        for message in there:
            mine.append(message.data)

    workers = [threading.Thread(target=work, args=(mine,), daemon=True) for mine in read]
    for worker in workers:
        worker.start()
    # The sender reads too, in a thread of its own: what waits there need not be a message.
    threading.Thread(target=lambda: deque(here.batches(), maxlen=0), daemon=True).start()
    for start in range(0, count, 100):
        here.send_many([b"%d" % number for number in range(start, start + 100)], timeout=WAIT_S)
    until = time.monotonic() + WAIT_S
    while sum(map(len, read)) < count and time.monotonic() < until:
        time.sleep(0.01)
    there.leave(timeout=WAIT_S)
    for worker in workers:
        worker.join(WAIT_S)
    assert not any(worker.is_alive() for worker in workers), "reading ends when the member has left"
    assert sorted(int(data) for mine in read for data in mine) == list(range(count))
    assert all([int(data) for data in mine] == sorted(int(data) for data in mine) for mine in read)
    with pytest.raises(NotInGroup):
        there.receive(timeout=1)


def test_a_call_within_another_event_loop_works(pair: tuple[Group, Group]) -> None:
    """In a notebook, which has a loop of its own, nothing would work."""
    here, there = pair

    async def cell() -> Any:
        here.send(b"from a notebook")
        return there.receive(timeout=WAIT_S).data

    assert asyncio.run(cell()) == b"from a notebook"


interrupts = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timer that interrupts")


@interrupts
def test_an_interrupt_leaves_nothing_broken(pair: tuple[Group, Group]) -> None:
    """After Ctrl-C at the wrong moment a message would be lost, or the group could not be used any more."""
    here, there = pair
    sent = 0

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    reading, read = iter(there), list[bytes]()
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    with pytest.raises(KeyboardInterrupt):
        next(reading)
    try:
        for _ in range(20):
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            with pytest.raises(KeyboardInterrupt):
                there.receive(timeout=WAIT_S)
            here.send(b"%d" % sent)
            sent += 1
            read.append(there.receive(timeout=WAIT_S).data)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert read == [b"%d" % number for number in range(sent)]
    here.send(b"last")
    assert next(reading).data == b"last", "an iterator that was interrupted goes on"


@interrupts
def test_an_interrupted_wait_is_taken_back() -> None:
    """Interrupted work would go on behind the program's back, and take what the next call should get."""
    behind, ended = Background(), threading.Event()

    waiter = threading.get_ident()

    async def forever() -> None:
        try:
            asyncio.get_running_loop().call_later(0.05, signal.pthread_kill, waiter, signal.SIGALRM)
            await asyncio.sleep(3_600)
        finally:
            ended.set()

    def interrupted() -> None:
        before = signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            behind.run(forever())
        finally:
            signal.signal(signal.SIGALRM, before)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert ended.wait(WAIT_S)
    behind.close()


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", dedent(program)], capture_output=True, text=True, timeout=60, check=False)


def test_calls_on_the_loop_itself_are_refused() -> None:
    """A program would stop for ever without a word, because the loop waits for itself."""
    done = run("""
        import antiphon.sync
        from antiphon.errors import UsageError
        from antiphon.sync.background import background

        async def on_the_loop(call):
            try:
                call()
            except UsageError as error:
                return "another thread" in str(error)

        with antiphon.sync.Node("ana", transport="memory") as node:
            group = node.create("trip")
            print(background().run(on_the_loop(lambda: group.send(b"never"))), background().run(on_the_loop(group.stats)))
            group.send(b"still alive")
    """)
    assert (done.returncode, done.stdout) == (0, "True True\n"), done.stderr


def test_the_end_of_the_interpreter_leaves_the_groups() -> None:
    """A script without `with` would hang at its end, or its groups would miss it only after seconds of silence."""
    done = run("""
        import antiphon.sync, logging
        from antiphon.runtime import logs
        logs.configure()
        node = antiphon.sync.Node("ana", transport="memory")
        node.start()
        node.create("trip")
        print("end")
    """)
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr
    assert "group.left node=ana group=trip reason=left" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_has_a_loop_of_its_own() -> None:
    """A pool of workers would hang in its first call, on a thread that exists only in the parent."""
    done = run("""
        import antiphon.sync, os
        from antiphon.errors import UsageError
        with antiphon.sync.Node("ana", transport="memory") as node:
            group = node.create("trip")
            child = os.fork()
            if not child:
                try:
                    group.send(b"not mine")
                except UsageError as error:
                    with antiphon.sync.Node("ben", transport="memory") as other:
                        other.create("mine").send(b"mine")
                    os._exit(7 if "fork" in str(error) else 1)
                os._exit(2)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            group.send(b"still here")
    """)
    assert (done.returncode, done.stdout) == (0, "7\n"), done.stderr
