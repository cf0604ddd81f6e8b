"""The byte layouts of rows, one module each. Diagrams show the length of each field in bytes (B)."""
