"""One fixture for every test of constraints: the twins of the constrained forest."""

import numpy as np
import pytest

from skdiffclust.forests._constrained import _search
from skdiffclust.forests._constrained._constrained_tree import constrained_tree


def by_numpy(similarity, problem):
    """Solve by the definition."""
    return constrained_tree(similarity, problem)


def by_kernels(similarity, problem):
    """Solve by the compiled twin."""
    from skdiffclust.forests._constrained._compiled_tree import constrained_tree

    return constrained_tree(np.ascontiguousarray(similarity), problem)


@pytest.fixture(params=["numpy", "compiled"])
def backend(request, monkeypatch):
    """Solve all constrained forests by one of the twins.

    Returns ``solve(similarity, problem) -> labels (n,), edges (m, 2)``, the edges with
    i < j in row-major order.
    """
    is_numpy = request.param == "numpy"
    monkeypatch.setattr(_search, "SMALL", 2**30 if is_numpy else -1)
    by = by_numpy if is_numpy else by_kernels

    def solve(similarity, problem):
        labels, up = by(similarity, problem)
        lower = np.flatnonzero(up >= 0)
        edges = np.sort(np.column_stack([lower, up[lower]]), axis=1)
        return labels, edges[np.lexsort(edges.T[::-1])]

    return solve
