"""Initial models: k-means, improved partitions, and models of their cells."""

import warnings
from itertools import product

import numpy as np
import pytest
from gemini_assignments import objective_of, trained
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris, load_wine, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import scale

from skdiffclust import GEMINI
from skdiffclust.datasets import make_celeux_one
from skdiffclust.gemini import gemini_score
from skdiffclust.gemini._models import MODELS
from skdiffclust.gemini._starts import (
    ascend,
    family_of_cells,
    start_partitions,
)


def data(seed, n=40, d=3):
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n, d)) * rng.uniform(0.5, 2, d)
    weights = rng.uniform(0.5, 1.5, n)
    weights /= weights.sum()
    return X - weights @ X, weights, rng


def hard(labels, n_clusters):
    return np.eye(n_clusters)[labels]


def test_the_draws_do_not_depend_on_the_order_and_weights_are_copies():
    X, _, _ = data(0, n=30)
    counts = np.random.RandomState(1).randint(0, 4, 30)
    order = np.random.RandomState(2).permutation(30)
    found = [
        start_partitions(rows, w / w.sum(), 3, np.random.RandomState(5))
        for rows, w in (
            (X, counts),
            (X[order], counts[order]),
            (np.repeat(X, counts, axis=0), np.ones(counts.sum())),
        )
    ]
    first = found[0][0]
    assert_array_equal(found[1][0], first[order])
    assert_array_equal(found[2][0], np.repeat(first, counts))


@pytest.mark.parametrize("mode", ["ova", "ovo"])
def test_cells_never_lose_to_the_partition_they_start_from(mode, global_random_seed):
    X, weights, rng = data(global_random_seed)
    improved = 0
    for labels in rng.randint(3, size=(20, 40)):
        start = start_partitions(X, weights, 3, rng)[0]
        for first in (start, labels):
            value, W, b = ascend(X, weights, first, 3, mode)
            before = score(X, weights, first, 3, mode)
            assert value >= before * (1 - 1e-12)
            # What is returned are cells that have this value.
            cells = (X @ W + b).argmax(axis=1)
            assert_allclose(score(X, weights, cells, 3, mode), value, rtol=1e-9)
            # Also where the partition cannot be improved any more.
            again, W, b = ascend(X, weights, cells, 3, mode)
            cells = (X @ W + b).argmax(axis=1)
            assert_allclose(score(X, weights, cells, 3, mode), again, rtol=1e-9)
            improved += value > before * (1 + 1e-9)
    assert improved > 5


def score(X, weights, labels, k, mode):
    """The definition, written once more: distances between weighted means."""
    share = np.array([weights[labels == c].sum() for c in range(k)])
    means = np.array(
        [
            weights[labels == c] @ X[labels == c] / max(share[c], 1e-300)
            for c in range(k)
        ]
    )
    if mode == "ova":
        return float(share @ np.linalg.norm(means, axis=1))
    return float(
        sum(
            share[i] * share[j] * np.linalg.norm(means[i] - means[j])
            for i, j in product(range(k), repeat=2)
            if share[i] and share[j]
        )
    )


def test_one_against_all_reaches_the_best_partition_of_few_samples():
    # The best of all 3^8 partitions, from every one of them.
    X, weights, _ = data(3, n=8, d=2)
    every = np.array(list(product(range(3), repeat=8)))
    best = max(score(X, weights, labels, 3, "ova") for labels in every)
    found = max(ascend(X, weights, labels, 3, "ova")[0] for labels in every[::7])
    assert_allclose(found, best, rtol=1e-9)


@pytest.mark.parametrize("kind", ["linear", "skip", "mlp"])
def test_models_have_the_logits_of_the_cells(kind, global_random_seed):
    X, _, rng = data(global_random_seed)
    sizes = [3, 4] if kind == "linear" else [3, 9, 8, 4]
    template = MODELS[kind].with_random_weights(sizes, rng, np.float64)
    before = [array.copy() for array in template.arrays]
    W, b = rng.normal(size=(3, 4)), rng.normal(size=4)
    for factor in (1.0, 7.0):
        model = family_of_cells(kind, W, b, template)(factor)
        assert_allclose(model.outputs(X), factor * (X @ W + b), atol=1e-9)
        for array in model.arrays:
            array += 1.0
    for array, old in zip(template.arrays, before, strict=True):
        assert_array_equal(array, old)


