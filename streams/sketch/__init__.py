"""From a page to its sketch: text extraction, tokens, shingles, signatures and samples, and comparing sketches."""
