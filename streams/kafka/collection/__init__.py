"""The whole collection, served by any worker: its HTTP server, retractions, readmission and repair."""
