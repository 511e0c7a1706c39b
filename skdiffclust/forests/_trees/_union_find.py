"""Union-find and the total order of edges, each the only one of the package."""

from skdiffclust._compiled import compiled, inner


@inner
def precedes(length, a, b, other, c, d):
    """Whether the edge ab comes before cd in the total order (length, i, j), i < j."""
    if length != other:
        return length < other
    first = min(a, b)
    second = min(c, d)
    return first < second or (first == second and max(a, b) < max(c, d))


@compiled()
def find(parents, i):
    """Return the root of i; other rows on the path are linked to their grandparents."""
    while parents[i] != i:
        parents[i] = parents[parents[i]]
        i = parents[i]
    return i


@compiled()
def union(parents, sizes, root, other):
    """Join two components by their roots, small under large; return the new root.

    If both are equally large, the smaller row becomes the root, so that the result does
    not depend on the order of the arguments.
    """
    if sizes[root] < sizes[other] or (sizes[root] == sizes[other] and other < root):
        root, other = other, root
    parents[other] = root
    sizes[root] += sizes[other]
    return root
