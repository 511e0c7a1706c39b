"""Partitions to start constrained forests from."""

import numpy as np

from skdiffclust.forests._constrained._search import chains
from skdiffclust.forests._trees._components import compiled_components


def joined_components(problem, heads, tails):
    """Components (s, n) of the rows that groups, colours and edges (s, m) join.

    Numbered in the order of their first rows.
    """
    n_samples = len(heads)
    n = len(problem.groups)
    colours = problem.colours[problem.groups]
    known = chains(np.where(colours >= 0, -1 - colours, problem.groups))
    shifts = n * np.arange(n_samples)[:, None]
    ends = [
        (np.hstack([end, np.tile(joined, (n_samples, 1))]) + shifts).ravel()
        for end, joined in zip((heads, tails), known.T, strict=True)
    ]
    labels = compiled_components(np.column_stack(ends), n_samples * n)
    labels = labels.reshape(n_samples, n)
    return labels - labels[:, :1]
