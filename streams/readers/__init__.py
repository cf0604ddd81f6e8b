"""Readers: the files that crawlers write, as pages. `dispatch` chooses the reader of a file by its first bytes."""
