"""Queries about documents, clusters and captures; the functions are named after the commands."""

from streams.query.captures import UrlCapture, captures
from streams.query.clusters import Cluster, Member, cluster, cluster_by_policy, clusters, clusters_by_policy, members
from streams.query.resolve import resolve
from streams.query.similar import Match, similar

__all__ = ["Cluster", "Match", "Member", "UrlCapture", "captures", "cluster", "cluster_by_policy"]
__all__ += ["clusters", "clusters_by_policy", "members", "resolve", "similar"]
