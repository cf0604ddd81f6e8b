"""The Kafka engine: the operators as stream agents, the state in partitions, any number of workers.

    pages ─▶ captures ─▶ documents ◀─▶ buckets
    sketch   resolve     admit          probe
             capture     gather
                         verify ─▶ joins ◀─┐
                                   join ───┘

Every topic but `pages` has the same number of partitions. A worker that is assigned partition p of one topic is
assigned partition p of all: one RocksDB per partition serves all operators. A partition processes one batch at a
time, in four steps:

    1. send the outputs and wait until the broker has acknowledged them
    2. append the batch's changes to the changelog
    3. write the changes to RocksDB, together with their changelog offset
    4. acknowledge the input

After a crash between any two steps the input is delivered again; the operators are idempotent. Outputs come first
because the state decides what is sent: a state that says "done" before its output is safe would lose that output. An
unexpected error ends the process before step 4, with exit code 75; a malformed message goes to the dead letters. The
messages of the result topics are outputs too.

`streams.operators.routing` defines which partition owns which key, and `streams.operators` explains why the clusters
equal those of the embedded engine. tests/simulation tries to disprove that; tests/broker does so with real processes.

The folders import one another in one direction only, from right to left (tests/tidiness/test_imports.py):

    wire  ◀─  rows  ◀─  worker  ◀─  collection  ◀─  coordinator  ◀─  run_worker.py
"""
