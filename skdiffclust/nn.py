"""Losses and operators as torch modules, for a training loop of one's own."""

from skdiffclust.cuts._torch import RatioCutLoss

__all__ = ["RatioCutLoss"]
