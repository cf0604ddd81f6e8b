"""The byte layouts of rows, one module per layout: a diagram, a version byte, `encode` and `decode` side by side."""
