"""The order by which ties are broken, and the equal samples that it finds."""

import numpy as np
import pytest

from skdiffclust import SpanningForestClustering
from skdiffclust._duplicates import first_equal
from skdiffclust.forests._trees import _boruvka, _duplicates
from skdiffclust.forests._trees._ties import order_of_ties


@pytest.mark.parametrize("n_values", [3, 40])
def test_equal_samples_are_those_of_the_order(n_values, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.integers(0, n_values, (200, 2)).astype(np.float64)
    order, firsts = order_of_ties(X)
    X = X if order is None else X[order]
    assert np.array_equal(firsts, first_equal(X))


@pytest.mark.parametrize("min_samples", [None, 3])
def test_equal_samples_are_looked_for_once(min_samples, monkeypatch):
    X = np.random.default_rng(0).integers(0, 9, (6000, 2)).astype(np.float64)
    forest = SpanningForestClustering(5, min_samples=min_samples).fit(X)

    def refuse(points):
        raise AssertionError("Equal samples are known.")

    monkeypatch.setattr(_duplicates, "first_equal", refuse)
    monkeypatch.setattr(_boruvka, "first_equal", refuse)
    again = SpanningForestClustering(5, min_samples=min_samples).fit(X)
    assert np.array_equal(again.labels_, forest.labels_)
    # Unit vectors may be equal where samples are not.
    with pytest.raises(AssertionError):
        SpanningForestClustering(5, metric="cosine").fit(X + 1)
