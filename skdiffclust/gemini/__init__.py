"""Clustering by a generalised mutual information, with selection of variables."""

from skdiffclust.gemini._score import available_objectives, gemini_score

__all__ = ["available_objectives", "gemini_score"]
