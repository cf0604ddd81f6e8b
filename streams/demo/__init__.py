"""The demo of `make run`: editions of a real manual, ingested as sweeps of one site."""
