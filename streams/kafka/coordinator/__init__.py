"""The duties of the worker that holds partition 0: committing sweeps and publishing moves."""
