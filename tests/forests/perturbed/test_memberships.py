"""Memberships and consensus of cuts under noise."""

from itertools import permutations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial.distance import cdist
from sklearn.callback import ProgressBar
from sklearn.datasets import make_blobs, make_moons

from skdiffclust import SpanningForestClustering
from skdiffclust._neighbors import neighbors_graph
from skdiffclust.forests._perturbed import _memberships


def touching(seed=0, n_samples=120):
    """Return three blobs that touch."""
    centers = [[0, 0], [4, 0], [0, 4]]
    return make_blobs(n_samples, centers=centers, random_state=seed)[0]


def fitted(X, n_clusters=3, n_perturbations=30, **params):
    return SpanningForestClustering(
        n_clusters, n_perturbations=n_perturbations, random_state=0, **params
    ).fit(X)


# ------------------------------------------------------------------ draws


def test_tree_under_noise_is_that_of_the_noisy_lengths():
    X = touching(n_samples=40)
    first, second = np.triu_indices(len(X), 1)
    edges = np.column_stack([first, second])
    lengths = np.linalg.norm(X[first] - X[second], axis=1)
    rng = np.random.RandomState(3)
    tree = _memberships.perturbed_tree(edges, lengths, len(X), 0.4, rng)
    z = np.random.RandomState(3).standard_normal(len(lengths))
    noisy = np.zeros((len(X), len(X)))
    noisy[first, second] = lengths * np.exp(0.4 * z)
    expected = minimum_spanning_tree(csr_array(noisy)).tocoo()
    pairs = np.column_stack([expected.row, expected.col])
    assert {*map(tuple, tree.edges.tolist())} == {*map(tuple, pairs.tolist())}
    assert_allclose(np.sort(tree.lengths), np.sort(expected.data))
    assert (np.diff(tree.lengths) <= 0).all()


def test_matching_is_the_best_permutation():
    rng = np.random.RandomState(0)
    labels = rng.randint(4, size=50)
    draws = rng.randint(4, size=(3, 50))
    weights = rng.rand(50)
    found = _memberships.memberships_of(draws, labels, 4, weights)
    expected = np.zeros((50, 4))
    for draw in draws:
        best = max(
            permutations(range(4)),
            key=lambda p: weights[np.array(p)[draw] == labels].sum(),
        )
        expected[np.arange(50), np.array(best)[draw]] += 1
    assert_allclose(found, expected / 3)


# ------------------------------------------------------------------ the estimator


@pytest.mark.parametrize("consensus", [False, True])
def test_memberships_sum_to_one_and_agree_where_sure(consensus):
    X = np.concatenate([touching(), [[30.0, 30.0], [2.0, -9.0]]])
    forest = fitted(X, consensus=consensus)
    P = forest.memberships_
    assert P.shape == (len(X), 3)
    assert_allclose(P.sum(axis=1), 1)
    assert (P >= 0).all()
    sure = P.max(axis=1) > 0.9
    assert 0.3 < sure.mean() < 1
    assert_array_equal(P[sure].argmax(axis=1), forest.labels_[sure])
    assert_array_equal(forest.predict(X), forest.labels_)
    assert (np.diff(np.bincount(forest.labels_)) <= 0).all()


def test_consensus_is_the_largest_membership():
    X = touching(2)
    forest = fitted(X, consensus=True)
    assert_array_equal(forest.memberships_.argmax(axis=1), forest.labels_)
    new = touching(3)
    assert_array_equal(forest.predict_proba(new).argmax(axis=1), forest.predict(new))
    assert_array_equal(forest.predict_proba(X), forest.memberships_)
    again = fitted(X, consensus=True)
    assert_array_equal(again.memberships_, forest.memberships_)
    X = touching(0, 300)
    assert (fitted(X, consensus=True).labels_ != fitted(X).labels_).any()
    assert_array_equal(fitted(X).labels_, SpanningForestClustering(3).fit(X).labels_)


def test_memberships_are_frequencies_of_other_draws():
    X = touching(0, 300)
    P = fitted(X, n_perturbations=200).memberships_
    held_out = fitted(X, n_perturbations=200).set_params(random_state=1)
    Q = held_out.fit(X).memberships_
    assert not np.array_equal(P, Q)
    for low, high in ((0.0, 0.1), (0.1, 0.5), (0.5, 0.9), (0.9, 1.0)):
        inside = (P >= low) & (P <= high)
        assert inside.sum() > 20
        assert abs(P[inside].mean() - Q[inside].mean()) < 0.04


