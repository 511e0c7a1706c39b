"""Maximum spanning k-forests: single linkage as a clusterer."""

from skdiffclust.forests._spanning_forest import SpanningForestClustering

__all__ = ["SpanningForestClustering"]
