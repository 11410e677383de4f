"""One member of a benchmark: the process in which a system does its part of the work.

`python -m antiphon.bench.seat WORK MEMBER` loads the system's module and calls its `take_part(seat)`, which has three duties: connect
and meet the others (`meet`), do the work between `begin` and `over`, telling the witness every delivery, and `finish` with the
number of messages it sent, while still delivering. `finish` learns what all have sent, waits until that has been delivered here and
everywhere, and reports to the parent.

Lines on stdin and stdout join the member to its parent; whatever else a library prints is ignored. A member ends by itself
when its parent has gone, or after the work's limit.
"""

from __future__ import annotations

import asyncio
import ctypes
import importlib
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from antiphon.bench.systems import module_of
from antiphon.bench.witness import Witness
from antiphon.bench.work import Tally, Work

MARK = "antiphon-bench "
"""What a line to the parent begins with."""
_STALL_S = 10.0
"""So long nothing may be delivered while something is missing before it counts as lost."""
_POLL_S = 0.01
_LONGEST_S = 86_400.0
"""The longest interval of paced work: longer than any."""
_WATCH_S = 1.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Seat:
    def __init__(self, work: Work, me: int) -> None:
        self.work, self.me = work, me
        self.witness = Witness(work.members)
        self.delays_us: list[float] = []
        self.measuring = False
        """Whether the warm-up is over."""
        self._ends_at = float("inf")
        self._from = (0, 0.0, 0.0, 0.0)
        """Deliveries, clock and CPU seconds, own and the server's, at the end of the warm-up."""

    def meet(self, value: object) -> list[Any]:
        """Waits for all members, and returns what each of them said here, by member."""
        _tell({"meet": value})
        line = sys.stdin.readline()
        if not line:
            os._exit(3)  # the parent has gone: nobody is left to report to
        answers: list[Any] = msgspec.json.decode(line)
        return answers

    async def meet_soon(self, value: object) -> list[Any]:
        """As `meet`, while the event loop goes on."""
        return await asyncio.to_thread(self.meet, value)

    def begin(self) -> None:
        """The work begins: all have met and can reach each other."""
        self._ends_at = time.monotonic() + self.work.warmup_s + self.work.seconds
        self._from = self._now()
        timer = threading.Timer(self.work.warmup_s, self._measure)
        timer.daemon = True
        timer.start()

    def over(self) -> bool:
        """Whether it is time to stop sending."""
        return time.monotonic() >= self._ends_at

    def left_s(self) -> float:
        """How long the sending goes on."""
        return max(self._ends_at - time.monotonic(), 0.0)

    def delayed(self, sender: int, sent_ns: int) -> None:
        """A message was delivered that another member stamped with its clock."""
        if self.measuring and sender != self.me:
            self.delays_us.append((time.monotonic_ns() - sent_ns) / 1000)

    def finish(self, sent: int) -> None:
        """Waits until all that was sent has been delivered everywhere, and reports. Deliveries go on meanwhile, in another thread."""
        expected = sum(self.meet(sent))
        stalled_at = time.monotonic() + _STALL_S
        delivered = self.witness.delivered
        while self.witness.delivered < expected and time.monotonic() < stalled_at:
            time.sleep(_POLL_S)
            if self.witness.delivered != delivered:
                delivered, stalled_at = self.witness.delivered, time.monotonic() + _STALL_S
        tally = self._tally(sent)
        self.meet("delivered")
        _tell({"tally": tally})

    async def finish_soon(self, sent: int) -> None:
        await asyncio.to_thread(self.finish, sent)

    def _measure(self) -> None:
        self._from = self._now()
        self.measuring = True

    def _now(self) -> tuple[int, float, float, float]:
        return self.witness.delivered, time.monotonic(), time.process_time(), _cpu_s(self.work.server_pid if self.me == 0 else 0)

    def _tally(self, sent: int) -> Tally:
        deliveries, began, cpu_s, server_cpu_s = self._from
        _, now, cpu_now, server_cpu_now = self._now()
        ended = now if self.work.kind == "idle" else self.witness.last_at
        return Tally(
            member=self.me,
            sent=sent,
            delivered=self.witness.delivered,
            seconds=max(ended - began, 1e-9),
            deliveries=max(self.witness.delivered - deliveries, 0),
            cpu_s=cpu_now - cpu_s,
            server_cpu_s=server_cpu_now - server_cpu_s,
            rss_mb=_peak_mb(),
            digest=self.witness.digest(),
            count_by_sender=self.witness.count_by_sender(),
            complaints=self.witness.complaints(),
            delays_us=[round(delay, 1) for delay in self.delays_us],
        )


