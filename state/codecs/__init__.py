"""The byte layouts of rows, one module per layout: a diagram, a version byte, `encode` and `decode` side by side.

In the diagrams, the number after a field is its length in bytes. Fields in brackets are optional.
"""
