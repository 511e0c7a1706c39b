"""Agreement with known classes, against enumeration and scikit-learn."""

import itertools

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import (
    pair_confusion_matrix,
    rand_score,
)

from skdiffclust.metrics import (
    clustering_accuracy,
    connectivity_error,
    pair_precision,
    pair_recall,
)

LABEL_METRICS = [clustering_accuracy, connectivity_error, pair_precision, pair_recall]


def random_labels(seed, n=40):
    """Return classes, some unknown, and clusters of n rows."""
    rng = np.random.default_rng(seed)
    y_true = rng.integers(-1, rng.integers(1, 5), n)
    y_true[0] = 0
    return y_true, rng.integers(-1, rng.integers(1, 7), n)


@pytest.mark.parametrize("seed", range(8))
def test_accuracy_is_the_best_matching(seed, global_random_seed):
    seed += 1000 * global_random_seed
    rng = np.random.default_rng(seed)
    n_classes, n_clusters = rng.integers(1, 5, 2)
    y_true, y_pred = rng.integers(0, n_classes, 30), rng.integers(0, n_clusters, 30)
    # Enough names for clusters that no class is left for, which are then wrong.
    names = range(max(n_classes, n_clusters))
    best = max(
        np.mean(np.array(order)[y_pred] == y_true)
        for order in itertools.permutations(names)
    )
    assert clustering_accuracy(y_true, y_pred) == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_pairs_by_enumeration(seed, global_random_seed):
    seed += 1000 * global_random_seed
    y_true, y_pred = random_labels(seed)
    rows = np.flatnonzero(y_true >= 0)
    in_true = y_true[rows, None] == y_true[rows]
    in_pred = y_pred[rows, None] == y_pred[rows]
    assert connectivity_error(y_true, y_pred) == pytest.approx(
        np.mean(in_true != in_pred), abs=1e-15
    )
    pairs = np.triu_indices(len(rows), 1)
    in_true, in_pred = in_true[pairs], in_pred[pairs]
    hits = (in_true & in_pred).sum()
    if in_pred.any():
        assert pair_precision(y_true, y_pred) == pytest.approx(hits / in_pred.sum())
    if in_true.any():
        assert pair_recall(y_true, y_pred) == pytest.approx(hits / in_true.sum())


@pytest.mark.parametrize("seed", range(4))
def test_pairs_against_scikit_learn(seed, global_random_seed):
    seed += 1000 * global_random_seed
    y_true, y_pred = random_labels(seed, n=300)
    known = y_true >= 0
    n = known.sum()
    assert connectivity_error(y_true, y_pred) == pytest.approx(
        (1 - rand_score(y_true[known], y_pred[known])) * (n - 1) / n
    )
    (_, wrong), (missed, right) = pair_confusion_matrix(y_true[known], y_pred[known])
    assert pair_precision(y_true, y_pred) == pytest.approx(right / (right + wrong))
    assert pair_recall(y_true, y_pred) == pytest.approx(right / (right + missed))


@pytest.mark.parametrize("metric", LABEL_METRICS)
def test_names_of_labels_do_not_matter(metric, global_random_seed):
    y_true, y_pred = random_labels(global_random_seed)
    value = metric(y_true, y_pred)
    assert isinstance(value, float)
    assert metric(y_true, -10 * y_pred + 3) == value
    assert metric(y_true.astype(float), y_pred.astype(np.int8)) == value
    assert metric(pd.Series(y_true), list(y_pred)) == value
    names = np.array(["a", "b", "c", "d", "unknown"])[y_true]
    known = y_true >= 0
    assert metric(names[known], y_pred[known]) == value
    assert metric(names[known].astype(object), y_pred[known]) == value
    marked = [str(name) if name >= 0 else -1 for name in y_true]
    assert metric(marked, y_pred) == value
    assert metric(np.array(marked, dtype=object), y_pred) == value


@pytest.mark.parametrize("metric", LABEL_METRICS)
def test_perfect_partition(metric):
    y_true = np.array([0, 0, 1, 2, -1, 2])
    expected = 0.0 if metric is connectivity_error else 1.0
    assert metric(y_true, np.array([7, 7, 5, 6, 5, 6])) == expected
    assert metric([4], ["x"]) == expected


def test_degenerate_partitions():
    y_true = np.repeat([0, 1], 50)
    one, singletons = np.zeros(100), np.arange(100)
    assert clustering_accuracy(y_true, one) == 0.5
    assert clustering_accuracy(y_true, singletons) == 0.02
    assert connectivity_error(y_true, one) == 0.5
    assert connectivity_error(y_true, singletons) == pytest.approx(0.49)
    # No link is wrong where there is none, and none is missed.
    assert pair_precision(y_true, singletons) == 1.0
    assert pair_recall(singletons, y_true) == 1.0
    assert pair_recall(y_true, one) == 1.0
    assert pair_recall(y_true, singletons) == 0.0


def test_pairs_of_a_million_rows_do_not_overflow():
    n = 10**6
    y_true = np.arange(n) % 2
    expected = 0.5
    assert connectivity_error(y_true, np.zeros(n)) == expected
    assert connectivity_error(y_true.astype(np.int8), np.zeros(n, np.int8)) == expected


@pytest.mark.parametrize("metric", LABEL_METRICS)
@pytest.mark.parametrize(
    "y_true, y_pred, message",
    [
        ([0, 1], [0], "one entry for each sample. Got 2 and 1 entries"),
        ([[0], [1]], [0, 1], r"'y_true' .* 1-D.* Got an array of shape \(2, 1\)"),
        ([0, 1], 3, r"'y_pred' .* 1-D.* Got an array of shape \(\)"),
        (
            [-1, -1],
            [0, 1],
            "'y_true' .* at least one known class. Got only -1",
        ),
        ([], [], "'y_true' .* at least one known class"),
        ([0, np.nan], [0, 1], "'y_true' .* not contain NaN. Got NaN in sample 1"),
        ([0, 1], [np.nan, 1], "'y_pred' .* not contain NaN. Got NaN in sample 0"),
        (np.ma.masked_equal([0, 1], 1), [0, 1], "'y_true' .* Got a masked array"),
    ],
)
def test_labels_refused(metric, y_true, y_pred, message):
    with pytest.raises(ValueError, match=message) as error:
        metric(y_true, y_pred)
    assert metric.__name__ in str(error.value)
