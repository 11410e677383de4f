"""Rows of Spark into a topic, each once.

Spark may run a task twice, run a micro-batch again that was half done when the driver died, and put other rows into other partitions then.
Tasks get no key that would make this harmless. So:

1. Each task *stages* its rows: one Arrow file under (query, batch, partition, attempt). Nobody reads it yet.        staging.py
2. When all tasks are done, the driver writes the *manifest*: which files, in which order, are the batch. The first manifest of a batch
   counts; whoever comes later uses it. It is a record of the store, changed by compare-and-set.                     manifest.py
3. The driver publishes the rows of the manifest in the order of (partition, row), under the own numbers (batch, index) of a publisher that
   is the query's alone: what is there already is not written again, and what was begun goes on where it stopped.    publication.py
4. The staged files are removed. The manifest stays until that of the next batch takes its place: a batch that is done and is run again,
   because Spark died before it knew, must find it.

What can go wrong at each point: before 2 nothing has happened, and the batch is made anew. After 2 the batch is decided, whatever a second
run stages. During 3 the topic has a beginning of the batch, and the numbers say how much of it.
"""