DATA = [
    scale(load_wine().data),
    load_iris().data,
    make_celeux_one(1, random_state=0).X,
    make_celeux_one(3, random_state=0).X,
]


@pytest.mark.parametrize("mode", ["ova", "ovo"])
@pytest.mark.parametrize("number", range(len(DATA)))
@pytest.mark.parametrize("model", ["linear", "mlp", "free"])
def test_gemini_is_not_below_k_means(model, number, mode):
    X = DATA[number] - DATA[number].mean(axis=0)
    gemini = GEMINI(3, mode=mode, model=model, n_init=1, max_iter=100, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        gemini.fit(X)
    P = gemini.assignments_ if model == "free" else trained(gemini, X)
    for seed in range(3):
        labels = KMeans(3, n_init=10, random_state=seed).fit_predict(X)
        bound = gemini_score(hard(labels, 3), X, mode=mode)
        assert gemini_score(P, X, mode=mode) >= (1 - 1e-3) * bound


@pytest.mark.parametrize("mode", ["ova", "ovo"])
def test_links_that_a_partition_satisfies_need_no_training(mode, global_random_seed):
    X, _ = make_blobs(200, 4, centers=4, cluster_std=3, random_state=global_random_seed)
    gemini = GEMINI(4, mode=mode, random_state=0)
    free = clone(gemini).fit(X)
    pairs = np.random.RandomState(global_random_seed).randint(200, size=(6, 2))
    first, second = pairs[pairs[:, 0] != pairs[:, 1]].T
    joined = free.labels_[first] == free.labels_[second]
    links = {
        "must_link": np.column_stack([first, second])[joined],
        "cannot_link": np.column_stack([first, second])[~joined],
    }
    trained = clone(gemini).set_params(l2=1e-12, max_iter=300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        linked = clone(gemini).fit(X, **links)
        trained.fit(X, **links)
    assert_array_equal(linked.labels_[first] == linked.labels_[second], joined)
    if linked.n_iter_ == 1:
        assert objective_of(linked, X) >= (1 - 1e-6) * objective_of(trained, X)
    # Links between clusters are broken by the partition.
    X, y = make_blobs(120, centers=4, cluster_std=0.5, random_state=global_random_seed)
    one, other = np.flatnonzero(y == 0)[0], np.flatnonzero(y == 1)[0]
    gemini.set_params(n_init=1, max_iter=20)
    with pytest.warns(ConvergenceWarning, match="GEMINI separates 1 groups"):
        assert gemini.fit(X, must_link=[[one, other]]).n_iter_ > 1


def test_other_objectives_may_keep_the_partition_of_k_means():
    X, y = make_blobs(60, centers=3, cluster_std=0.5, random_state=2)
    for params in (
        {"objective": "wasserstein"},
        {"kernel": "rbf", "gamma": "scale"},
        {"objective": "hellinger", "l2": 1e-4},
    ):
        gemini = GEMINI(3, n_init=1, max_iter=30, random_state=0, **params)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            assert adjusted_rand_score(y, gemini.fit(X).labels_) > 0.95


def test_too_few_hidden_units_start_at_random():
    X, _ = make_blobs(60, random_state=0)
    gemini = GEMINI(3, model="mlp", hidden_layer_sizes=5, max_iter=5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        soft = gemini.fit(X).history_["objective"]
        hard = gemini.set_params(hidden_layer_sizes=6).fit(X).history_["objective"]
    # A start at random is far from the objective of a hard partition.
    assert len(soft) <= 5
    assert soft[0] < 0.5 * hard[0]


@pytest.mark.parametrize("mode", ["ova", "ovo"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_links_across_blobs_join_them(mode, kernel, global_random_seed):
    X, y = make_blobs(90, centers=[[0, 0], [9, 0], [0, 9]], random_state=0)
    links = np.column_stack([np.flatnonzero(y == 1), np.flatnonzero(y == 2)])
    model = GEMINI(2, mode=mode, kernel=kernel, n_init=1)
    model.set_params(random_state=global_random_seed).fit(X, must_link=links)
    assert adjusted_rand_score(y == 0, model.labels_) == 1.0
