"""Members that are real processes, and the oracles that judge what they wrote down.

A `Company` starts them on loopback (or inside network namespaces, with a `launch` of its own), tells them what to do, and kills whatever is
left at the end. Waiting is always for a condition, with a generous time-out; nothing is asserted about how long anything takes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from antiphon.model.control import Wants
from antiphon.model.ids import MemberId, MessageId
from antiphon.model.options import GroupOptions
from antiphon.model.view import View
from antiphon.sim.log import Delivered, MemberLog, Missed, Sent, Viewed
from antiphon.sim.oracles import Violation, check_group

PATIENCE_S = 90.0
QUICK = {"suspect_s": 1.0, "probe_s": 0.25, "change_s": 1.5, "heartbeat_s": 0.3, "seek_s": 0.2, "seek_max_s": 1.0}
"""Settings with which a crash is seen within two seconds, so that tests need not wait long."""
_PROGRAM = Path(__file__).with_name("member.py")


class Process:
    def __init__(self, name: str, config: dict[str, Any], prefix: Sequence[str] = ()) -> None:
        self.name, self.log = name, Path(config["log"])
        self.crashed = False
        self.joined: dict[str, Any] = {}
        """What it said when it was in the group."""
        argv = [*prefix, sys.executable, "-u", str(_PROGRAM), json.dumps(config)]
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.address = self.hear()["address"]

    def tell(self, do: str, **arguments: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self._process.stdin.flush()

    def hear(self, timeout: float = PATIENCE_S) -> dict[str, Any]:
        """The next answer; fails when the process ends or says nothing for so long."""
        assert self._process.stdout is not None
        timer = _Alarm(timeout, self._process)
        with timer:
            line = self._process.stdout.readline()
        assert line, f"{self.name} ended without an answer (exit {self._process.poll()}, {'too slow' if timer.rang else 'by itself'})"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        self.tell(do, **arguments)
        return self.hear()

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        self.crashed = True
        self._process.kill()
        self._process.wait(10)

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(10)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


class Company:
    def __init__(
        self,
        folder: Path,
        *,
        transport: str = "tcp",
        settings: dict[str, Any] | None = None,
        launch: Callable[[str], Sequence[str]] | None = None,
    ) -> None:
        """`launch` says what to put before a member's command, by its name."""
        self.folder, self.transport, self.launch = folder, transport, launch
        self.settings = QUICK if settings is None else settings
        self.processes: dict[str, Process] = {}
        self._retired: list[Process] = []
        self._wants: dict[MemberId, Wants] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for process in (*self.processes.values(), *self._retired):
            process.end()

    def start(self, *names: str, node: dict[str, Any] | None = None, **config: Any) -> None:
        """Starts nodes; the first that runs is the seed of those that follow."""
        for name in names:
            if name in self.processes:
                self._retired.append(self.processes.pop(name))
            arguments = {"transport": self.transport, "settings": self.settings, **(node or {})}
            running = [process.address for process in self.processes.values() if not process.crashed]
            if "seeds" not in arguments and running:
                arguments["seeds"] = running[:2]
            log = self.folder / f"{name}-{len(self._retired)}.log"
            prefix = () if self.launch is None else self.launch(name)
            self.processes[name] = Process(name, {"name": name, "log": str(log), "node": arguments, **config}, prefix)

    def join(self, *names: str, group: str = "g", history: Any = "all", **options: Any) -> None:
        """Lets nodes join, all at once, and waits until they are in."""
        for name in names:
            self.processes[name].tell("join", group=group, create=options or None, history=history)
        for name in names:
            answer = self.processes[name].hear()
            assert "me" in answer, answer
            self.processes[name].joined = answer
            if history != "all":
                kind, count = (history, 0) if isinstance(history, str) else history
                self._wants[MemberId(answer["me"])] = Wants(kind=kind, count=int(count) if kind == "last" else 0)

    def gather(self, *names: str, **options: Any) -> None:
        self.start(*names)
        self.join(*names, **options)
        self.wait_for_view(*names)

    def each(self, do: str, *names: str, **arguments: Any) -> dict[str, dict[str, Any]]:
        """Tells several the same at the same time; their answers by name."""
        for name in names:
            self.processes[name].tell(do, **arguments)
        return {name: self.processes[name].hear() for name in names}

    def reports(self, *names: str) -> dict[str, dict[str, Any]]:
        return self.each("report", *names)

    def wait_until(self, condition: Callable[[], bool], what: str, timeout: float = PATIENCE_S) -> None:
        until = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < until, f"{what}: not within {timeout:g} s"
            time.sleep(0.1)

    def restart(self, name: str) -> None:
        """Kills a process and starts it again at its address, with the addresses of all others as seeds."""
        process = self.processes[name]
        process.kill()
        others = [other.address for other in self.processes.values() if other is not process]
        self.start(name, node={"bind": process.address, "seeds": others})

    def wait_for_view(self, *names: str) -> None:
        """Until just these are in one settled view."""

        def agreed() -> bool:
            views = [(sorted(m.partition("#")[0] for m in report["view"]), report["settled"]) for report in self.reports(*names).values()]
            return all(view == sorted(names) and settled for view, settled in views)

        self.wait_until(agreed, f"{', '.join(names)} in one settled view")

    def wait_until_quiet(self, *names: str) -> None:
        """Until nobody sends and all have delivered the same number of messages, twice running."""
        last: list[list[int]] = [[]]

        def quiet() -> bool:
            reports = self.reports(*names).values()
            counts = [report["delivered"] for report in reports]
            same = counts == last[0] and not any(report["blocked"] for report in reports) and all(report["settled"] for report in reports)
            last[0] = counts
            if not same:
                time.sleep(0.4)
            return same

        self.wait_until(quiet, f"{', '.join(names)} at rest")

    # -- judging ---------------------------------------------------------------------------------------------------------------

    def logs(self) -> list[MemberLog]:
        return [log for process in (*self._retired, *self.processes.values()) if (log := _read(process)) is not None]

    def check(self, *, settled: bool = True, **options: Any) -> list[Violation]:
        """What the oracles have to say about everything that was written down."""
        return check_group(self.logs(), GroupOptions(**options), self._wants, settled=settled)

    def stream(self, name: str) -> list[MessageId]:
        """What a member delivered, in its order."""
        log = _read(self.processes[name])
        assert log is not None
        return [event.id for event in log.events if type(event) is Delivered]


