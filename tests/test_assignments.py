"""Tests of the conversions between assignments and labels."""

import numpy as np
import pytest
import scipy.special
from numpy.testing import assert_allclose, assert_array_equal

from skdiffclust._assignments import (
    order_by_size,
    relabel_by_size,
    softmax,
    softmax_backward,
)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_softmax_matches_scipy_and_keeps_dtype(dtype, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    logits = rng.normal(scale=5, size=(20, 4)).astype(dtype)
    copy = logits.copy()
    result = softmax(logits)
    assert result.dtype == dtype
    assert_allclose(
        result, scipy.special.softmax(logits, axis=1), rtol=10 * np.finfo(dtype).eps
    )
    assert_array_equal(logits, copy)


def test_order_by_size_counts_weights():
    assert order_by_size([0, 0, 1, 2], 4).tolist() == [0, 1, 2, 3]
    assert order_by_size([0, 0, 1, 2], 4, [1, 1, 1, 3]).tolist() == [2, 0, 1, 3]
    # 1 + 2 and 3, divided by their sum or not, are a tie of two clusters.
    assert order_by_size([0, 1, 1], 2, np.array([0.3, 0.1, 0.2])).tolist() == [0, 1]


def test_softmax_backward_matches_finite_differences(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    logits, weights = rng.normal(size=(5, 3)), rng.normal(size=(5, 3))
    gradient = softmax_backward(softmax(logits), weights)
    numeric = np.empty_like(logits)
    for index in np.ndindex(*logits.shape):
        step = np.zeros_like(logits)
        step[index] = 1e-6
        up = np.sum(weights * softmax(logits + step))
        down = np.sum(weights * softmax(logits - step))
        numeric[index] = (up - down) / 2e-6
    assert_allclose(gradient, numeric, atol=1e-8)


@pytest.mark.parametrize("seed", range(20))
def test_order_by_size_matches_sorted_python(seed, global_random_seed):
    seed += 1000 * global_random_seed
    rng = np.random.RandomState(seed)
    n_clusters = rng.randint(1, 9)
    labels = rng.randint(n_clusters, size=rng.randint(1, 15))

    def key(cluster):
        rows = np.flatnonzero(labels == cluster)
        return -len(rows), rows[0] if len(rows) else len(labels), cluster

    order = order_by_size(labels, n_clusters)
    assert_array_equal(order, sorted(range(n_clusters), key=key))
    # The way the docstring says labels follow is the way relabel_by_size takes.
    new, n_found = relabel_by_size(labels)
    assert_array_equal(np.argsort(order)[labels], new)
    assert n_found == len(set(labels))
