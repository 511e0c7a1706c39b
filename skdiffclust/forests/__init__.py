"""Maximum spanning k-forests: single linkage as a clusterer."""

from skdiffclust.forests._blocks import minimum_spanning_tree_by_blocks
from skdiffclust.forests._constrained._spanning import (
    SpanningForest,
    maximum_spanning_forest,
)
from skdiffclust.forests._hierarchy._condensed_tree import CondensedTree
from skdiffclust.forests._hierarchy._cut_hierarchy import CutHierarchy, TreeCut
from skdiffclust.forests._hierarchy._spanning_tree import SpanningTree
from skdiffclust.forests._minimum_spanning_tree import minimum_spanning_tree
from skdiffclust.forests._perturbed._fenchel_young import (
    fenchel_young_loss,
    partial_fenchel_young_loss,
)
from skdiffclust.forests._perturbed._perturbation import (
    PerturbedForestResult,
    perturbed_forest,
)
from skdiffclust.forests._spanning_forest import SpanningForestClustering
from skdiffclust.forests._spanning_forest_embedding import SpanningForestEmbedding

__all__ = [
    "CondensedTree",
    "CutHierarchy",
    "PerturbedForestResult",
    "SpanningForest",
    "SpanningForestClustering",
    "SpanningForestEmbedding",
    "SpanningTree",
    "TreeCut",
    "fenchel_young_loss",
    "maximum_spanning_forest",
    "minimum_spanning_tree",
    "minimum_spanning_tree_by_blocks",
    "partial_fenchel_young_loss",
    "perturbed_forest",
]