def _read(process: Process) -> MemberLog | None:
    """The log of a process, up to where it was written when it died."""
    log: MemberLog | None = None
    at, last = 0.0, 0
    attempts: dict[int, tuple[float, int]] = {}
    """What was about to be sent, and when, until it is known under which number it was."""
    if not process.log.exists():
        return None
    for line in process.log.read_text().splitlines():
        try:
            at, kind, *entry = json.loads(line)
        except json.JSONDecodeError:
            break
        if kind == "member":
            log = MemberLog(MemberId(entry[0]), [])
        assert log is not None, "a member joins before it does anything else"
        if kind == "sends":
            attempts[entry[0]] = (at, entry[1])
        elif kind == "sent":
            (began, payload_hash), last = attempts.pop(entry[0]), entry[1]
            log.events.append(Sent(began, MessageId(log.member, last), payload_hash=payload_hash))
        elif kind == "delivered":
            sender, first, hashes, view, recovered, lost = entry
            missing = tuple(MessageId(*name) for name in lost)
            log.events += [
                Delivered(at, MessageId(sender, first + index), payload, missing, view, recovered) for index, payload in enumerate(hashes)
            ]
        elif kind == "view":
            id, members, makers, previous, sides = entry
            view = View(id, tuple(members), tuple(makers))
            log.events.append(Viewed(at, view, previous, tuple(tuple(side) for side in sides)))
        elif kind == "missed":
            log.events.append(Missed(at, entry[0]))
        elif kind == "departed":
            log.departed_at = at
    if log is not None and process.crashed:
        log.crashed_at = at
        if attempts:  # the latest may have left before the process died
            began, payload_hash = attempts[max(attempts)]
            log.events.append(Sent(began, MessageId(log.member, last + 1), payload_hash=payload_hash))
    return log


class _Alarm:
    """Kills a process that keeps a test waiting for too long."""

    def __init__(self, seconds: float, process: subprocess.Popen[str]) -> None:
        self._seconds, self._process = seconds, process
        self.rang = False

    def __enter__(self) -> None:
        self._timer = threading.Timer(self._seconds, self._ring)
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def _ring(self) -> None:
        self.rang = True
        os.kill(self._process.pid, signal.SIGKILL)
