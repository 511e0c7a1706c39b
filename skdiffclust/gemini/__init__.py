"""Clustering by a generalised mutual information, with selection of variables."""

from skdiffclust.gemini._gemini import GEMINI
from skdiffclust.gemini._path import SparsePath
from skdiffclust.gemini._score import available_objectives, gemini_score
from skdiffclust.gemini._sparse_gemini import SparseGEMINI
from skdiffclust.gemini._sparse_gemini_cv import SparseGEMINICV

__all__ = [
    "GEMINI",
    "SparseGEMINI",
    "SparseGEMINICV",
    "SparsePath",
    "available_objectives",
    "gemini_score",
]
