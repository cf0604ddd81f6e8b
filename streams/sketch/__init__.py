"""Turn pages into sketches (text, tokens, shingles, signatures, samples), and compare sketches."""
