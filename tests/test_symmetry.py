"""The compiled comparison of a matrix with its transpose."""

import numpy as np
import pytest

from skdiffclust import SpanningForestClustering, _affinity
from skdiffclust._affinity import check_precomputed, is_clean_distances
from skdiffclust._symmetry import is_finite_and_symmetric


def symmetric(n, seed=0):
    """Return a symmetric matrix (n, n) without a diagonal."""
    half = np.triu(np.random.default_rng(seed).normal(size=(n, n)), 1)
    return half + half.T


@pytest.mark.parametrize("n", [1, 2, 255, 256, 257, 600])
def test_symmetric_matrices(n, global_random_seed):
    assert is_finite_and_symmetric(symmetric(n, global_random_seed))


@pytest.mark.parametrize("n", [2, 256, 600])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, "next"])
def test_one_entry_is_enough(n, value, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    for _ in range(30):
        D = symmetric(n, global_random_seed)
        i, j = rng.choice(n, 2, replace=False)
        D[i, j] = np.nextafter(D[i, j], 9) if value == "next" else value
        assert not is_finite_and_symmetric(D)
        if value != "next":
            D[j, i] = value
            assert not is_finite_and_symmetric(D)
    D = symmetric(n)
    D[n - 1, n - 1] = np.nan
    assert not is_finite_and_symmetric(D)


def test_clean_distances():
    D = symmetric(9)
    assert is_clean_distances(D)
    assert not is_clean_distances(D + np.eye(9))
    assert not is_clean_distances(D[:8])
    assert not is_clean_distances(D.astype(np.float32))


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_compiled_path_checks_as_the_other(order, monkeypatch):
    monkeypatch.setattr(_affinity, "_COMPARED_BY_NUMPY", 5)
    monkeypatch.setattr(_affinity, "_COMPARED_BY_NUMPY_AT_FIRST", 5)
    D = np.asarray(symmetric(300) ** 2, order=order)
    assert check_precomputed(D) is D
    signed = D.copy(order)
    signed[3, 7] = 0.0
    signed[7, 3] = -0.0
    assert check_precomputed(signed) is signed
    model = SpanningForestClustering(2, metric="precomputed")
    expected = model.fit(D).labels_
    D[3, 4] *= 1.5
    with pytest.warns(UserWarning, match="not symmetric"):
        model.fit(D)
    D[3, 4] = D[4, 3]
    np.fill_diagonal(D, 3.0)
    assert np.array_equal(model.fit(D).labels_, expected)
    for value, text in ((np.nan, "contains NaN"), (np.inf, "contains infinity")):
        wrong = D.copy(order)
        wrong[8, 2] = value
        with pytest.raises(ValueError, match=text):
            model.fit(wrong)
