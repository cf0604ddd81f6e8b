"""Queries about documents and clusters."""
