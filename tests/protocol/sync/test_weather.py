"""Groups that split, merge, grow and are interrupted at random, over a bad network: afterwards everybody has everything, in order."""

from __future__ import annotations

import random
from typing import Any

import pytest

from antiphon.model.control import Holdings, Wants

CHUNKS, FRAMES = (100, 1_000, 100_000), (400, 60_000)


def storm(bus: Any, rng: random.Random, names: list[str]) -> tuple[list[str], dict[str, set[str]]]:
    """Twelve changes of the weather, then one view of all; who is in it, and for every message what its sender had delivered before."""
    causes: dict[str, set[str]] = {}
    here = names[: rng.randint(2, 5)]
    parts = [here[:]]
    bus.install(*here)
    for _ in range(12):
        if len(here) < len(names) and rng.random() < 0.25:
            here.append(names[len(here)])
            parts[-1] = [*parts[-1], here[-1]]
            bus.install(*parts[-1])
        elif rng.random() < 0.5:
            members = [name for part in parts for name in part]
            rng.shuffle(members)
            cuts = sorted(rng.sample(range(1, len(members)), min(rng.randint(0, 2), len(members) - 1)))
            parts = [members[start:end] for start, end in zip([0, *cuts], [*cuts, len(members)], strict=True)]
            for part in parts:
                bus.install(*part)
        bus.run(rng.choice([0.0, 0.05, 0.3, 5.0]))
        for _ in range(rng.randint(0, 6)):
            sender = bus.members[rng.choice([name for part in parts for name in part])]
            if sender.done:
                before = set(sender.delivered)
                batch = bus.send(sender.name, rng.randint(1, 3))
                for seqno in range(batch.first, batch.last + 1):
                    causes[f"{sender.name}{seqno}"] = set(before)
                    before.add(f"{sender.name}{seqno}")
    bus.install(*here)
    bus.until(*here, seconds=1_500)
    return here, causes


def in_order(stream: list[str], causes: dict[str, set[str]]) -> bool:
    """Whether every message comes after what its sender had delivered, as far as that is in the stream."""
    place = {message: index for index, message in enumerate(stream)}
    return all(place.get(cause, -1) < place[message] for message in stream for cause in causes[message])


def named(holdings: Holdings) -> set[str]:
    return {
        f"{sender}{seqno}"
        for sender, flat in holdings.items()
        for low, high in zip(flat[::2], flat[1::2], strict=True)
        for seqno in range(low, high + 1)
    }


@pytest.mark.parametrize("order", ["causal", "total"])
@pytest.mark.parametrize("seed", range(25))
def test_after_the_storm_all_have_the_same(make_bus: Any, order: str, seed: int) -> None:
    """Some sequence of splits and merges would lose a message, bring it twice, before its cause, or in another place of the history."""
    rng = random.Random(f"{seed}/weather")
    bus = make_bus(seed, order, loss=rng.choice([0.0, 0.1, 0.3]), delay=(0.001, rng.choice([0.002, 0.05])))
    bus.add(*"ABCDEF", chunk_bytes=rng.choice(CHUNKS), frame_bytes=rng.choice(FRAMES))
    here, causes = storm(bus, rng, list("ABCDEF"))
    for name in here:
        member = bus.members[name]
        assert sorted(member.delivered) == sorted(member.ids()) == sorted(causes)
        assert member.ids() == bus.members[here[0]].ids()
        assert in_order(member.delivered, causes)
        assert in_order(member.ids(), causes)
        assert not member.gaps


@pytest.mark.parametrize("order", ["causal", "total"])
@pytest.mark.parametrize("seed", range(25))
def test_members_that_forget_or_want_little(make_bus: Any, order: str, seed: int) -> None:
    """Where members keep little, keep ids alone, or came for a part of the past, somebody would wait for ever, be told of a loss that is
    none, or get a message before its cause."""
    rng = random.Random(f"{seed}/forgetting")
    bus = make_bus(seed, order, loss=rng.choice([0.0, 0.1, 0.3]), delay=(0.001, rng.choice([0.002, 0.05])))
    chunk, frame = rng.choice(CHUNKS), rng.choice(FRAMES)
    wanted: dict[str, str] = {}
    for name in "ABCDEFGH":
        kept, retention = rng.choice([3, 10, 65_536, 65_536]), rng.choice(["ids", "messages", "messages", "messages"])
        (member,) = bus.add(name, chunk_bytes=chunk, frame_bytes=frame, history_messages=kept, retention=retention)
        member.state = rng.choice([b"", b"", None])
        if name > "E":
            kinds = [Wants(), Wants("none"), Wants("last", rng.randint(1, 10)), Wants("since", 0, rng.random() * 20), Wants("state")]
            member.wants = rng.choice(kinds)
        wanted[name] = member.wants.kind
    here, causes = storm(bus, rng, list("ABCDEFGH"))
    for name in here:
        member = bus.members[name]
        lost = set().union(*(named(gap.lost) for gap in member.gaps))
        assert not member.port.drops["sides_given_up"]
        assert named(member.history.have()) == set(causes)
        assert len(member.delivered) == len(set(member.delivered))
        assert not lost & set(member.delivered)
        assert in_order(member.delivered, causes)
        if wanted[name] == "all":
            assert set(member.delivered) | lost == set(causes)
