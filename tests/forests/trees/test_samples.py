"""The order by which ties are broken, and the equal samples that it finds."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from skdiffclust import SpanningForestClustering
from skdiffclust._duplicates import first_equal
from skdiffclust.forests._trees._samples import order_of_ties


@pytest.mark.parametrize("n_values", [3, 40])
def test_equal_samples_are_those_of_the_order(n_values, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.integers(0, n_values, (200, 2)).astype(np.float64)
    order, firsts = order_of_ties(X)
    X = X if order is None else X[order]
    assert np.array_equal(firsts, first_equal(X))


@pytest.mark.parametrize("cut_rule", ["size_weighted", "longest"])
@pytest.mark.parametrize("n_features", [1, 3])
def test_few_distinct_samples_in_any_order(n_features, cut_rule, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    for _ in range(10):
        distinct = rng.integers(-2, 3, (8, n_features)).astype(np.float64)
        X = distinct[rng.integers(0, 8, 40)]
        forest = SpanningForestClustering(2, cut_rule=cut_rule).fit(X)
        order = rng.permutation(len(X))
        labels = SpanningForestClustering(2, cut_rule=cut_rule).fit_predict(X[order])
        assert adjusted_rand_score(labels, forest.labels_[order]) == 1
