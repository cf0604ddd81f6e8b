"""The embedded engine: ingests crawl files in one process, with one write per micro-batch."""
