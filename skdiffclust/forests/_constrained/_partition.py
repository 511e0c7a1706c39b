"""Partitions to start constrained forests from."""

import numpy as np

from skdiffclust._compiled import compiled
from skdiffclust.forests._trees._union_find import find, singletons, union


@compiled(nogil=True)
def joined_components(groups, colours, heads, tails):
    """Components (s, n), int32, of the rows that groups, colours and edges (s, m) join.

    groups (n,) are those of rows, colours (n_groups,) those of groups, -1 for none.
    Numbered in the order of their first rows.
    """
    n_samples = len(heads)
    n = len(groups)
    first = np.full(len(colours), -1)
    parents = singletons(n)
    sizes = np.ones(n, dtype=np.int64)
    # The first row of each group, or of each colour.
    of_colour = np.full(len(colours), -1)
    for i in range(n):
        colour = colours[groups[i]]
        slots = first if colour < 0 else of_colour
        slot = groups[i] if colour < 0 else colour
        if slots[slot] < 0:
            slots[slot] = i
        root = find(parents, slots[slot])
        other = find(parents, i)
        if root != other:
            union(parents, sizes, root, other)
    components = np.empty((n_samples, n), dtype=np.int32)
    own = np.empty(n, dtype=np.int64)
    own_sizes = np.empty(n, dtype=np.int64)
    numbers = np.empty(n, dtype=np.int32)
    for s in range(n_samples):
        for i in range(n):
            own[i] = parents[i]
            own_sizes[i] = sizes[i]
            numbers[i] = -1
        for e in range(heads.shape[1]):
            union(own, own_sizes, find(own, heads[s, e]), find(own, tails[s, e]))
        n_components = 0
        for i in range(n):
            root = find(own, i)
            if numbers[root] < 0:
                numbers[root] = n_components
                n_components += 1
            components[s, i] = numbers[root]
    return components
