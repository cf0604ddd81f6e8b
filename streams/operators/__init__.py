"""The operators: the steps in which a page is processed, as pure functions.

    sketch ─▶ resolve ─▶ capture ─▶ admit ─▶ probe ─▶ gather ─▶ verify ─▶ join

An operator receives a batch of values and the state rows that it needs, which `lookups` reads. It returns state
changes and outputs. No operator reads a clock, a disk or a broker.

    operator  owner key          state rows read               outputs
    sketch    none               none                          the capture and the document's payload
    resolve   URL of original    captures of this URL          the page, with the document of the original
    capture   URL                last capture of the URL       a sighting, if the URL's document changed
    link      URL                stored chunks of links        none
    admit     document           document, location, text      the document's buckets, if it is new
    probe     bucket             postings of the bucket        candidate pairs
    gather    document           document                      requests to verify the best candidates
    verify    candidate          candidate                     unions of near-duplicates
    join      larger document    its parent and members        the next union, or a member transfer
    decide    URL                decision about the URL        none

`link` runs in the same batch as `capture` and writes the links of the page. `decide` processes editors' decisions,
which are not part of a page.

A *revisit* is a page without content: the crawler recorded that it repeats an earlier capture, its *original*.

Theory of operation
-------------------
The embedded engine runs the operators one after another and writes all changes of a batch at once, so a batch is
stored completely or not at all.

The Kafka engine distributes the operators over partitions; `routing` defines the owner of every message. Workers may
crash, receive messages twice, or lose partitions without noticing immediately. The clusters are still the same as in
the embedded engine if three guarantees hold for each topic and partition; tests/simulation tries to refute this.

1. Messages are processed in log order. After a crash or a rebalance, processing resumes after the last acknowledged
   message. A batch begins only when the previous batch is done.
2. The steps of a batch have a fixed order: send the outputs and wait for their acknowledgement, append the changes to
   the changelog, write them to the local state, acknowledge the messages. A worker that has lost the partition cannot
   acknowledge.
3. A new owner reads the changelog to its end before its first batch. If it has an old copy of the partition on disk,
   it starts at the first record that the copy lacks. Changes are always merged (`state.changes.merge`).

A former owner that continues for a while is therefore harmless. It processes the same messages in the same order as
the new owner and writes the same changes, and merging a change twice has no further effect. Deletions are the
exception: in the changelog they are retractions, which overwrite rows. Changes that a former owner writes after a
retraction restore deleted rows, and look like the changes of a page that was ingested again. Rows deleted during a
rebalance must therefore be deleted again.

When a batch is processed again, the state contains either all of its changes or none:

- **capture** and **admit** output only what their state lacks, so they output nothing if the changes are stored.
  The outputs must therefore be acknowledged before the changelog is written, or a crash in between would lose them.
- **probe** reads a bucket and adds to it. Of two documents that share a bucket, the later one in the bucket's log
  nominates the earlier one. The owner of the earlier document processed its sighting before the bucket received it,
  so requests to verify this document are later in the owner's log. **verify** therefore finds the row of every
  candidate that was not deleted. Both operators repeat their outputs when they process a batch again.
- **join** lists members under roots only. A root that gets a parent transfers its members; a transfer that arrives
  later is forwarded to the parent. A former owner may restore the row of a transferred member, but only under a node
  that is no longer a root. Readers ignore this row, because they read only the lists of roots.

Pages of one URL may arrive late or out of order: captures are ordered by sweep and time, and an earlier capture
lowers the first-seen time. A revisit must arrive after its original.

Two things may differ from the embedded engine: totals, because repeated messages are counted twice; and answers
once a limit is reached, because the effect of a limit depends on the order of arrival. Each limit has a counter.
"""
