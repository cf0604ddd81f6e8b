"""Readers turn the files that crawlers write into pages; `dispatch` selects the reader for a file."""
