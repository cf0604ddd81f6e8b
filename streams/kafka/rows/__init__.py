"""Rows of a state that is sharded over workers: the query protocol, its HTTP client and the store on top."""
