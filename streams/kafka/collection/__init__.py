"""The whole collection as any worker answers for it: HTTP server, deletions and their repair."""
