"""Find mirrored hosts: pairs of hosts that have the same paths with the same, similar or related content.

After Bharat and Broder (1999), "Mirror, Mirror on the Web". Stage I proposes pairs of hosts from a small sample of
each host's pages. Stage II compares all paths of a proposed pair, and assigns one of the paper's levels.
"""

from streams.analyses.mirrors.compute_mirrors import METHODS, analysis, compute
from streams.analyses.mirrors.levels import LEVELS
from streams.analyses.mirrors.mirror import Evidence, Mirror, MirrorChange, compare

__all__ = ["LEVELS", "METHODS", "Evidence", "Mirror", "MirrorChange", "analysis", "compare", "compute"]
