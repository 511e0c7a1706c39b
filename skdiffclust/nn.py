"""Losses and operators as torch modules, for a training loop of one's own."""

from skdiffclust.cuts._torch import RatioCutLoss
from skdiffclust.forests._torch import (
    ConnectivityLoss,
    FenchelYoungLoss,
    PartialFenchelYoungLoss,
    PerturbedForest,
    standardized_similarity,
)
from skdiffclust.memories._torch import AssociativeMemory

__all__ = [
    "AssociativeMemory",
    "ConnectivityLoss",
    "FenchelYoungLoss",
    "PartialFenchelYoungLoss",
    "PerturbedForest",
    "RatioCutLoss",
    "standardized_similarity",
]
