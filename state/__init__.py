"""What stays: the RocksDB store, its codecs, and the invariants of what it holds. Never imports `streams`."""
