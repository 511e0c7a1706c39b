"""Kauri: splits against brute force, relations, the tree, its text, refusals."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.tree import DecisionTreeClassifier, export_text

from skdiffclust import Kauri
from skdiffclust.gemini._relations import Matrix, make_relation
from skdiffclust.gemini._splits import best_split, cohesion_of


def objective(K, labels):
    """The definition: sums of the kernel within clusters, over their sizes."""
    return sum(
        K[np.ix_(labels == c, labels == c)].sum() / np.count_nonzero(labels == c)
        for c in np.unique(labels)
    )


def relations(X):
    """Both kinds of relations, and their kernels."""
    features = make_relation("kernel", X, "linear", None)
    centred = X - X.mean(axis=0)
    K = rbf_kernel(X)
    return [(features, centred @ centred.T), (Matrix(K), K)]


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("least", [1, 3])
def test_the_best_split_is_that_of_all(kind, least, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    n_double = 0
    for _ in range(12):
        X = rng.normal(size=(24, 2)).round(1)
        relation, K = relations(X)[kind]
        labels = rng.randint(3, size=24)  # of four clusters one is empty
        rows = np.flatnonzero(labels == labels[0])[:6]
        clusters = cohesion_of(relation).clusters(labels, 4)
        found = best_split(X, rows, clusters, least)
        before = objective(K, labels)
        best = 0.0
        for feature, (left, right) in product(range(2), product(range(4), repeat=2)):
            for threshold in np.unique(X[rows, feature])[:-1]:
                is_left = X[rows, feature] <= threshold
                smallest = min(is_left.sum(), (~is_left).sum())
                if left != right and smallest >= least:
                    trial = labels.copy()
                    trial[rows] = np.where(is_left, left, right)
                    best = max(best, objective(K, trial) - before)
        assert_allclose(found.gain, best, atol=1e-9)
        if best > 0:
            trial = labels.copy()
            is_left = X[rows, found.feature] <= found.threshold
            trial[rows] = np.where(is_left, found.left, found.right)
            assert_allclose(objective(K, trial) - before, best, atol=1e-9)
            n_double += labels[0] not in (found.left, found.right)
    # Both parts may go to other clusters.
    assert n_double or least == 3


@pytest.mark.parametrize("kind", [0, 1])
def test_every_split_raises_the_objective(kind, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    X = rng.normal(size=(60, 3))
    params = [{}, {"kernel": "rbf"}][kind]
    K = [(X - X.mean(axis=0)) @ (X - X.mean(axis=0)).T, rbf_kernel(X)][kind]
    values = []
    for leaves in range(4, 12):
        tree = Kauri(4, max_leaf_nodes=leaves, **params).fit(X)
        values.append(objective(K, tree.labels_))
        assert tree.n_leaves_ <= leaves
        assert_allclose(tree.score(X), (values[-1] - np.trace(K)) / len(X), atol=1e-12)
    assert (np.diff(values) >= -1e-9).all()


def test_blobs_are_found_and_more_leaves_come_nearer_to_k_means():
    X, y = make_blobs(300, centers=5, cluster_std=0.5, random_state=2)
    assert adjusted_rand_score(y, Kauri(5).fit(X).labels_) > 0.95
    X = load_iris().data
    inertia = KMeans(3, n_init=10, random_state=0).fit(X).inertia_ / len(X)
    few, many = (Kauri(3, max_leaf_nodes=m).fit(X).score(X) for m in (3, 12))
    assert -1.2 * inertia < few < many <= -inertia + 1e-9


def test_relations_that_are_given_are_those_that_are_named():
    X = load_iris().data
    K = rbf_kernel(X, gamma=0.3)
    named = Kauri(3, kernel="rbf", gamma=0.3, max_leaf_nodes=5).fit(X)
    given = Kauri(3, max_leaf_nodes=5).fit(X, affinity=K)
    assert_array_equal(named.labels_, given.labels_)
    assert_allclose(given.score(X, affinity=K), named.score(X))
    mapped = Kauri(3, kernel=Nystroem(gamma=0.3, n_components=150, random_state=0))
    plain = Kauri(3, kernel="rbf", gamma=0.3).fit(X)
    assert adjusted_rand_score(mapped.fit(X).labels_, plain.labels_) > 0.9
    with pytest.raises(ValueError, match="must be a matrix between the samples"):
        given.score(X)
    with pytest.raises(ValueError, match=r"dense array of shape \(150, 150\)"):
        Kauri(3).fit(X, affinity=K[:9, :9])
    with pytest.raises(ValueError, match="'linear', its default"):
        Kauri(3, kernel="rbf").fit(X, affinity=K)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_the_origin_of_a_kernel_does_not_matter(offset):
    X, _ = make_blobs(60, centers=3, random_state=0)
    X -= X.mean(axis=0)
    expected = Kauri(3).fit(X)
    moved = X + offset
    for far in (
        Kauri(3).fit(X, affinity=X @ X.T + offset**2),
        Kauri(3).fit(X, affinity=moved @ moved.T),
    ):
        assert_array_equal(far.labels_, expected.labels_)
    far = Kauri(3, kernel="poly", degree=1, gamma=1).fit(moved)
    assert_array_equal(far.labels_, expected.labels_)
    assert_allclose(far.score(moved), expected.score(X), rtol=1e-3)


@pytest.mark.parametrize(
    "kernel, params",
    [
        ("linear", {"gamma": 0.5}),
        ("linear", {"gamma": "scale"}),
        ("rbf", {"degree": 2, "coef0": 0.0, "kernel_params": {"gamma": 1}}),
    ],
)
def test_parameters_that_the_kernel_does_not_use_are_ignored(kernel, params):
    X = load_iris().data
    expected = Kauri(3, kernel=kernel).fit(X)
    found = Kauri(3, kernel=kernel, **params).fit(X)
    assert_array_equal(found.threshold_, expected.threshold_)


def test_gamma_scale_does_not_depend_on_the_unit():
    X = load_iris().data
    trees = [Kauri(3, kernel="rbf", gamma="scale").fit(c * X) for c in (1.0, 1e3)]
    assert_array_equal(trees[0].labels_, trees[1].labels_)
    assert_allclose(trees[0].gamma_, trees[1].gamma_ * 1e6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_prediction_is_that_of_the_leaves(dtype):
    X, _ = make_blobs(80, centers=4, n_features=3, random_state=0)
    X = X.astype(dtype)
    tree = Kauri(4, max_leaf_nodes=9, max_depth=5, min_samples_leaf=3).fit(X)
    assert_array_equal(tree.predict(X), tree.labels_)
    leaves, counts = np.unique(tree.apply(X), return_counts=True)
    assert len(leaves) == tree.n_leaves_ and counts.min() >= 3
    assert tree.depth_ <= 5
    assert (np.diff(np.bincount(tree.labels_)) <= 0).all()


def test_neighbours_of_floating_point_are_separated():
    low = 1.0
    high = np.nextafter(low, 2)
    X = np.repeat([[low], [high]], 5, axis=0) - 1.0
    labels = Kauri(2).fit(X * 2.0**60).labels_
    assert_array_equal(labels, np.repeat([0, 1], 5))


def test_text_is_as_scikit_learn_writes_it():
    iris = load_iris()
    X = iris.data
    tree = Kauri(3, max_leaf_nodes=6).fit(X)
    # The same tree, learned from its own labels by scikit-learn where it is the same.
    ours = tree.export_text(iris.feature_names)
    peer = DecisionTreeClassifier(random_state=0).fit(X, X[:, 2] > 3.4)
    theirs = export_text(peer, feature_names=iris.feature_names)
    assert ours.splitlines()[0].startswith("|--- petal length (cm) <= ")
    assert theirs.splitlines()[1] == "|   |--- class: False"
    assert ours.count("cluster:") == tree.n_leaves_
    small = Kauri(2).fit(X).export_text(iris.feature_names, decimals=2)
    left = Kauri(2).fit(X)
    question = f"petal length (cm) {{}} {left.threshold_[0]:.2f}"
    assert small == (
        f"|--- {question.format('<=')}\n|   |--- cluster: {left.leaf_labels_[1]}\n"
        f"|--- {question.format('> ')}\n|   |--- cluster: {left.leaf_labels_[2]}\n"
    )
    assert "feature_2 <= " in tree.export_text()
    with pytest.raises(ValueError, match="must have 4 names. Got 1"):
        tree.export_text(["a"])


def test_one_cluster_and_equal_samples_are_one_leaf():
    tree = Kauri(1).fit(load_iris().data)
    assert tree.n_leaves_ == 1 and tree.export_text() == "|--- cluster: 0\n"
    with pytest.warns(ConvergenceWarning, match="found 1 clusters instead of 3"):
        tree = Kauri(3).fit(np.ones((6, 2)))
    assert_array_equal(tree.labels_, np.zeros(6))
    with pytest.raises(ValueError, match="n_samples=2. Got 3 instead"):
        Kauri(3).fit([[0.0], [1.0]])


@pytest.mark.parametrize("depth", [2, 3])
def test_no_leaf_is_deeper_than_the_largest_depth(depth):
    X = load_iris().data
    assert Kauri(3, max_leaf_nodes=20).fit(X).depth_ > 3
    assert Kauri(3, max_leaf_nodes=20, max_depth=depth).fit(X).depth_ == depth


@pytest.mark.parametrize("kernel", ["chi2", "additive_chi2"])
def test_samples_may_be_read_only(kernel):
    X = load_iris().data
    expected = Kauri(3, kernel=kernel).fit(X).labels_
    X.flags.writeable = False
    assert_array_equal(Kauri(3, kernel=kernel).fit(X).labels_, expected)
