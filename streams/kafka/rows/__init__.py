"""Read a state that is sharded over workers: row queries, the HTTP client for workers, and the sharded store."""
