"""The state of a program whose readers are threads fits the messages that follow it, wherever the threads are."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import antiphon.sync
from antiphon.errors import JoinFailed, NotInGroup, TimedOut
from antiphon.model.events import StateWanted
from antiphon.sync.background import background
from antiphon.testing import QUICK

WAIT_S = 30.0
OPTIONS: dict[str, Any] = {"transport": "tcp", "bind": "127.0.0.1:0", "settings": QUICK}


@pytest.fixture
def _hasty_threads() -> Iterator[None]:
    """Threads take turns at nearly every step."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def _by_loop(group: Any, apply: Callable[[int], None]) -> None:
    for _ in group:
        apply(1)


def _by_receive(group: Any, apply: Callable[[int], None]) -> None:
    while True:
        group.receive()
        apply(1)


def _by_short_receive(group: Any, apply: Callable[[int], None]) -> None:
    while True:
        try:
            group.receive(timeout=0.001)
        except TimedOut:
            continue
        apply(1)


def _by_batches(group: Any, apply: Callable[[int], None]) -> None:
    for batch in group.batches():
        apply(len(batch))


def _by_events(group: Any, apply: Callable[[int], None]) -> None:
    for event in group.events():
        if isinstance(event, antiphon.MessageBatch):
            apply(len(event))


@pytest.mark.usefixtures("_hasty_threads")
@pytest.mark.parametrize("readers", [1, 2])
@pytest.mark.parametrize("read", [_by_loop, _by_receive, _by_short_receive, _by_batches, _by_events])
def test_a_state_and_what_follows_it_are_all_that_was_delivered(read: Callable[..., None], readers: int) -> None:
    """A message that a thread takes just now would be neither in the state nor among what follows it, or in both."""
    with antiphon.sync.Node("ana", transport="memory") as node:
        total, counting = 0, threading.Lock()

        def apply(count: int) -> None:
            nonlocal total
            with counting:
                total += count

        group = node.create("sum", state=lambda: b"%d" % total)
        requests = group._group._requests
        assert requests is not None
        delivered_at: dict[int, int] = {}
        answered: dict[int, int | None] = {}

        def provide(snapshot: int, state: bytes | None, unread: Any, reason: str) -> None:
            assert state is not None or reason.startswith("its application has not given it yet")
            answered[snapshot] = None if state is None else int(state) + sum(high - low + 1 for _, low, high in unread)

        requests._provide = provide

        def want() -> None:
            number = len(delivered_at) + 1
            delivered_at[number] = group._group._delivered
            requests.want(StateWanted(number))

        def run(work: Callable[[], None]) -> None:
            try:
                work()
            except NotInGroup:
                return

        stop = threading.Event()

        def send() -> None:
            while not stop.is_set():
                group.send_many([b"1"] * 500)

        with ThreadPoolExecutor() as pool:
            works = [pool.submit(run, lambda: read(group, apply)) for _ in range(readers)]
            works.append(pool.submit(run, send))
            try:
                for _ in range(300):
                    background().call(want)
                stop.set()
                works[-1].result(WAIT_S)
                deadline = time.monotonic() + WAIT_S
                while len(answered) < 300 and time.monotonic() < deadline:
                    time.sleep(0.01)
            finally:
                stop.set()
                node.close()
            for work in works:
                work.result(WAIT_S)
        assert len(answered) == 300
        given = {number: found for number, found in answered.items() if found is not None}
        assert given == {number: delivered_at[number] for number in given}
        assert given or readers > 1


def test_a_reader_that_comes_while_the_state_is_taken_waits_for_it() -> None:
    """It would apply a message while the application writes its state, which then has it, and the newcomer has it twice."""
    with antiphon.sync.Node("ana", **OPTIONS) as one, antiphon.sync.Node("ben", seeds=[one.address], **OPTIONS) as other:
        total, taking, applied = 0, threading.Event(), threading.Event()

        def state() -> bytes:
            taking.set()
            applied.wait(0.5)
            return b"%d" % total

        here = one.create("sum", state=state)
        here.send_many([b"1", b"5", b"6"])
        for message in here:
            total += int(message.data)
            break  # the others lie ready

        def read() -> None:
            nonlocal total
            taking.wait(WAIT_S)
            for message in here:
                total += int(message.data)
                applied.set()

        reading = threading.Thread(target=read, daemon=True)
        reading.start()
        there = other.join("sum", at=[one.address], history="state", timeout=WAIT_S)
        assert applied.wait(WAIT_S)
        mine = int(there.state)
        assert mine == 1
        here.send(b"100")
        while mine < 112:
            mine += int(there.receive(timeout=WAIT_S).data)
        assert mine == 112


def test_a_reader_that_waits_gives_the_state_in_its_own_thread() -> None:
    """The application would be asked in a thread that it does not know, while it has one that waits for the group."""
    with antiphon.sync.Node("ana", **OPTIONS) as one, antiphon.sync.Node("ben", seeds=[one.address], **OPTIONS) as other:
        threads: list[str] = []

        def state() -> bytes:
            threads.append(threading.current_thread().name)
            return b"mine"

        here = one.create("sum", state=state)
        reader = threading.Thread(target=lambda: list(here), daemon=True, name="reader")
        reader.start()
        while not here._group._inbox._readers:
            time.sleep(0.01)
        assert other.join("sum", at=[one.address], history="state", timeout=WAIT_S).state == b"mine"
        assert threads == ["reader"]


@pytest.mark.parametrize("inside", [False, True], ids=["on the loop", "in the thread of a reader"])
def test_a_callback_that_reads_the_group_is_refused(inside: bool) -> None:
    """It would wait for itself, and with it the event loop of the whole process."""
    with antiphon.sync.Node("ana", **OPTIONS) as one, antiphon.sync.Node("ben", seeds=[one.address], **OPTIONS) as other:
        here = one.create("sum", state=lambda: here.receive(timeout=WAIT_S).data)
        here.send_many([b"5", b"6"])
        assert not inside or here.receive(timeout=WAIT_S).data == b"5"
        with ThreadPoolExecutor() as pool:
            joining = pool.submit(lambda: other.join("sum", at=[one.address], history="state", timeout=WAIT_S))
            while inside and not here._group._requests.waiting:
                time.sleep(0.01)
            if inside:
                assert here.receive(timeout=WAIT_S).data == b"6"
            with pytest.raises(JoinFailed, match="ana: its state callback raised UsageError"):
                joining.result(WAIT_S)
        assert inside or here.receive(timeout=WAIT_S).data == b"5"


def test_an_interrupt_in_the_callback_leaves_the_group_readable() -> None:
    """Ctrl-C while a reader gives the state would close the group for all readers, and leave the newcomer without an answer."""
    with antiphon.sync.Node("ana", **OPTIONS) as one, antiphon.sync.Node("ben", seeds=[one.address], **OPTIONS) as other:
        asked = 0

        def state() -> bytes:
            nonlocal asked
            asked += 1
            if asked == 1:
                raise KeyboardInterrupt
            return b"mine"

        here = one.create("sum", state=state)
        here.send_many([b"5", b"6"])
        assert here.receive(timeout=WAIT_S).data == b"5"
        with ThreadPoolExecutor() as pool:
            joining = pool.submit(lambda: other.join("sum", at=[one.address], history="state", timeout=WAIT_S))
            while not here._group._requests.waiting:
                time.sleep(0.01)
            with pytest.raises(KeyboardInterrupt):
                here.receive(timeout=WAIT_S)
            assert joining.result(WAIT_S).state == b"mine"
        assert here.receive(timeout=WAIT_S).data == b"6"
