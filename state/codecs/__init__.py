"""Byte layouts, one module each: a diagram, a version byte, encode and decode side by side."""
