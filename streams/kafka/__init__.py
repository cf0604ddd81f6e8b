"""The Faust engine: the operators as stream agents, the state in partitions, any number of workers.

    pages ─▶ captures ─▶ documents ◀─▶ buckets
    sketch   resolve     admit          probe
             capture     gather
                         verify ─▶ joins ◀─┐
                                   join ───┘

Theory of operation. Every topic but `pages` has the same number of partitions, and a worker that holds partition p
of one holds it of all: one RocksDB a partition serves all operators. A partition takes one batch at a time, in four
steps:

    1. outputs sent and acknowledged
    2. its changes in the changelog
    3. its changes in RocksDB, with their place in the changelog
    4. input acknowledged

A crash between any two of them makes the input come again, and the operators are idempotent. Outputs come first,
because the state decides what is sent: a state that says "done" before its output is safe would lose that output. An
unexpected error ends the process before step 4, with code 75; a message that is merely bad goes to the dead letters.
What `results` tells others is an output too.

`streams.operators.routing` says who owns what, and `streams.operators` why this comes to the embedded engine's
clusters; tests/simulation tries to prove it wrong, tests/broker does so with real processes.
"""
