"""The operators: a page's way through the system, as pure functions.

    sketch ─▶ resolve ─▶ capture ─▶ admit ─▶ probe ─▶ verify ─▶ join

Each takes a batch of values and what the state holds for them (its `needs` say which keys), and returns state changes
and what it sends on. None reads a clock, a disk or a broker.

    operator  owner key          state it reads             sends on
    sketch    none               none                       a capture and its document
    resolve   URL repeated       that URL's captures        the page, with the document that it repeats
    capture   URL                the URL's last capture     the document, when the URL did not hold it
    admit     document           the document, locations    its buckets, when the document is new
    probe     bucket             the bucket's postings      candidate pairs
    verify    candidate          both sketches              edges, unions
    join      larger document    its links, its members     the next step, or members that change hands

Theory of operation. The embedded engine runs them one after another and writes what they change in one batch: there
is nothing more to say. Spread over partitions (`routing` says how), they are run by workers that crash, that are
handed messages twice, and that lose a partition without knowing it at once. What follows makes the clusters the same
all the same; tests/simulation tries to prove it wrong.

The engine owes them, for each topic and partition:

1. Messages are taken in the order of the log, and after a crash or a move again from the last acknowledged one on. A
   batch is begun when the one before it is done.
2. Its steps come in this order: outputs are sent and acknowledged, changes go to the changelog, then into the local
   state, then the messages are acknowledged. A worker that has lost the partition cannot acknowledge.
3. A new owner has read the changelog to its end before its first batch. Changes are merged (`state.changes.merge`),
   live and in recovery. A copy on disk counts as read only up to the first record that it has not merged.

So a former owner that goes on for a while writes nothing but what the new one, which takes the same messages in the
same order, writes itself: merged, it changes nothing. The exception is forgetting, which overwrites (an amendment of
the changelog): facts of a former owner that come behind it bring back what it took, and nothing tells them from those
of a page that is taken in again. What was forgotten while partitions changed hands is to be forgotten again. And a
batch that is taken again finds a state in which it is done, or in which it was never begun:

- **capture** and **admit** send what is new by their state. A state that says "done" was written after the outputs
  were acknowledged. In the order changelog first, a crash in between would lose them for good.
- **probe** reads a bucket and adds to it; of two documents that share one, the later one in the bucket's log
  nominates the earlier. Who is nominated was announced, so its arrival lies in its owner's log before anything that
  asks for its sketch: **verify** finds the row of every candidate that was not forgotten. Both send the same again.
- **join** lists members under roots only. A root that gets a parent hands them on; what is handed to it later, it
  forwards. A member deleted from a list has been handed on, so that a late writer may leave a copy of it under a
  node that is no root any more, where it is nobody's cluster: readers ask roots only.

Pages of one URL may come late or out of order: captures are kept by time, and an earlier one moves a first sight
back. A revisit, which names no document, has to come after what it repeats. Counters are not facts: a message handed
in twice counts twice. Limits depend on what came first: where none bit (each has a counter), the answer is the
embedded engine's.
"""
