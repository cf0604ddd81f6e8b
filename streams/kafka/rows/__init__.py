"""Reading a state that is sharded over workers: row queries, the HTTP client of a worker, and the sharded store."""
