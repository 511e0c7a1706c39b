"""Similarities of nearest neighbours against all pairs."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from skdiffclust.forests import neighbor_similarity, perturbed_forest


def all_pairs(X):
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    return (squares.mean() - squares) / squares.std()


@pytest.mark.parametrize("shape", [(60, 3), (20, 40)])
def test_entries_are_those_of_all_pairs(shape, global_random_seed):
    X = np.random.RandomState(global_random_seed).randn(*shape) + 5.0
    dense = all_pairs(X)
    near = neighbor_similarity(X, 6)
    i, j = near.similarity.tocoo().coords
    np.testing.assert_allclose(near.similarity.data, dense[i, j], atol=1e-12)
    assert (near.similarity != near.similarity.T).nnz == 0
    # Stored: the pairs of which either row is among the nearest of the other.
    np.fill_diagonal(dense, -np.inf)
    chosen = dense >= np.sort(dense, axis=1)[:, -6][:, None]
    chosen |= chosen.T
    stored = np.zeros_like(chosen)
    stored[i, j] = True
    np.testing.assert_array_equal(stored, chosen)
    left_out = ~chosen & ~np.eye(len(X), dtype=bool)
    assert dense[left_out].max() <= near.omitted_similarity + 1e-12
    assert near.omitted_similarity == pytest.approx(np.sort(dense)[:, -6].max())


def test_equal_rows_stay_neighbours(global_random_seed):
    X = np.repeat(np.random.RandomState(global_random_seed).randn(8, 2), 3, axis=0)
    near = neighbor_similarity(X, 2)
    assert near.similarity.nnz == 2 * len(X)
    assert np.ptp(near.similarity.data) == 0
    assert (
        perturbed_forest(
            near.similarity, 8, random_state=global_random_seed
        ).forest.sum()
        == 32
    )


def test_forests_of_neighbours_are_those_of_all_pairs_where_certified(
    global_random_seed,
):
    rng = np.random.RandomState(global_random_seed)
    # No triangle is closed: the pairs left out are far away.
    X = np.repeat(10.0 * np.arange(6), 8)[:, None] + 0.05 * rng.randn(48, 1)
    near = neighbor_similarity(X, 7)
    options = {
        "n_perturbations": 20,
        "noise_scale": 1e-3,
        "random_state": global_random_seed,
    }
    sparse = perturbed_forest(
        near.similarity, 6, omitted_similarity=near.omitted_similarity, **options
    )
    dense = perturbed_forest(all_pairs(X), 6, **options)
    assert sparse.weight == pytest.approx(dense.weight)
    np.testing.assert_allclose(sparse.forest.toarray(), dense.forest)
    bound = float(near.similarity.data.max())
    uncertain = perturbed_forest(
        near.similarity, 6, omitted_similarity=bound, **options
    )
    assert uncertain.certified == 0


@pytest.mark.parametrize(
    "X, n_neighbors, match",
    [
        (np.zeros((5, 2)), 2, "'X' parameter must contain samples that differ"),
        (np.eye(4), 4, "'n_neighbors' parameter must be between 1 and"),
        (np.eye(4), 0, "'n_neighbors' parameter of neighbor_similarity"),
        (np.full((4, 2), np.nan), 1, "NaN"),
        (1e300 * np.eye(4), 1, "overflow"),
        (csr_array(np.eye(4)), 1, "[Ss]parse"),
    ],
)
def test_bad_input_is_refused(X, n_neighbors, match):
    with pytest.raises((ValueError, TypeError), match=match):
        neighbor_similarity(X, n_neighbors)
