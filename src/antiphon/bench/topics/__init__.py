"""What durable topics cost: throughput beside the bare store doing the same, and the seed's times of single operations.

`contestants.py` says what is done to a store, once through Antiphon (`ours.py`) and once without it (`raw_sqlite.py`, `raw_nats.py`), with
the same durability; `rows.py` lets them take turns and compares; `timings.py` times join, leave, write, read and delete one by one.
"""
