"""The byte layouts of rows, one module each. In a diagram, the number after a field is its length in bytes."""
