"""All forests of a few vertices: the oracle of the lightest and the heaviest one."""

from itertools import combinations


def all_forests(n_vertices, n_edges):
    """Yield every forest of this many edges once, as a list of pairs of vertices."""
    pairs = list(combinations(range(n_vertices), 2))
    return _extended(pairs, n_edges, range(n_vertices))


def _extended(pairs, n_edges, component):
    """Yield the choices of edges from pairs that join different components."""
    if n_edges == 0:
        yield []
        return
    for at, (i, j) in enumerate(pairs):
        if component[i] != component[j]:
            joined = [component[i] if c == component[j] else c for c in component]
            for others in _extended(pairs[at + 1 :], n_edges - 1, joined):
                yield [(i, j), *others]