async def paced(seat: Seat, send: Callable[[int, int], Awaitable[object]]) -> int:
    """Calls `send(number, clock)` at this member's share of the work's rate until it is over; returns how many were sent. What could not
    be sent when it was due is sent as soon as possible, so that the rate is held."""
    if not seat.work.sends(seat.me):
        await asyncio.sleep(seat.left_s())
        return 0
    loop, sent = asyncio.get_running_loop(), 0
    clock = _Clock(loop, (seat.work.senders or seat.work.members) / seat.work.rate)
    ending = loop.call_later(seat.left_s(), clock.stop)
    try:
        while ticks := await clock.ticks():
            for _ in range(ticks):
                if seat.over():
                    return sent
                sent += 1
                await send(sent, time.monotonic_ns())
        return sent
    finally:
        ending.cancel()
        clock.close()


class _Clock:
    """Wakes an event loop at every interval, to a few microseconds: with a timer of the kernel's (Linux), in the loop's own thread. The
    loop's go by milliseconds, so a thousand messages a second would leave in pairs; a thread that keeps the time would want the interpreter
    just when the message is on its way; one that is set anew each time would be work that receivers on the same machine wait for."""

    def __init__(self, loop: asyncio.AbstractEventLoop, interval_s: float) -> None:
        self._loop, self._interval_s = loop, min(interval_s, _LONGEST_S)
        self._ticks, self._stopped = 1, False
        """How many have not been asked for, the first of them at once; and whether no more are to be waited for."""
        self._counted, self._began = 0, time.monotonic()
        self._waiting: asyncio.Future[None] | None = None
        self._timer = _kernel_timer(self._interval_s) if sys.platform == "linux" else -1
        if self._timer >= 0:
            loop.add_reader(self._timer, self._ring)

    async def ticks(self) -> int:
        """Waits for the next tick; how many there were since they were last asked for: none when the clock was stopped."""
        while not self._ticks and not self._stopped:
            self._waiting = self._loop.create_future()
            if self._timer < 0:
                due = self._began + (self._counted + 1) * self._interval_s
                self._loop.call_later(max(due - time.monotonic(), 0.0), self._count)
            await self._waiting
        ticks, self._ticks = self._ticks, 0
        return ticks

    def stop(self) -> None:
        """Nobody waits any longer."""
        self._stopped = True
        self._tick(0)

    def close(self) -> None:
        if self._timer >= 0:
            self._loop.remove_reader(self._timer)
            os.close(self._timer)

    def _ring(self) -> None:
        with suppress(BlockingIOError):  # nothing has come since the last look
            self._tick(int.from_bytes(os.read(self._timer, 8), sys.byteorder))

    def _count(self) -> None:
        passed = int((time.monotonic() - self._began) / self._interval_s) - self._counted
        self._counted += passed
        self._tick(passed)

    def _tick(self, count: int) -> None:
        self._ticks += count
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


def _kernel_timer(interval_s: float) -> int:
    """The descriptor of a timer that goes off at every interval: timerfd, which Python knows from 3.13 on."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor: int = libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
    seconds, nanoseconds = int(interval_s), max(int(interval_s % 1 * 1e9), 1)
    # Seconds and nanoseconds: of the interval, and of the first time.
    times = (ctypes.c_long * 4)(seconds, nanoseconds, seconds, nanoseconds)
    if descriptor < 0 or libc.timerfd_settime(descriptor, 0, ctypes.byref(times), None) < 0:
        raise OSError(ctypes.get_errno(), "no timer from the kernel")
    return descriptor


def run(work: Coroutine[Any, Any, None]) -> None:
    """Runs a system's coroutine on uvloop, or on asyncio's own loop where there is no uvloop."""
    try:
        import uvloop
    except ModuleNotFoundError:
        asyncio.run(work)
    else:
        uvloop.run(work)


def main() -> None:
    work = msgspec.json.decode(sys.argv[1], type=Work)
    signal.alarm(int(work.limit_s) + 1)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    importlib.import_module(module_of(work.system)).take_part(Seat(work, int(sys.argv[2])))
    sys.stdout.flush()
    os._exit(0)  # some systems have threads that would be waited for


def _end_with(parent: int) -> None:
    """Ends this process soon after its parent: one that was killed cannot end its members."""
    while os.getppid() == parent:
        time.sleep(_WATCH_S)
    os._exit(3)


def _tell(line: object) -> None:
    sys.stdout.write(MARK + msgspec.json.encode(line).decode() + "\n")
    sys.stdout.flush()


def _cpu_s(pid: int) -> float:
    """CPU seconds of another process so far; 0 where that cannot be known."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def _peak_mb() -> float:
    """The most memory this process had. The kernel's other figure for it, in getrusage, begins with that of the parent."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024
    except (OSError, IndexError):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most / (1 << 20 if sys.platform == "darwin" else 1 << 10)


if __name__ == "__main__":
    main()
