"""Partial labels and links in ClAM, and its soft assignments."""

import itertools

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

from skdiffclust import ClAM


def blobs(seed=0, n=90, k=3):
    """Return rows of k blobs that lie on each other in part, and which blob."""
    return make_blobs(n, n_features=4, centers=k, cluster_std=4.0, random_state=seed)


@pytest.mark.instances(20)
def test_the_assignment_is_the_best_or_close_to_it(seed):
    X = np.random.RandomState(seed).uniform(size=(7, 2))
    labels = np.array([-1, -1, -1, -1, -1, 5, 9])
    cannot = np.array([[0, 2], [2, 3], [3, 4]])
    model = ClAM(3, max_iter=0, random_state=0)
    model.fit(X, partial_labels=labels, must_link=[[0, 1]], cannot_link=cannot)
    far = np.square(X[:, None] - model.cluster_centers_).sum(axis=2)

    def meets(found):
        parts = all(found[i] != found[j] for i, j in cannot)
        return parts and found[0] == found[1] and found[5] != found[6]

    best = min(
        far[np.arange(7), found].sum()
        for found in map(list, itertools.product(range(3), repeat=7))
        if meets(found)
    )
    assert meets(model.labels_)
    assert far[np.arange(7), model.labels_].sum() <= 1.5 * best


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "manhattan"])
def test_links_are_met(metric, global_random_seed):
    X, y = blobs(global_random_seed)
    rng = np.random.RandomState(global_random_seed)
    pairs = rng.randint(90, size=(40, 2))
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    labels = np.where(rng.uniform(size=90) < 0.2, y, -1)
    model = ClAM(3, metric=metric, random_state=global_random_seed)
    model.fit(X, partial_labels=labels, must_link=pairs[same], cannot_link=pairs[~same])
    found = model.labels_
    must, cannot = pairs[same], pairs[~same]
    assert (found[must[:, 0]] == found[must[:, 1]]).all()
    assert (found[cannot[:, 0]] != found[cannot[:, 1]]).all()
    known = labels >= 0
    assert adjusted_rand_score(y[known], found[known]) == 1.0
    assert (np.diff(np.bincount(found)) <= 0).all()
    # Rows that nothing is known about are where predict puts them.
    free = ~known
    free[pairs] = False
    assert free.any()
    np.testing.assert_array_equal(found[free], model.predict(X)[free])


def test_colouring_is_found_or_refused(global_random_seed):
    X, _ = blobs(global_random_seed)
    ring = np.array([[i, (i + 1) % 6] for i in range(6)])
    found = ClAM(2, random_state=global_random_seed).fit(X, cannot_link=ring).labels_
    assert (found[ring[:, 0]] != found[ring[:, 1]]).all()
    clique = np.array(list(itertools.combinations(range(4), 2)))
    with pytest.raises(ValueError, match="large enough to separate all groups"):
        ClAM(3, random_state=global_random_seed).fit(X, cannot_link=clique)
    four = ClAM(4, random_state=global_random_seed).fit(X, cannot_link=clique).labels_
    assert len(np.unique(four[:4])) == 4


@pytest.mark.parametrize("kind", ["sparse", "missing"])
def test_sparse_and_missing_take_links(kind, global_random_seed):
    X, y = blobs(global_random_seed)
    labels = np.where(np.arange(90) % 4 == 0, y, -1)
    if kind == "sparse":
        X = csr_array(X)
    if kind == "missing":
        X[::7, 2] = np.nan
    model = ClAM(3, random_state=global_random_seed)
    found = model.fit(X, partial_labels=labels).labels_
    assert adjusted_rand_score(y[::4], found[::4]) == 1.0


# At a low inverse temperature, one memory may attract the samples of another.
@pytest.mark.filterwarnings("ignore:ClAM found:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings(
    "ignore:.*are very small:sklearn.exceptions.ConvergenceWarning"
)
@pytest.mark.parametrize("metric", ["euclidean", "cosine", "manhattan"])
def test_proba_is_the_attraction_of_the_memories(metric, global_random_seed):
    X, _ = blobs(global_random_seed)
    model = ClAM(
        3,
        metric=metric,
        weighted=[1.0, 2.0, 0.5],
        inverse_temperature={"euclidean": 0.02, "cosine": 3.0, "manhattan": 0.1}[
            metric
        ],
        max_iter=0,
        random_state=global_random_seed,
    ).fit(X)
    shares = model.predict_proba(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert (shares >= 0).all()
    uncertain = -np.sum(shares * np.log(np.maximum(shares, 1e-300)), axis=1)
    np.testing.assert_allclose(uncertain, model.entropy(X), atol=1e-9)
    np.testing.assert_array_equal(model.predict_proba(X[5:7]), shares[5:7])
    sharp = ClAM(3, metric=metric, random_state=global_random_seed).fit(X)
    agree = sharp.predict_proba(X).argmax(axis=1) == sharp.labels_
    assert agree.mean() > 0.95


@pytest.mark.parametrize("container", [np.asarray, csr_array])
def test_links_across_blobs_join_them(container, global_random_seed):
    X, y = make_blobs(90, centers=[[0, 0], [9, 0], [0, 9]], random_state=0)
    links = np.column_stack([np.flatnonzero(y == 1), np.flatnonzero(y == 2)])
    model = ClAM(2, n_init=1, random_state=global_random_seed)
    labels = model.fit(container(X), must_link=links).labels_
    assert adjusted_rand_score(y == 0, labels) == 1.0
