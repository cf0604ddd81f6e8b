"""All layers above the stored rows: readers, sketches, operators, engines, queries and the command line."""
