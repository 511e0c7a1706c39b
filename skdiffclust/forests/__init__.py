"""Maximum spanning k-forests: single linkage as a clusterer."""

from skdiffclust.forests._blocks import minimum_spanning_tree_by_blocks
from skdiffclust.forests._embedding import SpanningForestEmbedding
from skdiffclust.forests._fenchel_young import (
    connectivity_loss,
    fenchel_young_loss,
    partial_fenchel_young_loss,
)
from skdiffclust.forests._neighbor_similarity import (
    NeighborSimilarity,
    neighbor_similarity,
)
from skdiffclust.forests._perturbation import PerturbedForestResult, perturbed_forest
from skdiffclust.forests._spanning import (
    SpanningForest,
    SpanningTree,
    maximum_spanning_forest,
    minimum_spanning_tree,
)
from skdiffclust.forests._spanning_forest import SpanningForestClustering
from skdiffclust.forests._tree import calinski_harabasz_curve

__all__ = [
    "NeighborSimilarity",
    "PerturbedForestResult",
    "SpanningForest",
    "SpanningForestClustering",
    "SpanningForestEmbedding",
    "SpanningTree",
    "calinski_harabasz_curve",
    "connectivity_loss",
    "fenchel_young_loss",
    "maximum_spanning_forest",
    "minimum_spanning_tree",
    "minimum_spanning_tree_by_blocks",
    "neighbor_similarity",
    "partial_fenchel_young_loss",
    "perturbed_forest",
]
