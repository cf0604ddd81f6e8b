"""The duties of the worker that owns partition 0: committing sweeps and publishing moves."""
