"""Mini-batches: every sample once, no last batch of one, one draw per epoch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from skdiffclust._batches import RowsOnDemand, by_batches, mini_batches


@given(
    n_samples=st.integers(1, 60),
    batch_size=st.integers(1, 80),
    seed=st.integers(0, 2**32 - 1),
)
def test_one_epoch_visits_every_row_once(n_samples, batch_size, seed):
    random_state = np.random.RandomState(seed)
    batches = list(mini_batches(n_samples, batch_size, random_state))
    assert all(rows.dtype == np.int64 and rows.ndim == 1 for rows in batches)
    np.testing.assert_array_equal(
        np.sort(np.concatenate(batches)), np.arange(n_samples)
    )
    sizes = [len(rows) for rows in batches]
    assert all(size == batch_size for size in sizes[:-1])
    assert sizes[-1] <= batch_size + 1
    if batch_size > 1 and n_samples > 1:
        assert min(sizes) > 1


@pytest.mark.parametrize(
    "n_samples, batch_size, sizes",
    [
        (7, 3, [3, 4]),  # the last row is merged
        (8, 3, [3, 3, 2]),
        (6, 3, [3, 3]),
        (4, 3, [4]),
        (5, 100, [5]),  # clipped
        (1, 10, [1]),  # one row is all there is
        (3, 1, [1, 1, 1]),  # batches of one were requested
    ],
)
def test_sizes(n_samples, batch_size, sizes, global_random_seed):
    batches = mini_batches(
        n_samples, batch_size, np.random.RandomState(global_random_seed)
    )
    assert [len(rows) for rows in batches] == sizes


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_rows_on_demand_are_those_of_the_array(form):
    X = np.arange(12.0).reshape(6, 2) * (np.arange(6) % 2)[:, None]
    rows = RowsOnDemand(form(X))
    assert rows.shape == (6, 2) and len(rows) == 6 and rows.dtype == X.dtype
    np.testing.assert_array_equal(rows[2:5], X[2:5])
    np.testing.assert_array_equal(rows[[3, 0]], X[[3, 0]])
    doubled = RowsOnDemand(form(X), lambda taken: 2 * taken)
    np.testing.assert_array_equal(by_batches(lambda part: part, doubled, 4), 2 * X)
