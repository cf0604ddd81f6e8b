"""The demo that `make run` shows, on sweeps of a real manual."""
