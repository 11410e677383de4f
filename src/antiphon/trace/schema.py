"""The trace: what happened at each node, as rows that a table can hold. This module is the whole schema; everything else follows it.

A **run** is one undertaking: everything that was started together. A **writer** is one recording process or object within it: a node, or a
node of a simulated world. A row is one event of one batch: a range of messages, never a single message where a range will do.

What holds for every trace:

- A writer numbers its rows 0, 1, 2, … (`index`), so a lost file or row shows. Its first row is `open`, its last `close`; without `close` it
  crashed, was cut off, or still runs. The order of its rows is happened-before order. Of a turn, a member's rows are: what was sent in it,
  what was received, what the application was told (`deliver`, `view`, …), and what of the received has to wait (`hold`).
- Files are complete or absent: written under another name and renamed. They are named `RUN/WRITER-NUMBER.parquet`.
- Three clocks. `at`: monotonic, nanoseconds; exact between nodes of one machine. `wall`: nanoseconds since 1970, as the machine believes.
  `hlc`: a hybrid logical clock in nanoseconds: of two rows of one group, what happened before has no larger one, and what is received or
  delivered has a larger one than its `send`, whatever the wall clocks say (as long as they are not more than an hour apart).
- A column that means nothing for a kind is null (numbers: 0). Unknown kinds and columns of later versions are left alone.

| kind | of | says |
|---|---|---|
| `open` | writer | recording begins; `note` is JSON: version of Antiphon, host, process, clock |
| `close` | writer | recording ends in order |
| `group` | member | this member is in the group from here on; `note` is JSON: the group's `name` and options, the names of its \
                    `promises` (absent in older traces), and what the member `wants` of the time before it came (`founder`: there was \
                    none; older traces say `all`) |
| `send` | member | messages `first … last` were accepted from the application in `view`; `names`, `checks`, `amount` (bytes). \
                   They may leave in a later view. `note` is `guest` for an outsider's messages (one may come through two members; it is \
                   then delivered once), `after` where `names` are only followed, not answered |
| `receive` | member | messages `first … last` of `sender`, which travelled in `view`, reached the ordering; own ones too |
| `hold` | member | messages `first … last` of `sender` cannot be delivered yet; `names`: what they wait for. Not where they wait for a \
                   place in a total order |
| `deliver` | member | messages `first … last` of `sender`, which travelled in `view`, were delivered, as the member's \
                      `position + 0 … last - first`, counted from 0; `checks`; `note` is `orphaned` (`names`: the lost) or `recovered` \
                      (it came by synchronisation; `names`: the lost, for an orphan) where it is no ordinary delivery |
| `view` | member | `view` was installed: `members`, in its order; `names`: after which number the stream of a sender begins in it, where \
                   that is said; `note` is JSON: coordinator, previous view, makers, sides of a merge |
| `stable` | member | `names`: up to which number every member is known to have each sender's messages; sparse. Or, with the `note` \
                     `places`, `amount`: how many places of the view's total order every member knows |
| `gap` | member | messages `first … last` of `sender` will never be delivered here: the member was told, or (`note` = `state`) was given \
                  a state that stands for them |
| `settled` | member | the member has caught up in `view`, or (`note` = `stable`) everybody has; or (`stopped`) it is without a majority, \
                      and nothing goes on until it meets one |
| `leave` | member | the member is out of the group; `note`: why; `amount`: accepted messages that may have reached nobody |
| `drop` | member | `amount` frames or messages were dropped since the last such row; `note`: the reason |
| `repair` | member | `amount` requests were sent (`note` = `asked`), or frames sent again (`sent`), since the last such row |
| `queue` | member | `amount` messages wait: `note` says where (`held` by the ordering, `unstable`: not known to be everywhere, `unsent`); \
                    written when it has changed |
| `publish` | store | `first … last` of the topic `group` by publisher `sender`, acknowledged; `checks`; `position`: its own first number |
| `read` | store | subscriber `member` got `first … last` of the topic `group`, epoch in `view`; `note` = `gap`: was told they are \
                   collected, `removed`: were replaced or taken back, `expired`: they were older than its lease, and skipped |
| `done` | store | subscriber `member` is done up to `last`; epoch in `view`; `note` = `begins`: it is new and begins there, `marks`: it \
                   is done with some beyond, too |
| `collect` | store | the topic's floor is `last`; or (`note` = `removed`) publisher `sender` has taken back the value `last` |
| `crash` | world | the simulator stopped this writer here, without a word |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow

VERSION = 1
"""Kept in the file's metadata as `antiphon.trace`. Readers take every version up to this one."""

KINDS = (
    *("open", "close", "group", "send", "receive", "hold", "deliver", "view", "stable", "gap", "settled", "leave", "drop", "repair"),
    *("queue", "publish", "read", "done", "collect", "crash"),
)

COLUMNS = (
    ("run", "string"),
    ("writer", "string"),
    ("index", "int64"),
    ("kind", "string"),
    ("at", "int64"),
    ("wall", "int64"),
    ("hlc", "int64"),
    ("group", "string"),
    ("member", "string"),
    ("view", "int64"),
    ("sender", "string"),
    ("first", "int64"),
    ("last", "int64"),
    ("position", "int64"),
    ("amount", "int64"),
    ("members", "list<string>"),
    ("names", "list<struct<seqno: int64, sender: string, number: int64>>"),
    ("checks", "list<int64>"),
    ("note", "string"),
)
"""`names` of a `send`: message `seqno` names message (`sender`, `number`), the one it answers first; of a `deliver` likewise. Of a `hold`,
a `stable`, a `view`: `seqno` is 0. `checks` are CRC-32 of payloads: one for each message of the range, or, when there are fewer of them,
one for each message of the range whose number is a multiple of `CHECK_EVERY`."""

CHECK_EVERY = 64
SHORT = 8
"""In a range of no more messages than this each has its check."""

METADATA_KEY = b"antiphon.trace"


def arrow_schema() -> pyarrow.Schema:
    """The same for pyarrow, strings as dictionaries where they repeat."""
    import pyarrow as pa

    word = pa.dictionary(pa.int32(), pa.string())
    name = pa.struct([("seqno", pa.int64()), ("sender", pa.string()), ("number", pa.int64())])
    types = {
        "string": word,
        "int64": pa.int64(),
        "list<string>": pa.list_(pa.string()),
        "list<int64>": pa.list_(pa.int64()),
        "list<struct<seqno: int64, sender: string, number: int64>>": pa.list_(name),
    }
    fields = [pa.field(column, pa.string() if column == "note" else types[kind]) for column, kind in COLUMNS]
    return pa.schema(fields, metadata={METADATA_KEY: str(VERSION).encode()})
