"""Equal rows, against comparison of every pair."""

import numpy as np
import pytest

from skdiffclust.forests._trees._duplicates import join_duplicates


@pytest.mark.parametrize("seed", range(20))
def test_copies_are_joined_to_the_first(seed, global_random_seed):
    seed += 1000 * global_random_seed
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 60))
    X = rng.integers(-1, 2, (n, int(rng.integers(1, 4)))) * rng.choice([1.0, -1.0])
    nodes = np.unique(rng.integers(0, n, n), return_inverse=True)[1]
    edges, kept, vertices = join_duplicates(X, nodes)
    firsts = (X[:, None] == X[None]).all(axis=2).argmax(axis=1)
    assert np.array_equal(kept, np.unique(firsts))
    joined, expected = nodes.copy(), []
    for i, j in sorted((firsts[j], j) for j in range(n) if firsts[j] != j):
        if joined[i] != joined[j]:
            expected.append((i, j))
            joined[joined == joined[j]] = joined[i]
    assert sorted(map(tuple, edges)) == expected
    same = joined[kept][:, None] == joined[kept]
    assert np.array_equal(vertices[:, None] == vertices, same)
    assert set(vertices) == set(range(vertices.max() + 1))
