"""`antiphon topic`: publish to durable topics, read them, look at them, tidy them up."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
import typer
from rich.table import Table

from antiphon.cli import arguments, terminal
from antiphon.errors import TimedOut, UnknownTopic, UsageError
from antiphon.store import Accepted, CollectionHold, Gap, Published, Store, open_store
from antiphon.store.opening import is_made, require_made
from antiphon.store.succession import Item

T = TypeVar("T")
DEFAULT_STORE = "sqlite:antiphon.db"
_BATCH = 1_024
_LINE_LIMIT = 17 << 20
"""More than any store takes as one value."""
_PIECE = 1 << 20
_IDLE_S = 0.5
"""Without --follow a reader leaves when nothing has come for so long."""
_LOOK_S = 0.1
_NAMED = 5
"""Nodes that a line names at most."""
"""How often somebody who waits for a store looks whether it is there."""

app = typer.Typer(
    help="Durable topics on a store: publish values, read them where you left off, see who lags, collect what nobody needs.\n\n"
    "The store is an address: sqlite:PATH for a file, nats://HOST:PORT?sync=always for JetStream (`antiphon store serve` starts one).",
    no_args_is_help=True,
)

Address: TypeAlias = Annotated[
    str,
    typer.Option("--store", metavar="URL", envvar="ANTIPHON_STORE", help="Where the topics are.", show_default=True),
]
Name: TypeAlias = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")]


@app.command()
def publish(
    topic: Name,
    values: Annotated[
        list[str] | None, typer.Argument(metavar="[VALUE]...", help="Values, as text. Without any: the lines of stdin.")
    ] = None,
    store: Address = DEFAULT_STORE,
    name: Annotated[str, typer.Option("--as", metavar="NAME", help="Who publishes; a topic has one publisher, or is shared.")] = "cli",
    key: Annotated[str, typer.Option(metavar="KEY", help="In a mutable topic: the object that this is the new value of.")] = "",
    takeover: Annotated[bool, typer.Option("--takeover", metavar="", help="Publish although another has the topic: fences it.")] = False,
    shared: Annotated[bool, typer.Option("--shared", metavar="", help="A new topic that many may publish to.")] = False,
    mutable: Annotated[bool, typer.Option("--mutable", metavar="", help="A new topic where a key's new value replaces the old.")] = False,
    relaxed: Annotated[bool, typer.Option("--relaxed", metavar="", help="Do not wait for the disk: may be lost with the power.")] = False,
    outbox: Annotated[str, typer.Option(metavar="FILE", help="Keep values here while the store does not answer.")] = "",
    json: arguments.Json = False,
) -> None:
    """Publish values, and say what numbers they have: when this returns they are on disk."""

    async def work(opened: Store) -> None:
        here = opened.topic(topic)
        if takeover or shared or mutable:
            await here.register(takeover=takeover, shared=shared or None, mutable=mutable or None)
        count, first, last, kind = 0, 0, 0, "Published"
        async for batch in _batches(values):
            keys = [key] * len(batch) if key else None
            ack = await here.publish_many(batch, keys=keys, durability="relaxed" if relaxed else "synced")
            count += len(batch)
            kind = type(ack).__name__
            if isinstance(ack, Published | Accepted):
                first, last = first or ack.first, ack.last
        if json:
            terminal.print_json({"topic": topic, "values": count, "first": first, "last": last, "acknowledged": kind.lower()})
        else:
            numbers = f": {first:,} … {last:,}" if last > first else f": {last:,}" if last else ""
            worth = {
                "Published": "on disk",
                "Accepted": "written, not known to be synced",
                "Queued": f"kept in {outbox}, and sent when the store answers",
            }
            terminal.out.print(f"{count:,} {'value' if count == 1 else 'values'} in {topic}{numbers} ({worth[kind]})", markup=False)

    _with_store(store, work, name=name, outbox=outbox or None)


@app.command()
def subscribe(
    topic: Name,
    store: Address = DEFAULT_STORE,
    id: Annotated[str, typer.Option("--id", metavar="ID", help="Who reads; with the same id the next call goes on from here.")] = "cli",
    lease: Annotated[str, typer.Option(metavar="TIME", help="How old a value may be to be of interest: 90s, 30m, 12h, 7d.")] = "",
    start: Annotated[str, typer.Option(metavar="WHERE", help="Of a new id: earliest (the default), latest, or a number.")] = "",
    limit: Annotated[int, typer.Option(metavar="COUNT", min=0, help="Leave after so many values; 0: no limit.")] = 0,
    follow: Annotated[bool, typer.Option("--follow", metavar="", help="Wait for values that are yet to come.")] = False,
    peek: Annotated[
        bool, typer.Option("--peek", metavar="", help="Show what this reader would read next, without becoming it or moving it.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", metavar="", help="One JSON object per value and line.")] = False,
) -> None:
    """Print the values that this reader has not had yet. Its position moves only after they were written to stdout.

    A program that reads under the same id is fenced: of two, the newest goes on. With --peek it is not disturbed: the values are read from
    its position in the store, and nothing is changed there. Then --start, if it is given, says where to begin instead."""
    wanted = _lease(lease) if lease else None
    if peek and lease:
        raise arguments.refused("--lease", lease, "--peek changes nothing about the reader: leave --lease out")
    where: Any = int(start) if start.isascii() and start.isdigit() else start or "earliest"

    async def look(opened: Store) -> None:
        here, left, after = opened.topic(topic), limit or sys.maxsize, where if start else None
        while follow and topic not in {about.name for about in await opened.topics()}:
            await asyncio.sleep(_IDLE_S)
        if after == "latest":
            after = (await here.info()).last
        while left > 0:
            items = await here.peek(min(left, _BATCH), id=id, start=after, timeout=_IDLE_S if follow else 0.0)
            for item in items:
                _show(item, json)
            sys.stdout.flush()
            if items:
                end = items[-1]
                after = end.last if isinstance(end, Gap) else end.seq
            elif not follow:
                break
            left -= len(items)

    async def work(opened: Store) -> None:
        if peek:
            await look(opened)
            return
        left = limit or sys.maxsize
        async with await opened.topic(topic).subscribe(wanted, id=id, start=where) as reader:
            while left > 0:
                try:
                    items = await reader.read_many(min(left, _BATCH), None if follow else _IDLE_S)
                except TimedOut:
                    break
                for item in items:
                    _show(item, json)
                sys.stdout.flush()
                left -= len(items)
                end = items[-1]
                await reader.done(end.last if isinstance(end, Gap) else end.seq)

    _with_store(store, work, waits=follow)


@app.command("list")
def list_topics(store: Address = DEFAULT_STORE, json: arguments.Json = False) -> None:
    """Print all topics of the store."""

    async def work(opened: Store) -> None:
        topics = await opened.topics()
        if json:
            terminal.print_json({"store": opened.url, "topics": topics})
            return
        table = Table("topic", "publisher")
        for heading in ("values", "newest", "collected up to", "bytes"):
            table.add_column(heading, justify="right")
        for info in topics:
            publisher = "(shared)" if info.options.shared else info.publisher or "(nobody)"
            table.add_row(info.name, publisher, f"{info.values:,}", f"{info.last:,}", f"{info.floor:,}", f"{info.size:,}")
        terminal.out.print(table if topics else f"{opened.url} has no topics yet: publish to one, and it is there", markup=False)

    _with_store(store, work)


@app.command()
def info(topic: Name, store: Address = DEFAULT_STORE, json: arguments.Json = False) -> None:
    """Print what a topic is, and where each of its subscribers is."""

    async def work(opened: Store) -> None:
        here = opened.topic(topic)
        about, subscribers = await here.info(), await here.subscribers()
        if json:
            terminal.print_json({"topic": about, "subscribers": subscribers})
            return
        kind = "shared by its publishers" if about.options.shared else f"published by {about.publisher or 'nobody now'}"
        replaced = ", a key's new value replaces the old" if about.options.mutable else ""
        terminal.out.print(f"{topic}: {kind} (epoch {about.epoch}){replaced}", markup=False)
        terminal.out.print(
            f"{about.values:,} values, {about.size:,} bytes; newest {about.last:,}, collected up to {about.floor:,}; "
            f"without subscribers values are kept for {_span(about.options.retention_s)}",
            markup=False,
        )
        table = Table("subscriber")
        for heading in ("done up to", "lag", "lease", "state bytes", "epoch"):
            table.add_column(heading, justify="right")
        for one in subscribers:
            table.add_row(one.id, f"{one.position:,}", f"{one.lag:,}", _span(one.lease_s), f"{one.state_bytes:,}", f"{one.epoch:,}")
        terminal.out.print(table if subscribers else "nobody is subscribed", markup=False)

    _with_store(store, work)


@app.command()
def gc(
    topics: Annotated[list[str] | None, typer.Argument(metavar="[TOPIC]...", help="These topics; without any, all.")] = None,
    store: Address = DEFAULT_STORE,
    json: arguments.Json = False,
) -> None:
    """Remove what every subscriber is done with or has let expire, and print why the rest is kept: by which subscriber, outbox or
    retention time, since when and until when. Nodes collect by themselves; it is safe at any time."""

    async def work(opened: Store) -> None:
        known = {about.name for about in await opened.topics()}
        for topic in topics or ():
            if topic not in known:
                raise UnknownTopic(topic)
        collected = await opened.collect(topics or None)
        held = await opened.holders(collected)
        now = await opened.time()
        if json:
            counts = {topic: {"floor": at.floor, "removed": at.removed} for topic, at in collected.items()}
            terminal.print_json({"collected": counts, "held": held, "time": now})
            return
        for topic, at in collected.items():
            terminal.out.print(f"{topic}: {at.removed:,} removed, collected up to {at.floor:,}", markup=False)
            for hold in held[topic]:
                terminal.out.print(f"  {_why_kept(hold, now)}", markup=False, soft_wrap=True)
        if not collected:
            terminal.out.print(f"{opened.url} has no topics", markup=False)

    _with_store(store, work)


def _why_kept(hold: CollectionHold, now: int) -> str:
    age = _seconds(now - hold.since)
    if hold.kind == "outbox":
        return f"held by the outbox of {hold.node}, for {age}, until it is sent"
    what = f"subscriber {hold.id}" if hold.kind == "subscriber" else "the retention time"
    where = f", read and not confirmed at node {hold.node}" if hold.node else ""
    values = f" from number {hold.first:,} on" if hold.first else ""
    left = 0 if hold.until is None else hold.until - now
    end = f"for {_seconds(left)} more" if left > 0 else f"expired, removed when {_waited_for(hold)} passed it"
    return f"kept{values} for {what}{where}: published {age} ago, {end}"


def _waited_for(hold: CollectionHold) -> str:
    if not hold.waits_for:
        return "all nodes of the store have"
    names = ", ".join(hold.waits_for[:_NAMED]) + (f" and {len(hold.waits_for) - _NAMED} more" if len(hold.waits_for) > _NAMED else "")
    return f"{names} {'has' if len(hold.waits_for) == 1 else 'have'}"


def _seconds(nanoseconds: int) -> str:
    return f"{max(nanoseconds, 0) / 1e9:,.1f} s"


def _with_store(
    url: str, work: Callable[[Store], Awaitable[T]], *, name: str | None = None, outbox: str | None = None, waits: bool = False
) -> T:
    """Whoever publishes has a `name`, and a file that is not there is made. For others it is a mistake, or what one `waits` for."""
    from antiphon.runtime.run import run

    async def program() -> T:
        if waits:
            await _until_made(url)
        elif name is None:
            require_made(url)
        async with open_store(url, name=name, outbox=outbox) as opened:
            return await work(opened)

    return run(program())


async def _until_made(url: str) -> None:
    if is_made(url):
        return
    terminal.err.print(f"{url} is not there yet: waiting for somebody to publish there", style="dim", markup=False, soft_wrap=True)
    while not is_made(url):
        await asyncio.sleep(_LOOK_S)


async def _batches(values: list[str] | None) -> AsyncIterator[list[bytes]]:
    """The values given, or the lines of stdin."""
    if values:
        yield [os.fsencode(value) for value in values]
        return
    if sys.stdin is None:
        raise UsageError("there is no stdin to read values from: give them as arguments")
    loop, arrived = asyncio.get_running_loop(), asyncio.Queue[list[bytes] | OSError](1)
    file = sys.stdin.fileno()

    def read() -> None:
        def hand_on(read: list[bytes] | OSError) -> None:
            asyncio.run_coroutine_threadsafe(arrived.put(read), loop).result()

        with suppress(RuntimeError):  # the command is over: nobody wants the rest
            try:
                for batch in _lines(file):
                    hand_on(batch)
                hand_on([])
            except OSError as error:  # a disk that fails: the command must not wait for ever
                hand_on(error)

    # A thread of its own, so that the outbox is sent and Ctrl-C is heard while nothing comes in; nobody waits for it at the end.
    threading.Thread(target=read, name="stdin", daemon=True).start()
    while batch := await arrived.get():
        if isinstance(batch, OSError):
            raise batch
        yield batch


def _lines(file: int) -> Iterator[list[bytes]]:
    """Whole lines, as many at once as have come: one that is alone goes alone. What is too long for a line is given out as it is, for
    the store to refuse."""
    held = bytearray()
    while piece := os.read(file, _PIECE):
        held += piece
        end = held.rfind(b"\n", len(held) - len(piece)) + 1
        if end:
            lines = [line.rstrip(b"\r") for line in held[: end - 1].split(b"\n")]
            del held[:end]
            for at in range(0, len(lines), _BATCH):
                yield [bytes(line) for line in lines[at : at + _BATCH]]
        elif len(held) > _LINE_LIMIT:
            break
    if held:
        yield [bytes(held).rstrip(b"\r")]


def _show(item: Item, json: bool) -> None:
    if json:
        shown: dict[str, object]
        if isinstance(item, Gap):
            shown = {"gap": {"first": item.first, "last": item.last, "why": item.why}}
        else:
            shown = {"seq": item.seq, "time": item.time, "key": item.key, "data": item.data.decode("utf-8", "replace")}
        sys.stdout.write(msgspec.json.encode(shown).decode() + "\n")
    elif isinstance(item, Gap):
        terminal.err.print(f"{item.first:,} … {item.last:,} are gone ({item.why})", style="yellow", markup=False)
    else:
        sys.stdout.buffer.write(item.data + b"\n")


_SPANS = (("d", 86_400.0), ("h", 3_600.0), ("m", 60.0), ("s", 1.0))


def _lease(text: str) -> float:
    for unit, factor in _SPANS:
        if text.endswith(unit):
            try:
                return float(text.removesuffix(unit)) * factor
            except ValueError:
                break
    raise arguments.refused("--lease", text, "write an age such as 90s, 30m, 12h or 7d")


def _span(seconds: float) -> str:
    for unit, factor in _SPANS:
        if seconds >= factor:
            return f"{seconds / factor:g}{unit}"
    return f"{seconds:g}s"
