"""The Kafka engine: agents run the operators over a partitioned state, on any number of workers.

    pages ─▶ captures ─▶ documents ◀─▶ buckets
    sketch   resolve     admit          probe
             capture     gather
                         verify ─▶ joins ◀─┐
                                   join ───┘

All topics that the agents exchange have the same number of partitions; only `pages` can have another. A worker that
is assigned partition p of one topic is assigned partition p of all, so that one RocksDB per partition serves all
operators. A partition processes one batch at a time, in four steps:

    1. send the outputs and wait until the broker has acknowledged them
    2. append the batch's changes to the changelog
    3. write the changes to RocksDB, together with their changelog offset
    4. acknowledge the input

After a crash between any two steps, the input is delivered again. This is harmless because the operators are
idempotent. Outputs are sent first because a repeated batch sends only what the state does not record yet: if the
state were written first, a crash could lose outputs. An unexpected error ends the process before step 4, with exit
code 75. A malformed message is sent to the topic `dead-letters`. Messages for the result topics are outputs too.

`streams.operators.routing` defines which partition owns which key. `streams.operators` explains why both engines find
the same clusters. tests/simulation tries to disprove this claim; tests/broker does so with real processes.

A folder imports only from the folders to its left (tests/tidiness/test_imports.py):

    wire  ◀─  rows  ◀─  worker  ◀─  collection  ◀─  coordinator  ◀─  run_worker.py
"""
