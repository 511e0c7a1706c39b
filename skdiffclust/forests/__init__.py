"""Maximum spanning k-forests: single linkage as a clusterer."""

from skdiffclust.forests._spanning import (
    SpanningForest,
    SpanningTree,
    maximum_spanning_forest,
    minimum_spanning_tree,
)
from skdiffclust.forests._spanning_forest import SpanningForestClustering
from skdiffclust.forests._tree import calinski_harabasz_curve

__all__ = [
    "SpanningForest",
    "SpanningForestClustering",
    "SpanningTree",
    "calinski_harabasz_curve",
    "maximum_spanning_forest",
    "minimum_spanning_tree",
]
