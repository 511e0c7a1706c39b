"""Displays: what to draw is in the object, matplotlib is imported when it draws."""

from skdiffclust.gemini._display import SparsePathDisplay

__all__ = ["SparsePathDisplay"]
