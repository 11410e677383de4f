"""Three real processes on this machine in one total order; the one that orders is killed with `kill -9` while all send.

`perform` is the play: it starts the processes (this module run as a program, over TCP on the loopback interface), kills the first when
everybody is sending, and compares what the other two were told: messages and view changes alike, as one digest.
"""

from __future__ import annotations

import asyncio
import hashlib
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec

from antiphon.errors import WorldError
from antiphon.model.ids import name_of

NAMES = ("ana", "ben", "cem")
BATCH, BATCHES, KILL_AFTER = 50, 120, 1_500
LIMIT_S = 60.0


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    names: tuple[str, ...]
    killed: str
    formed_s: float
    """From the start of the processes until all were in one view."""
    noticed_s: float
    """From the kill until the survivors had agreed that it is gone."""
    delivered: dict[str, int]
    digests: dict[str, str]

    @property
    def agreed(self) -> bool:
        return len(set(self.digests.values())) == 1 and len(set(self.delivered.values())) == 1

    def verdict(self) -> str:
        met = f"{', '.join(self.names)} met after {self.formed_s:.1f} s; {self.killed}, who ordered, was killed while all were sending"
        counts = " and ".join(f"{name} {count:,}" for name, count in sorted(self.delivered.items()))
        if not self.agreed:
            return f"{met}. The others were told different things: {counts} messages, digests {sorted(self.digests.values())}."
        digest = next(iter(self.digests.values()))
        return f"{met}. After {self.noticed_s:.1f} s the others went on without it: {counts} messages in the same order (digest {digest})."


def perform(trace: Path | None = None) -> Outcome:
    """Each records what happens to it, where `trace` is a directory. Raises WorldError when a process fails or does not finish in time."""
    lines: queue.Queue[tuple[str, dict[str, Any] | None]] = queue.Queue()
    processes: dict[str, subprocess.Popen[str]] = {}
    give_up_at = time.monotonic() + LIMIT_S
    began = time.monotonic()

    told: dict[tuple[str, str], dict[str, Any]] = {}

    def hear(said: str, of: set[str]) -> dict[str, dict[str, Any]]:
        """Waits until each of these has said this."""
        while missing := {name for name in of if (name, said) not in told}:
            try:
                name, line = lines.get(timeout=max(0.0, give_up_at - time.monotonic()))
            except queue.Empty:
                raise WorldError(f"{', '.join(sorted(missing))} did not come to '{said}' within {LIMIT_S:g} s") from None
            if line is not None:
                told[name, line["said"]] = line
            elif name in missing:
                raise WorldError(f"the process of {name} ended before '{said}'")
        return {name: told[name, said] for name in of}

    try:
        seed = ""
        for name in NAMES:
            processes[name] = _start(name, seed, trace, lines)
            if not seed:
                seed = hear("open", {name})[name]["address"]
        everybody, survivors = set(NAMES), set(NAMES[1:])
        hear("complete", everybody)
        formed_s = time.monotonic() - began
        hear("busy", everybody)
        processes[NAMES[0]].kill()
        killed_at = time.monotonic()
        hear("smaller", survivors)
        noticed_s = time.monotonic() - killed_at
        ends = hear("end", survivors)
        for name in survivors:
            stdin = processes[name].stdin
            assert stdin is not None
            stdin.close()  # now it may leave
        hear("gone", survivors)
        return Outcome(
            names=NAMES,
            killed=NAMES[0],
            formed_s=formed_s,
            noticed_s=noticed_s,
            delivered={name: end["delivered"] for name, end in ends.items()},
            digests={name: end["digest"] for name, end in ends.items()},
        )
    finally:
        for process in processes.values():
            process.kill()
        for process in processes.values():
            process.wait(timeout=LIMIT_S)


def _start(
    name: str, seed: str, trace: Path | None, lines: queue.Queue[tuple[str, dict[str, Any] | None]]
) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "antiphon.cli.live", name, seed, *([str(trace)] if trace is not None else [])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.PIPE, text=True)

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put((name, msgspec.json.decode(line)))
        lines.put((name, None))

    threading.Thread(target=read, daemon=True).start()
    return process


async def _member(name: str, seed: str, directory: str) -> None:
    """One process: sends its batches, hashes whatever it is told, and ends when the other survivor's and its own are all there."""
    import antiphon
    from antiphon.trace.trace import Trace

    def say(said: str, **fields: object) -> None:
        print(msgspec.json.encode({"said": said, **fields}).decode(), flush=True)

    digest, delivered = hashlib.blake2b(digest_size=4), 0
    last_by_sender: dict[str, int] = {}
    # Whoever is killed takes the file with it that it was writing: the last fifth of a second.
    trace = Trace(directory=directory, run="live", rotate_s=0.2) if directory else None
    async with antiphon.Node(name, transport="tcp", bind="127.0.0.1:0", seeds=[seed] if seed else [], trace=trace) as node:
        say("open", address=node.address)
        group = await (node.join("live", timeout=LIMIT_S / 2) if seed else node.create("live", order="total"))
        async with asyncio.timeout(LIMIT_S / 2):
            while len(group.view.members) < len(NAMES):
                await asyncio.sleep(0.01)
        say("complete")
        sending = asyncio.create_task(_send(group))
        said: set[str] = set()
        async with asyncio.timeout(LIMIT_S / 2):
            async for message in group:
                delivered += 1
                number = int(message.data)
                sender = name_of(message.sender)
                last_by_sender[sender] = number
                digest.update(f"{sender} {number}\n".encode())
                if delivered >= KILL_AFTER and "busy" not in said:
                    said.add("busy")
                    say("busy")
                if len(group.view.members) < len(NAMES) and "smaller" not in said:
                    said.add("smaller")
                    say("smaller")
                if all(last_by_sender.get(survivor) == BATCH * BATCHES for survivor in NAMES[1:]):
                    break
        await sending
        say("end", delivered=delivered, digest=digest.hexdigest())
        async with asyncio.timeout(LIMIT_S):  # nobody leaves before all have told: the parent says when
            await asyncio.to_thread(sys.stdin.read)
    say("gone")


async def _send(group: Any) -> None:
    for batch in range(BATCHES):
        await group.send_many([b"%d" % (BATCH * batch + k + 1) for k in range(BATCH)])
        await asyncio.sleep(0.02)


if __name__ == "__main__":
    from antiphon import run

    name, seed, directory = [*sys.argv[1:], "", ""][:3]
    run(_member(name, seed, directory))
