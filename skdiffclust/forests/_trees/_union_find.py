"""Union-find, the only one of the package."""

import numpy as np

from skdiffclust._compiled import compiled


@compiled()
def singletons(n):
    """Parents (n,) int64 of n components of one row each."""
    return np.arange(n)


@compiled()
def find(parents, i):
    """Root of i; every other row on the way skips its parent from now on."""
    while parents[i] != i:
        parents[i] = parents[parents[i]]
        i = parents[i]
    return i


@compiled()
def union(parents, sizes, root, other):
    """Join two components by their roots, small under large; return the new root.

    Of two equally large ones the smaller row becomes the root, so that the result
    does not depend on the order of the arguments.
    """
    if sizes[root] < sizes[other] or (sizes[root] == sizes[other] and other < root):
        root, other = other, root
    parents[other] = root
    sizes[root] += sizes[other]
    return root
