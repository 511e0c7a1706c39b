"""Clustering by a generalised mutual information, with selection of variables."""

from skdiffclust.gemini._gemini import GEMINI
from skdiffclust.gemini._score import available_objectives, gemini_score

__all__ = ["GEMINI", "available_objectives", "gemini_score"]
