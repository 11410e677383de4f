"""Groups on a store with real processes: killed in the middle, and configured by files."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import antiphon
from antiphon.api import MessageBatch, ViewChange
from antiphon.model.ids import name_of

WAIT_S = 90.0
MEMBER = Path(__file__).with_name("store_member.py")
PROGRAM = "import sys; from antiphon.cli.main import main; sys.exit(main())"


class Troop:
    """Members as processes; those that are left are killed in the end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.url = f"sqlite:{folder / 'field.db'}"
        self.journals: list[Path] = []
        self.alive: dict[str, subprocess.Popen[bytes]] = {}
        self.journal_by_name: dict[str, Path] = {}
        """Of those that are alive."""
        self.all: list[subprocess.Popen[bytes]] = []

    def start(self, name: str) -> None:
        journal = self._folder / f"journal-{len(self.journals)}-{name}"
        journal.touch()
        self.journals.append(journal)
        self.journal_by_name[name] = journal
        process = subprocess.Popen([sys.executable, str(MEMBER), self.url, name, str(journal)], stderr=subprocess.PIPE)
        self.alive[name] = process
        self.all.append(process)

    def agrees(self, told: list[str]) -> bool:
        """Whether all who are alive, and nobody else, are in the newest view, and have been told of it."""
        views = [line for line in told if line.startswith("view ")]
        people = sorted(name_of(member) for member in views[-1].split()[2:]) if views else []
        newest = [facts(journal, "view")[-1:] for journal in self.journal_by_name.values()]
        return people == sorted([*self.alive, "witness"]) and newest == [views[-1:]] * len(newest)

    def kill(self, name: str) -> None:
        process = self.alive.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait(WAIT_S)


@pytest.fixture
def troop(tmp_path: Path) -> Iterator[Troop]:
    everybody = Troop(tmp_path)
    yield everybody
    for process in everybody.all:
        process.kill()
        process.wait(WAIT_S)
        if process.stderr is not None:
            process.stderr.close()


def facts(journal: Path, *kinds: str) -> list[str]:
    lines = journal.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.partition(" ")[0] in kinds]


def complaints(reference: list[str], journals: list[list[str]], acknowledged: list[str]) -> list[str]:
    """What is wrong with what members were told, if this is what a member was told that was there all the time."""
    found = []
    said = [line for line in reference if line.startswith("said ")]
    if len(set(said)) != len(said):
        found.append("something was said twice")
    lost = {f"said {text}" for text in acknowledged} - set(said)
    if lost:
        found.append(f"acknowledged and lost: {sorted(lost)[:3]}")
    at = {line: place for place, line in enumerate(reference)}
    for journal in journals:
        places = [at.get(line, -1) for line in journal]
        if places and (-1 in places or places != list(range(places[0], places[0] + len(places)))):
            found.append("a member was told another story")
    return found


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_members_killed_in_the_middle(troop: Troop, seed: int) -> None:
    """After a crash members would disagree on what was said, or something that was acknowledged would be gone."""

    async def story() -> None:
        rng = random.Random(seed)
        told: list[str] = []
        async with antiphon.Node("witness", transport="memory", store=troop.url) as node:
            group = await node.create("root", on="store", silence_s=1.0)

            async def witness() -> None:
                async for event in group.events():
                    if isinstance(event, ViewChange):
                        told.append(" ".join(["view", str(event.view.id), *event.view.members]))
                    elif isinstance(event, MessageBatch):
                        told.extend(f"said {message.data.decode()}" for message in event)

            watching = asyncio.create_task(witness())
            names = ["ana", "ben", "cleo"]
            for name in names:
                troop.start(name)
            for _ in range(4):
                heard = len(told)
                async with asyncio.timeout(WAIT_S):
                    while not troop.agrees(told) or len(told) < heard + 30:
                        await asyncio.sleep(0.01)
                await asyncio.sleep(rng.uniform(0, 0.3))
                victim = rng.choice(names)
                troop.kill(victim)
                troop.start(victim)  # under its name, as somebody new
            async with asyncio.timeout(WAIT_S):
                while not troop.agrees(told):
                    await asyncio.sleep(0.01)
            await group.send(b"hush")
            await asyncio.sleep(0.3)
            await group.send(b"end")
            for name, process in troop.alive.items():
                _, errors = await asyncio.to_thread(process.communicate, None, WAIT_S)
                assert process.returncode == 0, f"{name}: {errors.decode()}"
            async with asyncio.timeout(WAIT_S):
                while len(group.view.members) > 1 or "said end" not in told:
                    await asyncio.sleep(0.01)
            archived = [f"said {message.data.decode()}" async for message in group.archived()]  # type: ignore[attr-defined]
            watching.cancel()
        acknowledged = [line.removeprefix("ack ") for journal in troop.journals for line in facts(journal, "ack")]
        # The first view of a member is told before what lies before it in the topic: its place is where it was told.
        journals = [facts(journal, "view", "said") for journal in troop.journals]
        assert complaints(told, journals, acknowledged) == []
        assert [line for line in told if line.startswith("said ")] == archived
        assert len(acknowledged) > 50
        assert all(facts(journal, "view") for journal in troop.journals)

    asyncio.run(asyncio.wait_for(story(), 4 * WAIT_S))


