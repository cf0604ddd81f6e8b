"""Queries about documents, clusters and captures."""

from streams.query.captures import UrlCapture, captures, iterate_captures
from streams.query.clusters import (
    Cluster,
    Member,
    Pair,
    cluster,
    cluster_by_policy,
    clusters,
    clusters_by_policy,
    members,
    pairs,
)
from streams.query.duplicates import Duplicate, duplicates
from streams.query.resolve import resolve
from streams.query.similar import Match, find_similar
from streams.query.stored_links import StoredLink, links_from, links_to

__all__ = ["Cluster", "Duplicate", "Match", "Member", "Pair", "UrlCapture", "captures", "cluster", "iterate_captures"]
__all__ += ["cluster_by_policy", "clusters", "clusters_by_policy", "duplicates", "members", "pairs"]
__all__ += ["StoredLink", "find_similar", "links_from", "links_to", "resolve"]
