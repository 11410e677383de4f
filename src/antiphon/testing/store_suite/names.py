"""Names: any text that can be seen names a topic, a publisher, a subscriber or a record, and no two are taken for one."""

from __future__ import annotations

from antiphon.errors import InvalidName
from antiphon.store.records import Entry
from antiphon.testing.store_suite.stage import HOUR, Stage, check, equal, everything, refused

NAMES = [
    *("crash", "Crash", "CRASH", "a", "A", "0", "-1", "_", "-", ".", "..", "...", "a.b", "a.b.c", "a..b", ".a"),
    *("a/b", "/a", "a//b", "a\\b", "*", ">", "a*", "a>", "a.*", "a.>", "$JS.API", "$", "#", "%", "%41", "a%2Eb", "=", "a=b"),
    *("a b", "a,b", "a:b", "a;b", "a?b&c", "[a]", "{a}", "'", '"', "a'b; DROP TABLE x; --", "`", "~", "NULL", "null", "con"),
    *("w.v", "c.sub", "Größe", "größe", "日本語", "мир", "😀", "e\u0301", "\u00e9", "x" * 128, "é" * 64, "." * 128, "😀" * 32),
]


@check
async def every_name_is_a_topic_of_its_own(stage: Stage) -> None:
    """Two topics whose names look alike to the back end would be one."""
    store, other = await stage.open(), await stage.open()
    for at, name in enumerate(NAMES):
        grant = await store.register(name, name)
        equal("the grant", (grant.topic, grant.publisher, grant.last), (name, name, 0))
        await store.publish(grant, 1, [Entry(name.encode()), Entry(b"%d" % at)])
    infos = await other.topics()
    equal("the topics", [info.name for info in infos], sorted(NAMES))
    equal("who has them", [info.publisher for info in infos], sorted(NAMES))
    for at, name in enumerate(NAMES):
        equal(f"what is in {name!r}", [value.data for value in await everything(other, name)], [name.encode(), b"%d" % at])


@check
async def every_name_is_a_subscriber_of_its_own(stage: Stage) -> None:
    """Two subscribers whose names look alike to the back end would share a position."""
    store, other = await stage.open(), await stage.open()
    made = {name: await store.subscribe("t", name, HOUR + at) for at, name in enumerate(NAMES)}
    equal("the list", await other.subscribers("t"), [made[name] for name in sorted(NAMES)])
    for name in NAMES:
        equal(f"{name!r}", await other.subscriber("t", name), made[name])


@check
async def every_name_is_a_record_of_its_own(stage: Stage) -> None:
    """Two groups whose names look alike to the back end would be one."""
    store, other = await stage.open(), await stage.open()
    made = {name: await store.put(name, name.encode(), 0) for name in NAMES}
    equal("the list", await other.records(""), [made[name] for name in sorted(NAMES)])
    for name in NAMES:
        equal(f"{name!r}", await other.get(name), made[name])


@check
async def what_cannot_be_seen_is_no_name(stage: Stage) -> None:
    """A topic would be there that nobody can type."""
    store = await stage.open()
    for name in ("", " ", " a", "a ", "a\nb", "a\x00b", "\x7f", "x" * 129, "é" * 65):
        with refused(f"the topic {name!r}", InvalidName):
            await store.register(name, "p")
        with refused(f"the publisher {name!r}", InvalidName):
            await store.register("t", name)
        with refused(f"the topic {name!r}", InvalidName):
            await store.subscribe(name, "s", HOUR)
        with refused(f"the subscriber {name!r}", InvalidName):
            await store.subscribe("t", name, HOUR)
    equal("topics", await store.topics(), [])