def test_a_process_that_is_killed_and_restarted_replaces_itself(troop: Troop) -> None:
    """The view would have the dead process beside the new one for `silence_s`; or a second live process would take the first one's name."""

    async def story() -> None:
        views: list[list[str]] = []
        async with antiphon.Node("witness", transport="memory", store=troop.url) as node:
            group = await node.create("root", on="store", silence_s=3_600.0)

            async def grown(count: int) -> None:
                async with asyncio.timeout(WAIT_S):
                    while len(views) < count or not facts(troop.journal_by_name["ana"], "ack"):
                        await asyncio.sleep(0.01)

            async def witness() -> None:
                async for event in group.events():
                    if isinstance(event, ViewChange):
                        views.append([name_of(member) for member in event.view.members])

            watching = asyncio.create_task(witness())
            troop.start("ana")
            await grown(2)
            for restart in range(3):
                troop.kill("ana")
                troop.start("ana")
                await grown(3 + restart)
            alive, journal = troop.alive["ana"], troop.journal_by_name["ana"]
            troop.start("ana")
            _, errors = await asyncio.to_thread(troop.alive["ana"].communicate, None, WAIT_S)
            assert f"is held by the live member {group.view.members[1]}" in errors.decode()
            said = len(facts(journal, "ack"))
            async with asyncio.timeout(WAIT_S):
                while len(facts(journal, "ack")) < said + 10:
                    await asyncio.sleep(0.01)
            assert alive.poll() is None
            assert views == [["witness"], *[["witness", "ana"]] * 4], "each restart is one change"
            watching.cancel()

    asyncio.run(asyncio.wait_for(story(), 4 * WAIT_S))


def test_the_check_sees_what_must_not_happen() -> None:
    """A check that accepts everything would prove nothing."""
    reference = ["view 1 a", "said x", "view 2 a b", "said y", "said z"]
    assert complaints(reference, [reference[2:], reference[:2]], ["x", "z"]) == []
    assert complaints(reference, [], ["w"]) == ["acknowledged and lost: ['said w']"]
    assert complaints([*reference, "said x"], [], []) == ["something was said twice"]
    for wrong in (["said y", "view 2 a b"], ["said x", "said y"], ["said q"], ["said y", "said y"]):
        assert complaints(reference, [wrong], []) == ["a member was told another story"], wrong


# --- the seed's session of two nodes ------------------------------------------------------------------------------------------------


class NodeProcess:
    """`antiphon node run --config FILE`, and what it says."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        file = folder / f"{name}.toml"
        file.write_text(
            f'name = "{name}"\ntransport = "tcp"\nbind = "127.0.0.1:0"\nstore = "sqlite:field.db"\noutbox = "{name}-outbox.db"\n'
            '[groups.root]\non = "store"\nsilence_s = 20.0\n'
        )
        self._output, self._errors = folder / f"{name}.out", folder / f"{name}.err"
        command = [sys.executable, "-c", PROGRAM, "node", "run", "--config", str(file), "--json", "--print", "--send", "root"]
        with self._output.open("wb") as output, self._errors.open("wb") as errors:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=errors)

    def told(self) -> list[dict[str, Any]]:
        text = self._output.read_text(encoding="utf-8")
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    def views(self) -> list[tuple[int, list[str]]]:
        return [(line["view"], line["members"]) for line in self.told() if line["event"] == "view"]

    def sees(self, members: list[str]) -> None:
        self._until(lambda: bool(self.views()) and self.views()[-1][1] == members, f"see {members}")

    def hears(self, text: str) -> None:
        self._until(lambda: any(line.get("text") == text for line in self.told()), f"hear {text}")

    def say(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()

    def leave(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(WAIT_S)

    def _until(self, condition: Any, what: str) -> None:
        limit = time.monotonic() + WAIT_S
        while not condition():
            assert self.process.poll() is None, f"{self.name} has ended: {self._errors.read_text()}"
            assert time.monotonic() < limit, f"{self.name} did not {what}: {self.told()} {self._errors.read_text()}"
            time.sleep(0.02)


def test_kayathi_and_anvesh_pc(tmp_path: Path) -> None:
    """The first session of the system that this one follows would not work: two nodes, two files, one store, and no network between."""
    started = [NodeProcess(tmp_path, "kayathi")]
    try:
        kayathi = started[0]
        kayathi.sees(["kayathi"])
        started.append(NodeProcess(tmp_path, "anvesh-pc"))
        anvesh = started[1]
        for node in started:
            node.sees(["kayathi", "anvesh-pc"])
        assert kayathi.views()[-1] == anvesh.views()[-1] == (2, ["kayathi", "anvesh-pc"])
        kayathi.say("a word before I go")
        anvesh.hears("a word before I go")
        assert kayathi.leave() == 0
        anvesh.sees(["anvesh-pc"])
        assert group_records(tmp_path) == 1, "the group stays when its founder has left"
        assert anvesh.leave() == 0
        assert group_records(tmp_path) == 0, "and is gone with the last"
    finally:
        for node in started:
            node.process.kill()
            node.process.wait(WAIT_S)
            if node.process.stdin is not None:
                node.process.stdin.close()


def group_records(folder: Path) -> int:
    async def count() -> int:
        async with antiphon.open_store(f"sqlite:{folder / 'field.db'}") as store:
            return len(await store.backend.records("group/"))

    return asyncio.run(count())
