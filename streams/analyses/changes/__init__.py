"""Measure how many pages change from sweep to sweep, and by how much (Broder et al. 1997, section 6.5)."""
