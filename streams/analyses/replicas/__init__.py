"""Find replicated directories: pairs of directories, on one host or two, with the same pages below them.

`find_replicas` proposes pairs from pages with equal names and similar text, and compares the pages below them.
`zhang` is the published method, for comparison.
"""

from streams.analyses.replicas.compute_replicas import METHODS, analysis, compute
from streams.analyses.replicas.replica import Replica

__all__ = ["METHODS", "Replica", "analysis", "compute"]
