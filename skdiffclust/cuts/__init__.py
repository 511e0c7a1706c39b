"""Ratio-cut of graphs: exact expectation, bound, and the clusterer PRCut."""

from skdiffclust.cuts._prcut import PRCut
from skdiffclust.cuts._ratio_cut import (
    RatioCut,
    expected_ratio_cut,
    ratio_cut,
    ratio_cut_bound,
)

__all__ = ["PRCut", "RatioCut", "expected_ratio_cut", "ratio_cut", "ratio_cut_bound"]
