"""The condensed tree, by components at every length and by scikit-learn's HDBSCAN."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist
from sklearn.cluster import HDBSCAN
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

from skdiffclust import SpanningForestClustering


def noisy_blobs(seed, n_samples=60):
    X, _ = make_blobs(n_samples, centers=4, random_state=seed)
    noise = np.random.RandomState(seed).uniform(-15, 15, (n_samples // 6, 2))
    return np.concatenate([X, noise])


def components_at(D, members, length):
    """Return the parts of `members` that edges shorter than `length` join."""
    inside = D[np.ix_(members, members)]
    graph = (inside < length) & ~np.eye(len(members), dtype=bool)
    n_parts, part = connected_components(graph, directed=False)
    return [members[part == p] for p in range(n_parts)]


def by_components(D, min_size):
    """Return the condensed tree as {(samples of the cluster)}: {node: density}.

    A node is a sample, or the frozenset of the samples of a cluster.
    """
    found = {}

    def grow(members):
        name = frozenset(members)
        found[name] = {}
        rest = members
        lengths = np.unique(D[np.ix_(members, members)])[:0:-1]
        for length in lengths:
            parts = components_at(D, rest, length)
            large = [part for part in parts if len(part) >= min_size]
            for part in parts:
                if len(part) < min_size:
                    found[name].update(dict.fromkeys(part.tolist(), 1 / length))
            if len(large) != 1:
                for part in large:
                    found[name][frozenset(part)] = 1 / length
                    grow(part)
                return
            rest = large[0]

    grow(np.arange(len(D)))
    return found


def samples_below(tree):
    """Return {cluster: frozenset of its samples}."""
    below = {c: set() for c in np.unique(tree.parent)}
    # Samples first, then clusters, those deepest in the tree first.
    order = np.append(
        np.arange(tree.n_samples), np.arange(tree.n_samples, len(tree.child))[::-1]
    )
    for parent, child in zip(tree.parent[order], tree.child[order], strict=True):
        below[parent] |= {child} if child < tree.n_samples else below[child]
    return {c: frozenset(map(int, members)) for c, members in below.items()}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("min_size", [2, 4, 9])
def test_tree_of_components(seed, min_size):
    X = noisy_blobs(seed, 30)
    tree = SpanningForestClustering(2).fit(X).condensed_tree(min_size)
    below = samples_below(tree)
    found = {members: {} for members in below.values()}
    for parent, child, density, size in zip(
        tree.parent, tree.child, tree.density, tree.size, strict=True
    ):
        node = int(child) if child < len(X) else below[child]
        found[below[parent]][node] = density
        assert size == (1 if child < len(X) else len(below[child]))
    expected = by_components(cdist(X, X), min_size)
    assert found.keys() == expected.keys()
    for members in expected:
        assert found[members].keys() == expected[members].keys()
        for node, density in expected[members].items():
            assert_allclose(found[members][node], density, rtol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_stability_and_glosh_by_definition(seed):
    X = noisy_blobs(seed, 30)
    tree = SpanningForestClustering(2).fit(X).condensed_tree(4)
    expected = by_components(cdist(X, X), 4)
    birth = {frozenset(range(len(X))): 0.0}
    for nodes in expected.values():
        birth |= {node: d for node, d in nodes.items() if isinstance(node, frozenset)}
    below = samples_below(tree)
    for cluster, members in below.items():
        at = cluster - len(X)
        nodes = expected[members]
        mass = sum(
            (density - birth[members]) * (len(n) if isinstance(n, frozenset) else 1)
            for n, density in nodes.items()
        )
        assert_allclose(tree.stability[at], mass, rtol=1e-9)
        densest = max(max(expected[m].values()) for m in expected if m <= members)
        for node, density in nodes.items():
            if not isinstance(node, frozenset):
                score = 1 - density / densest
                assert_allclose(tree.outlier_scores[node], score, atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("min_size", [5, 12])
@pytest.mark.parametrize(
    ("method", "theirs"), [("excess_of_mass", "eom"), ("leaf", "leaf")]
)
def test_labels_are_those_of_hdbscan(seed, min_size, method, theirs):
    X = noisy_blobs(seed, 240)
    # Of two samples, one is the sample itself: no core distance exceeds a length.
    hdbscan = HDBSCAN(
        min_cluster_size=min_size,
        min_samples=2,
        cluster_selection_method=theirs,
        copy=True,
    ).fit(X)
    tree = SpanningForestClustering(2).fit(X).condensed_tree(min_size)
    labels = tree.labels(method)
    assert adjusted_rand_score(hdbscan.labels_, labels) == 1.0
    assert_array_equal(hdbscan.labels_ == -1, labels == -1)
    counts = np.bincount(labels[labels >= 0])
    assert (np.diff(counts) <= 0).all()


def test_weights_are_repeats():
    X = noisy_blobs(1, 30)
    weights = np.random.RandomState(0).randint(1, 7, len(X))
    repeated = np.repeat(np.arange(len(X)), weights)
    one = SpanningForestClustering(2).fit(X, sample_weight=weights).condensed_tree(5)
    many = SpanningForestClustering(2).fit(X[repeated]).condensed_tree(5)
    first = np.searchsorted(repeated, np.arange(len(X)))
    assert_array_equal(one.labels(), many.labels()[first])
    assert_allclose(one.outlier_scores, many.outlier_scores[first], atol=1e-12)
    assert_allclose(np.sort(one.stability), np.sort(many.stability), rtol=1e-9)
    assert one.size[len(X) :].sum() == many.size[len(repeated) :].sum()


def test_equal_samples_leave_together():
    X = np.repeat([[0.0], [1.0], [9.0]], [4, 1, 3], axis=0)
    tree = SpanningForestClustering(2).fit(X).condensed_tree(3)
    assert_array_equal(tree.labels(), [0, 0, 0, 0, 0, 1, 1, 1])
    left = tree.density[:8]
    assert_array_equal(np.isinf(left), [1, 1, 1, 1, 0, 1, 1, 1])
    assert np.isfinite(tree.stability).all()
    assert (tree.outlier_scores >= 0).all()
    assert tree.outlier_scores.max() < 1


@pytest.mark.parametrize("X", [[[0.0]], [[0.0], [0.0]], [[0.0], [3.0]]])
def test_too_few_samples_to_divide(X):
    forest = SpanningForestClustering(1).fit(X)
    tree = forest.condensed_tree()
    assert len(tree.stability) == 1
    assert_array_equal(tree.labels(), np.full(len(X), -1))
    assert_array_equal(tree.labels("leaf"), np.full(len(X), -1))
    assert_array_equal(tree.outlier_scores, np.zeros(len(X)))


def test_noise_on_request():
    X = noisy_blobs(5, 300)
    forest = SpanningForestClustering(4).fit(X)
    labels = forest.cut(4, max_outlier_score=0.8)
    is_noise = labels == -1
    assert 0 < is_noise.sum() < 60
    assert_array_equal(labels, np.where(is_noise, -1, forest.labels_))
    scores = forest.outlier_scores_
    assert scores[is_noise].mean() > scores[~is_noise].mean() + 0.2
    assert_array_equal(forest.cut(4), forest.labels_)
    # Scores are relative to the clusters of this cut.
    assert_array_equal(
        forest.cut(2, max_outlier_score=0.8),
        SpanningForestClustering(2).fit(X).cut(2, max_outlier_score=0.8),
    )


def test_refused():
    X = noisy_blobs(0, 30)
    forest = SpanningForestClustering(2).fit(X)
    with pytest.raises(ValueError, match=r"'min_cluster_size' .* Got 1 instead"):
        forest.condensed_tree(1)
    with pytest.raises(ValueError, match=r"'min_cluster_size' .* Got True instead"):
        forest.condensed_tree(True)
    with pytest.raises(ValueError, match=r"'max_outlier_score' .* Got 2 instead"):
        forest.cut(2, max_outlier_score=2)
    with pytest.raises(ValueError, match="'method' parameter of"):
        forest.condensed_tree().labels("eom")
    D = -cdist(X, X)
    longest = SpanningForestClustering(2, metric="precomputed", cut_rule="longest")
    with pytest.raises(ValueError, match="no negative distances for condensed_tree"):
        longest.fit(D).condensed_tree()


def test_table():
    tree = SpanningForestClustering(2).fit(noisy_blobs(0)).condensed_tree()
    frame = tree.to_frame()
    assert list(frame.columns) == ["parent", "child", "density", "size"]
    assert_array_equal(frame["child"], tree.child)
    assert_array_equal(frame["density"], tree.density)
