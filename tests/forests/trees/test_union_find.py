"""Union-find against scipy's components."""

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from skdiffclust.forests._trees._union_find import find, union


@pytest.mark.parametrize("seed", range(10))
def test_components_are_those_of_scipy(seed, global_random_seed):
    seed += 1000 * global_random_seed
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 60))
    pairs = rng.integers(0, n, (n // 2, 2))
    parents, sizes = np.arange(n), np.ones(n, dtype=np.int64)
    for i, j in pairs:
        one, other = find(parents, i), find(parents, j)
        if one != other:
            assert union(parents, sizes, one, other) in (one, other)
    roots = np.array([find(parents, i) for i in range(n)])
    adjacency = coo_array((np.ones(len(pairs)), pairs.T), shape=(n, n))
    n_components, expected = connected_components(adjacency, directed=False)
    assert len(set(zip(roots, expected, strict=True))) == n_components
    assert np.array_equal(sizes[roots], np.bincount(roots, minlength=n)[roots])


def test_the_root_does_not_depend_on_the_order_of_the_arguments():
    for arguments in ((1, 2), (2, 1)):
        parents, sizes = np.arange(4), np.ones(4, dtype=np.int64)
        assert union(parents, sizes, *arguments) == 1
        assert find(parents, 2) == 1
