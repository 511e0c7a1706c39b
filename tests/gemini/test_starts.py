"""Initial models: k-means, improved partitions, and models of their cells."""

import warnings
from itertools import product

import numpy as np
import pytest
from gemini_assignments import Ending, objective_of
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris, load_wine, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import scale

from skdiffclust import GEMINI, SparseGEMINI
from skdiffclust.datasets import make_celeux_one
from skdiffclust.gemini import gemini_score


@pytest.mark.parametrize("mode", ["ova", "ovo"])
def test_the_best_partition_of_few_samples_is_found(mode):
    # The best of all 3^5 partitions, but for names.
    every = [np.eye(3)[[0, *rest]] for rest in product(range(3), repeat=5)]
    n_found = 0
    for seed in range(4):
        X = np.random.RandomState(seed).normal(size=(6, 2))
        best = max(gemini_score(hard, X, mode=mode) for hard in every)
        gemini = GEMINI(3, mode=mode, random_state=0).fit(X)
        found = gemini_score(np.eye(3)[gemini.labels_], X, mode=mode)
        assert found >= 0.95 * best
        assert_allclose(objective_of(gemini, X), found, rtol=1e-6)
        n_found += found >= best * (1 - 1e-9)
    assert n_found >= 3


def test_the_start_depends_on_no_order_and_weights_are_copies():
    X = np.random.RandomState(0).normal(size=(30, 3))
    counts = np.random.RandomState(1).randint(0, 4, 30)
    order = np.random.RandomState(2).permutation(30)
    gemini = GEMINI(3, random_state=0)
    labels = gemini.fit(X, sample_weight=counts).labels_
    moved = gemini.fit(X[order], sample_weight=counts[order]).labels_
    assert adjusted_rand_score(moved, labels[order]) == 1
    repeated = gemini.fit(np.repeat(X, counts, axis=0)).labels_
    assert_array_equal(repeated, np.repeat(labels, counts))


@pytest.mark.few_epochs
@pytest.mark.parametrize("mode", ["ova", "ovo"])
@pytest.mark.parametrize(
    "X",
    [
        scale(load_wine().data),
        load_iris().data,
        make_celeux_one(1, random_state=0).X,
        make_celeux_one(3, random_state=0).X,
    ],
    ids=["wine", "iris", "celeux 1", "celeux 3"],
)
def test_no_model_is_below_k_means(X, mode):
    labels = [KMeans(3, n_init=10, random_state=i).fit_predict(X) for i in range(3)]
    bound = max(gemini_score(np.eye(3)[each], X, mode=mode) for each in labels)
    params = {"mode": mode, "n_init": 1, "random_state": 0}
    for model in (
        GEMINI(3, **params),
        GEMINI(3, model="free", max_iter=100, **params),
        GEMINI(3, model="mlp", hidden_layer_sizes=(8, 6), max_iter=5, **params),
        SparseGEMINI(3, **params),
        SparseGEMINI(3, model="mlp", hidden_layer_sizes=8, max_iter=5, **params),
    ):
        if isinstance(model, SparseGEMINI):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                found = model.path(X, alpha_multiplier=3.0).labels[0]
        else:
            found = model.fit(X).labels_
        assert gemini_score(np.eye(3)[found], X, mode=mode) >= (1 - 1e-3) * bound


def epochs(model, X, **known):
    """Return how many models are trained, each for one epoch."""
    counter = Ending(10**9)
    model = clone(model).set_params(max_iter=1).set_callbacks(counter)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, **known)
    # Tasks are an epoch and a restart of each, unless there is but one, and the fit.
    return (10**9 - counter.n_left) // 2


def test_of_many_samples_one_restart_is_trained():
    X, y = make_blobs(20_100, centers=4, n_features=3, random_state=2)
    # Without a penalty, the partition of k-means, searched on some, is the only one.
    gemini = GEMINI(4, random_state=0)
    assert epochs(gemini, X) == 1
    assert adjusted_rand_score(y, gemini.fit(X).labels_) > 0.95
    gemini.set_params(l2=1e-5)
    assert epochs(gemini, X) == 2
    # More with links, in batches, or of fewer samples, not counting those of weight 0.
    known = np.where(np.arange(len(X)) < 9, y, -1)
    assert epochs(gemini, X, partial_labels=known) == 4
    assert epochs(gemini, X, sample_weight=np.arange(len(X)) > 200) == 4
    assert epochs(gemini.set_params(batch_size=9000), X) == 4


def test_too_few_hidden_units_start_at_random():
    X, _ = make_blobs(60, random_state=0)
    gemini = GEMINI(3, model="mlp", random_state=0)
    assert epochs(gemini.set_params(hidden_layer_sizes=5), X) == 3
    assert epochs(gemini.set_params(hidden_layer_sizes=6), X) == 4


@pytest.mark.few_epochs
@pytest.mark.parametrize(
    "params",
    [
        {"objective": "wasserstein"},
        {"kernel": "rbf", "gamma": "scale"},
        {"objective": "hellinger", "l2": 1e-4},
    ],
    ids=str,
)
def test_other_objectives_may_keep_the_partition_of_k_means(params):
    X, y = make_blobs(60, centers=3, cluster_std=0.5, random_state=2)
    gemini = GEMINI(3, n_init=1, max_iter=30, random_state=0, **params)
    assert adjusted_rand_score(y, gemini.fit(X).labels_) > 0.95


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


@pytest.mark.parametrize("mode", ["ova", "ovo"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_links_across_blobs_join_them(mode, kernel, global_random_seed):
    X, y = make_blobs(90, centers=[[0, 0], [9, 0], [0, 9]], random_state=0)
    links = np.column_stack([np.flatnonzero(y == 1), np.flatnonzero(y == 2)])
    model = GEMINI(2, mode=mode, kernel=kernel, n_init=1)
    model.set_params(random_state=global_random_seed).fit(X, must_link=links)
    assert adjusted_rand_score(y == 0, model.labels_) == 1.0
