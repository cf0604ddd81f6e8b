"""The operators: the processing stages of a page, as pure functions.

    sketch ─▶ resolve ─▶ capture ─▶ admit ─▶ probe ─▶ gather ─▶ verify ─▶ join

An operator receives a batch of values and the state rows that it needs (`lookups` reads them). It returns state
changes and outputs. No operator reads a clock, a disk or a broker.

    operator  owner key          state rows read               outputs
    sketch    none               none                          a capture, with its document's payload
    resolve   repeated URL       captures of that URL          the page, with the document that it repeats
    capture   URL                last capture of the URL       the document, unless the last capture has it
    admit     document           document row, locations       the document's buckets, if it is new
    probe     bucket             postings of the bucket        candidate pairs
    gather    document           document row                  requests for the best candidates
    verify    candidate          sketches of both documents    edges, unions
    join      larger document    its parent, its members       the next union, or a member transfer

Theory of operation
-------------------
The embedded engine runs the operators one after another and writes all changes of a batch at once, so a batch is
stored completely or not at all.

The Kafka engine distributes the operators over partitions; `routing` defines the owner of every message. Its workers
can crash, receive messages twice, and lose partitions without noticing at once. Its clusters are still those of the
embedded engine if it guarantees three things per topic and partition. tests/simulation tries to refute this.

1. Messages are processed in log order. After a crash or a rebalance, processing resumes after the last acknowledged
   message. A batch begins only when the previous batch is done.
2. The steps of a batch have a fixed order: send the outputs and wait for their acknowledgement, append the changes to
   the changelog, write them to the local state, acknowledge the messages. A worker that has lost the partition cannot
   acknowledge.
3. A new owner reads the changelog to its end before its first batch. Changes are merged (`state.changes.merge`), both
   live and in recovery. A copy on disk is continued from the first record that it has not merged.

A former owner that continues for a while is therefore harmless. It processes the same messages in the same order as
the new owner and writes the same facts, and merging a fact twice changes nothing. Deletions are the exception: in the
changelog they are retractions, which overwrite rows. Facts that a former owner writes after a retraction restore
deleted rows, and look like the facts of a page that was ingested again. Rows deleted during a rebalance must
therefore be deleted again.

If a batch is processed again, the state shows it either as complete or as not begun:

- **capture** and **admit** output only what is new to their state. They output nothing for a complete batch, so its
  outputs must be acknowledged before the changelog is written. Otherwise, a crash in between would lose the outputs.
- **probe** reads a bucket and adds to it. Of two documents that share a bucket, the document that is later in the
  bucket's log nominates the other. The owner of the nominated document sent it to the bucket, so this owner's log
  contains its sighting before any request that needs its sketch. **verify** therefore finds the row of every
  candidate that was not deleted. Both operators repeat their outputs when they process a batch again.
- **join** lists members under roots only. A root that gets a parent transfers its members; a transfer that arrives
  later is forwarded to the parent. A member deleted from a list has been transferred, so a late writer can restore it
  only under a node that is no longer a root. Readers ignore this row, because they read only the lists of roots.

Pages of one URL can arrive late or out of order: captures are ordered by time, and an earlier capture moves the first
sighting back. A revisit names no document, so it must come after the capture that it repeats.

Two things can differ from the embedded engine: totals, because repeated messages are counted twice; and answers
once a limit is reached, because the effect of a limit depends on the order of arrival. Each limit has a counter.
"""
