"""Clustering with associative memories, after Saha et al. (ICML 2023)."""

from skdiffclust.memories._clam import ClAM
from skdiffclust.memories._deep_clam import DeepClAM
from skdiffclust.memories._dynamics import energy, entropy, recall
from skdiffclust.memories._imputer import AssociativeImputer

__all__ = [
    "AssociativeImputer",
    "ClAM",
    "DeepClAM",
    "energy",
    "entropy",
    "recall",
]
