"""A tree, its hierarchy and a cut, entered without the estimator."""

import warnings
from dataclasses import fields

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import cdist
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning

from skdiffclust import SpanningForestClustering
from skdiffclust.forests import SpanningTree, minimum_spanning_tree


@pytest.fixture
def X(global_random_seed):
    return make_blobs(150, centers=4, n_features=3, random_state=global_random_seed)[0]


@pytest.mark.parametrize("cut_rule", ["size_weighted", "longest"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
def test_tree_hierarchy_and_cut_are_the_fit(cut_rule, weighted, metric, X):
    weights = np.random.RandomState(0).uniform(1, 3, len(X)) if weighted else None
    rule = {"cut_rule": cut_rule, "min_cluster_size": 4}
    hierarchy = minimum_spanning_tree(X, metric=metric).hierarchy(
        sample_weight=weights, **rule
    )
    for k in (1, 3, 6, "auto"):
        model = SpanningForestClustering(k, metric=metric, **rule)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, sample_weight=weights)
            cut = hierarchy.cut(k, samples=X if metric == "euclidean" else None)
        assert_array_equal(cut.labels, model.labels_)
        assert_array_equal(cut.edges, model.forest_edges_)
        assert cut.n_clusters == model.n_clusters_
        assert cut.distance == model.cut_distance_
        assert_array_equal(cut.candidates, model.n_clusters_candidates_)
        assert cut.p_value == model.structure_p_value_
        curve = model.n_clusters_curve_
        assert_array_equal(hierarchy.curve(cut)["score"], curve["score"])
    threshold = float(np.median(hierarchy.tree.lengths))
    model.set_params(n_clusters=None, distance_threshold=threshold)
    model.fit(X, sample_weight=weights)
    cut = hierarchy.cut(distance_threshold=threshold)
    assert_array_equal(cut.labels, model.labels_)
    assert hierarchy.curve(cut) is None


def test_the_order_of_cuts_is_that_of_the_labels(X):
    hierarchy = minimum_spanning_tree(X).hierarchy()
    positions, scores, _ = hierarchy.first_cuts(8)
    assert (np.diff(scores) <= 0).all()
    for k in range(1, 9):
        cut = hierarchy.cut(k)
        left = np.delete(hierarchy.tree.edges, positions[: k - 1], axis=0)
        assert_array_equal(cut.edges, left)
        assert (cut.labels[left[:, 0]] == cut.labels[left[:, 1]]).all()


@pytest.mark.parametrize("is_ascending", [False, True])
def test_a_tree_of_others_in_any_order(is_ascending, X):
    merges = linkage(X, "single")
    grown = minimum_spanning_tree(X)
    order = np.random.RandomState(0).permutation(len(X) - 1)
    if is_ascending:
        order = np.argsort(grown.lengths)
    tree = SpanningTree(grown.edges[order, ::-1].tolist(), grown.lengths[order])
    hierarchy = tree.hierarchy()
    assert_array_equal(hierarchy.cut(3).labels, grown.hierarchy().cut(3).labels)
    np.testing.assert_allclose(hierarchy.linkage[:, 2], merges[:, 2])
    condensed = hierarchy.condensed_tree(5)
    fitted = SpanningForestClustering().fit(X).condensed_tree(5)
    assert_array_equal(condensed.labels(), fitted.labels())


def test_edges_that_may_not_be_cut_stay():
    tree = SpanningTree([[2, 3], [1, 2], [0, 1]], [3.0, 2.0, 1.0], [False, True, True])
    hierarchy = tree.hierarchy(cut_rule="longest")
    assert hierarchy.cut(2).labels.tolist() == [0, 0, 1, 1]
    with pytest.warns(ConvergenceWarning, match="3 of 4 clusters"):
        hierarchy.cut(4)


def test_one_sample_is_a_tree():
    cut = SpanningTree([], []).hierarchy().cut(1)
    assert cut.labels.tolist() == [0]
    assert cut.distance == np.inf


def held(value, seen):
    """Yield the arrays that a value refers to, and the values in between."""
    if id(value) in seen or value is None:
        return
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        yield value
        if value.base is not None:
            yield from held(value.base, seen)
    elif hasattr(value, "__dataclass_fields__"):
        for field in fields(value):
            yield from held(getattr(value, field.name), seen)


@pytest.mark.filterwarnings("ignore:n_clusters='auto' takes")
def test_no_training_rows_are_kept():
    X, _ = make_blobs(150, centers=4, n_features=3, random_state=2)
    model = SpanningForestClustering("auto").fit(X)
    for value in (model.hierarchy_, model.hierarchy_.cut("auto", samples=X)):
        arrays = list(held(value, set()))
        assert len(arrays) > 3
        # Edges have two columns, and a linkage four; samples here three.
        assert {array.shape[1] for array in arrays if array.ndim > 1} <= {2, 4}
        assert not any(np.shares_memory(array, X) for array in arrays)


def test_weightless_samples_are_as_if_they_were_absent(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.integers(0, 6, size=(80, 3)).astype(float)  # with ties
    weights = rng.integers(0, 3, 80).astype(float)
    kept = np.flatnonzero(weights)
    model = SpanningForestClustering(4).fit(X, sample_weight=weights)
    alone = SpanningForestClustering(4).fit(X[kept], sample_weight=weights[kept])
    assert model.n_leaves_ == len(kept)
    assert_array_equal(model.labels_, alone.predict(X))
    assert_array_equal(model.labels_[kept], alone.labels_)
    assert_array_equal(model.edges_, kept[alone.edges_])
    assert_array_equal(model.forest_edges_, kept[alone.forest_edges_])
    assert_array_equal(model.linkage_, alone.linkage_)
    assert_array_equal(model.cut(2)[kept], alone.cut(2))
    assert_array_equal(model.outlier_scores_[kept], alone.outlier_scores_)
    condensed, expected = model.condensed_tree(), alone.condensed_tree()
    assert_array_equal(condensed.labels(), expected.labels())


def test_a_far_sample_without_weight_is_an_outlier(X):
    X = np.concatenate([X, [[1e3, 0.0, 0.0]]])
    weights = np.r_[np.ones(len(X) - 1), 0.0]
    model = SpanningForestClustering(4).fit(X, sample_weight=weights)
    assert model.outlier_scores_[-1] > 0.95
    assert model.find_outliers(0.01)[-1]
    assert model.cut(4, max_outlier_score=0.95)[-1] == -1


@pytest.mark.parametrize(
    "edges, lengths, message",
    [
        ([[0, 1], [0, 1]], [1.0, 1.0], "must connect all samples"),
        ([[0, 1], [1, 7]], [1.0, 1.0], "must connect all samples"),
        ([[0, 1], [1, 2]], [1.0, np.nan], "and no NaN"),
        ([[0, 1], [1, 2]], [1.0], "must have shapes"),
        ([[0, 1], [1, 2]], [1.0, -1.0], "'cut_rule' parameter must be 'longest'"),
    ],
)
def test_what_is_no_tree_is_refused(edges, lengths, message):
    with pytest.raises(ValueError, match=message):
        SpanningTree(edges, lengths).hierarchy()


@pytest.mark.parametrize("weights", [[1, 1, 0], [1, 1], [1, 1, -1], [1, 1, np.nan]])
def test_weights_that_a_tree_cannot_have(weights):
    tree = minimum_spanning_tree([[0.0], [1.0], [3.0]])
    with pytest.raises(ValueError, match="hierarchy must be 3 positive numbers"):
        tree.hierarchy(sample_weight=weights)


def test_weights_that_are_few_are_a_warning():
    tree = minimum_spanning_tree([[0.0], [1.0], [3.0]])
    with pytest.warns(UserWarning, match="Divide the weights by their mean"):
        tree.hierarchy(sample_weight=[0.1, 0.1, 0.1])
    with pytest.raises(ValueError, match="have a sum of 1e-100"):
        tree.hierarchy(sample_weight=[1e-200, 1e-200, 1e-200])


def test_requests_that_cannot_be():
    hierarchy = minimum_spanning_tree(cdist(np.eye(3), np.eye(3))).hierarchy()
    for arguments, message in (
        ({}, "Got None instead"),
        ({"n_clusters": 4}, "n_samples=3. Got 4"),
        ({"n_clusters": 2, "distance_threshold": 1.0}, "must be None where"),
        ({"n_clusters": 0}, "Got 0 instead"),
    ):
        with pytest.raises(ValueError, match=f"'n_clusters' parameter.*{message}"):
            hierarchy.cut(**arguments)
