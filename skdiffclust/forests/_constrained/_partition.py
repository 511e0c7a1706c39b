"""Partitions to start a constrained forest from: contraction, greedy merging."""

import numpy as np

from skdiffclust._compiled import compiled
from skdiffclust.forests._constrained._dense_trees import (
    comes_first,
    tree_of_blocks,
)
from skdiffclust.forests._trees._union_find import (
    find,
    number_components,
    singletons,
    union,
)


@compiled(nogil=True)
def contract(similarity, problem, component):
    """Write the best forest's partition (n,) in which every colour is one component.

    All coloured rows are contracted into one vertex and every other group into one; the
    heaviest edges of the tree of that graph are kept. Needs c colours, with
    c <= n_clusters <= c + number of groups without a colour.
    """
    groups = problem.groups
    colours = problem.colours
    n_groups = len(colours)
    number = np.empty(n_groups + 1, dtype=np.int64)
    number[:] = -1
    block = np.empty(len(groups), dtype=np.int64)
    n_blocks = 0
    n_colours = 0
    for i in range(len(groups)):
        group = groups[i]
        slot = n_groups if colours[group] >= 0 else group
        n_colours = max(n_colours, colours[group] + 1)
        if number[slot] < 0:
            number[slot] = n_blocks
            n_blocks += 1
        block[i] = number[slot]
    rows = np.arange(len(groups))
    edges, weights = tree_of_blocks(similarity, rows, block)
    n_edges = len(edges)
    for _ in range(problem.n_clusters - n_colours - (n_colours == 0)):
        last = 0
        for e in range(1, n_edges):
            a, b, c, d = edges[last, 0], edges[last, 1], edges[e, 0], edges[e, 1]
            if comes_first(weights[last], a, b, weights[e], c, d):
                last = e
        n_edges -= 1
        edges[last] = edges[n_edges]
        weights[last] = weights[n_edges]
    component[:] = joined_components(
        groups, colours, edges[:n_edges, 0], edges[:n_edges, 1]
    )


@compiled(nogil=True)
def joined_components(groups, colours, heads, tails):
    """Components (n,) of the rows that groups, colours and edges (m,) join."""
    n = len(groups)
    n_groups = len(colours)
    # The first row of each group, or of each colour.
    first = np.full(2 * n_groups, -1)
    parents = singletons(n)
    sizes = np.ones(n, dtype=np.int64)
    for i in range(n):
        colour = colours[groups[i]]
        slot = groups[i] if colour < 0 else n_groups + colour
        if first[slot] < 0:
            first[slot] = i
        root = find(parents, first[slot])
        other = find(parents, i)
        if root != other:
            union(parents, sizes, root, other)
    for e in range(len(heads)):
        union(parents, sizes, find(parents, heads[e]), find(parents, tails[e]))
    return number_components(parents)[0]


@compiled(nogil=True)
def merge_greedily(similarity, problem, component):
    """Write the partition (n,) of Kruskal that skips what conflicts forbid.

    Stops at n_clusters components, or earlier where all pairs left conflict: returns
    their number.
    """
    groups = problem.groups
    conflicts = problem.conflicts
    n = len(groups)
    n_groups = len(conflicts)
    best = np.full((n_groups, n_groups), -np.inf)
    for i in range(n):
        for j in range(n):
            a = groups[i]
            b = groups[j]
            best[a, b] = max(best[a, b], similarity[i, j])
    clashes = conflicts.copy()
    parents = singletons(n_groups)
    sizes = np.ones(n_groups, dtype=np.int64)
    left, right = np.triu_indices(n_groups, 1)
    values = np.empty(len(left))
    for e in range(len(left)):
        values[e] = best[left[e], right[e]]
    n_components = n_groups
    for e in np.argsort(-values, kind="mergesort"):
        if n_components == problem.n_clusters:
            break
        a = find(parents, left[e])
        b = find(parents, right[e])
        if a == b or clashes[a, b]:
            continue
        root = union(parents, sizes, a, b)
        both = clashes[a] | clashes[b]
        clashes[root, :] = both
        clashes[:, root] = both
        n_components -= 1
    component[:] = number_components(parents)[0][groups]
    return n_components
