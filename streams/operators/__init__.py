"""The operators: a page's way through the system, as pure functions.

    sketch ─▶ capture ─▶ admit ─▶ probe ─▶ verify ─▶ join

Theory of operation. Each operator takes a batch of values and what the state holds for them (its `needs` say which
keys), and returns state changes and what it sends on. None reads a clock, a disk or a broker. Each is idempotent:
handed the same batch again, it returns changes that change nothing and sends what it sent before, as long as its
own state does not say that this was already sent. The engine that runs them owes them three things: one owner a key,
outputs that are sent before the state says so, and delivery at least once.

    operator  owner key          state it reads             sends on
    sketch    none               none                       a capture and its document
    capture   URL                the URL's last capture     the document, when the URL did not hold it
    admit     document           the document, locations    its buckets, when the document is new
    probe     bucket             the bucket's postings      candidate pairs
    verify    candidate          both sketches              edges, unions
    join      larger document    its parent                 the next step, or members that change hands
"""