def test_little_noise_changes_nothing():
    X, _ = make_moons(100, noise=0.04, random_state=0)
    for consensus in (False, True):
        forest = fitted(X, 2, edge_noise=1e-6, consensus=consensus)
        assert_array_equal(forest.memberships_, np.eye(2)[forest.labels_])


def test_equal_samples_have_equal_memberships():
    X = np.repeat(touching(5, 60), 3, axis=0)
    forest = fitted(X, consensus=True)
    assert_array_equal(forest.memberships_[::3], forest.memberships_[1::3])
    assert_array_equal(forest.memberships_[::3], forest.memberships_[2::3])


def test_unit_and_container_do_not_matter():
    X = touching(6)
    forest = fitted(X)
    assert_allclose(fitted(1024 * X).memberships_, forest.memberships_)
    D = cdist(X, X)
    given = fitted(D, metric="precomputed")
    assert_allclose(given.memberships_, forest.memberships_, atol=0.25)
    assert_array_equal(given.labels_, forest.labels_)
    graph = neighbors_graph(X, 20)
    sparse = fitted(graph, metric="precomputed")
    assert_allclose(sparse.memberships_.sum(axis=1), 1)
    assert_allclose(fitted(X, min_samples=4).memberships_.sum(axis=1), 1)
    assert fitted([[0.0], [1.0], [7.0]], 3).memberships_.tolist() == np.eye(3).tolist()
    assert fitted([[0.0]], 1).memberships_.tolist() == [[1.0]]


@pytest.mark.parametrize("consensus", [False, True])
def test_samples_of_weight_zero_follow_their_nearest(consensus):
    X = touching(7)
    weights = np.ones(len(X))
    weights[::5] = 0
    params = {"n_perturbations": 30, "consensus": consensus, "random_state": 0}
    forest = SpanningForestClustering(3, **params).fit(X, sample_weight=weights)
    kept = weights > 0
    others = SpanningForestClustering(3, **params).fit(X[kept])
    assert_array_equal(forest.memberships_[kept], others.memberships_)
    nearest = cdist(X[~kept], X[kept]).argmin(axis=1)
    assert_array_equal(forest.memberships_[~kept], others.memberships_[nearest])
    assert_array_equal(forest.predict(X), forest.labels_)


def test_refused():
    X = touching()
    with pytest.raises(ValueError, match="must be 0 with constraints. Got 30 instead"):
        SpanningForestClustering(3, n_perturbations=30).fit(X, must_link=[[0, 1]])
    with pytest.raises(ValueError, match="must be positive with consensus=True"):
        SpanningForestClustering(3, consensus=True).fit(X)
    with pytest.raises(ValueError, match="must be 0 with a distance_threshold"):
        fitted(X, None, distance_threshold=1.0)
    with pytest.raises(ValueError, match="must be 0 where distances are negative"):
        fitted(-cdist(X, X), metric="precomputed", cut_rule="longest")
    forest = fitted(X)
    with pytest.raises(AttributeError) as error:
        forest.predict_proba(X)
    assert "only with consensus=True" in str(error.value.__cause__)
    assert not hasattr(SpanningForestClustering().fit(X), "memberships_")
    assert not hasattr(forest.set_params(n_perturbations=0).fit(X), "memberships_")


# ------------------------------------------------------------------ callbacks


class Recorder:
    """A callback that writes down its tasks, and may stop them."""

    def __init__(self, stop_after=None):
        self.tasks = []
        self.stop_after = stop_after

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        self.tasks.append(context.task_name)
        return self.tasks.count("perturbation") == self.stop_after


def test_progress_of_perturbations():
    X = touching()
    recorder = Recorder()
    forest = SpanningForestClustering(3, n_perturbations=7, random_state=0)
    forest.set_callbacks(recorder, ProgressBar()).fit(X)
    assert recorder.tasks == ["tree", *["perturbation"] * 7, "fit"]


def test_a_callback_may_stop_perturbations():
    X = touching()
    forest = SpanningForestClustering(3, n_perturbations=50, random_state=0)
    forest.set_callbacks(Recorder(stop_after=8)).fit(X)
    assert_array_equal(forest.memberships_, fitted(X, n_perturbations=8).memberships_)
