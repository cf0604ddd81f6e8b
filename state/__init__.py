"""The stored state: the RocksDB store, the codecs of its rows, and its invariants. Never imports `streams`."""
