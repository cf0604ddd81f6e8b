"""The Kafka engine: Faust agents run the operators on a partitioned state, in any number of workers.

    pages ─▶ captures ─▶ documents ◀─▶ buckets
    sketch   resolve     admit          probe
             capture     gather
                         verify ─▶ joins ◀─┐
                                   join ───┘

All topics that agents read have the same number of partitions, except that `pages` may have a different number.
Partition p of each of these topics is assigned to the same worker, so that one RocksDB per partition serves all
operators. The messages of a partition are processed one batch at a time, in four steps:

    1. send the outputs and wait until the broker has acknowledged them
    2. append the batch's changes to the changelog
    3. write the changes to RocksDB, together with their changelog offset
    4. acknowledge the input

After a crash between any two steps, the input is delivered again. This is harmless because the operators are
idempotent. Outputs, including results, are sent before the state is written. In the opposite order, a crash in
between would lose outputs, because a repeated batch sends nothing that the state already records. An unexpected error
ends the process before step 4, with exit code 75. A malformed message becomes a dead letter.

`streams.operators.routing` defines which partition owns which key. `streams.operators` explains why both engines find
the same clusters. tests/simulation tries to disprove this claim, and so does tests/broker, with real processes.

A folder imports only from the folders to its left (tests/tidiness/test_imports.py):

    wire  ◀─  rows  ◀─  worker  ◀─  collection  ◀─  coordinator  ◀─  run_worker.py
"""
