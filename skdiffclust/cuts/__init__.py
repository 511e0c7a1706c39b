"""Ratio-cut of graphs: exact expectation, bound, and the clusterers."""

from skdiffclust.cuts._graph_cut import GraphCutClustering
from skdiffclust.cuts._prcut import PRCut
from skdiffclust.cuts._ratio_cut import (
    RatioCut,
    expected_ratio_cut,
    ratio_cut,
    ratio_cut_bound,
)

__all__ = [
    "GraphCutClustering",
    "PRCut",
    "RatioCut",
    "expected_ratio_cut",
    "ratio_cut",
    "ratio_cut_bound",
]
