"""The embedded engine: ingest of crawl files in one process, one write per micro-batch."""
