"""Losses and operators as torch modules, for a custom training loop."""

# ruff: noqa: E402
from skdiffclust._devices import require_torch

require_torch("skdiffclust.nn")

from skdiffclust._torch import gather_over_processes
from skdiffclust.cuts._torch import RatioCutLoss
from skdiffclust.forests._perturbed._torch import (
    FenchelYoungLoss,
    PartialFenchelYoungLoss,
    PerturbedForest,
    standardized_affinity,
)
from skdiffclust.forests._torch import spanning_tree
from skdiffclust.gemini._torch import GEMINILoss
from skdiffclust.memories._torch import AssociativeMemory

__all__ = [
    "AssociativeMemory",
    "FenchelYoungLoss",
    "GEMINILoss",
    "PartialFenchelYoungLoss",
    "PerturbedForest",
    "RatioCutLoss",
    "gather_over_processes",
    "spanning_tree",
    "standardized_affinity",
]
