"""Topics and group histories as Spark reads them.

    choices.py               the options of whoever reads, checked
    batch.py, stream.py      which numbers are read: all there are now; what came since the offset
    ├─ span.py               a range of numbers: one task
    └─ passage.py            the values of a span, with every number that is missing accounted for
       ├─ value_rows.py      as rows, one per value
       └─ message_rows.py    as rows, one per message of a group
    line.py                  a store, called from code that does not await

Everything that runs on executors opens the store for itself and closes it when its task ends.
"""
