"""Limits: what fits fits exactly, what does not is refused with nothing written."""

from __future__ import annotations

from antiphon.errors import TooLarge
from antiphon.store.records import Entry
from antiphon.testing.store_suite.stage import Stage, check, equal, everything, holds, refused, seqs


@check
async def the_largest_value_fits_and_one_byte_more_does_not(stage: Stage) -> None:
    """A value would be cut off, or a publisher stop at a limit that was not the one it was told."""
    store, other = await stage.open(), await stage.open()
    grant = await store.register("t", "p")
    largest = b"\xa5" * store.value_bytes
    await store.publish(grant, 1, [Entry(largest)])
    with refused("one byte more", TooLarge):
        await store.publish(grant, 2, [Entry(largest + b"!")])
    await store.publish(grant, 2, [Entry(b"")])
    values = await everything(other, "t", limit=1)
    equal("numbers", seqs(values), [1, 2])
    holds("the largest value is whole", values[0].data == largest)
    equal("the empty one", values[1].data, b"")


@check
async def the_largest_batch_fits_and_one_value_more_does_not(stage: Stage) -> None:
    """A batch would be split behind its publisher's back: half of it could be lost."""
    store = await stage.open()
    grant = await store.register("t", "p")
    receipt = await store.publish(grant, 1, [Entry(b"v")] * store.batch_values)
    equal("receipt", (receipt.first, receipt.last), (1, store.batch_values))
    with refused("one value more", TooLarge):
        await store.publish(grant, store.batch_values + 1, [Entry(b"v")] * (store.batch_values + 1))
    equal("how many are there", (await store.info("t")).last, store.batch_values)
    again = await store.publish(grant, 1, [Entry(b"v")] * store.batch_values)
    equal("the receipt of a repeat", (again.first, again.last), (1, store.batch_values))


@check
async def a_batch_has_its_bytes_too(stage: Stage) -> None:
    """A batch of large values would be taken and then fail in the middle."""
    store = await stage.open()
    grant = await store.register("t", "p")
    whole, rest = divmod(store.batch_bytes, store.value_bytes)
    fits = [Entry(b"v" * store.value_bytes)] * whole + [Entry(b"r" * rest)] * (rest > 0)
    await store.publish(grant, 1, fits)
    equal("how many are there", (await store.info("t")).last, len(fits))
    with refused("one byte more", TooLarge):
        await store.publish(grant, 100, [*fits, Entry(b"!")])
    equal("how many are there", (await store.info("t")).last, len(fits))
