"""Which rows of a writer have been read without a hole between them: what is not there cannot be seen by looking at some rows alone.

The watch is told few kinds of rows, of one group. Whether a row of them is missing shows in the numbers of all rows, which are looked at
here, before the others are left out: each row that stays says in which stretch of consecutive rows of its writer it was read.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Longs: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


def stretches(writers: Longs, indices: Longs) -> tuple[Longs, Longs]:
    """Return for each row the first and the last index of its stretch. `writers` are numbers that tell the writers apart."""
    if not len(indices):
        return indices, indices
    goes_on = (writers[1:] == writers[:-1]) & (indices[1:] == indices[:-1] + 1)
    begins = np.concatenate([[0], np.flatnonzero(~goes_on) + 1])
    lengths = np.diff(np.concatenate([begins, [len(indices)]]))
    return np.repeat(indices[begins], lengths), np.repeat(indices[begins + lengths - 1], lengths)
