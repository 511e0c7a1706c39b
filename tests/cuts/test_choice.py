"""n_clusters="auto": the curve, its scores, and the candidates."""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import block_diag
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from skdiffclust import GraphCutClustering, PRCut
from skdiffclust.cuts import ratio_cut
from skdiffclust.plotting import NClustersCurveDisplay

AUTO = {"n_clusters": "auto", "n_init": 3, "random_state": 0}


def caves(n_cliques, size):
    """Return cliques in a ring, an edge of each rewired to the one before."""
    n = n_cliques * size
    graph = np.kron(np.eye(n_cliques), 1 - np.eye(size))
    for start in range(0, n, size):
        graph[start, start + 1] = graph[start + 1, start] = 0
        graph[start, start - 1] = graph[start - 1, start] = 1
    return sp.csr_array(graph)


@pytest.mark.parametrize("k", [3, 6, 10])
def test_cliques_in_a_ring_are_counted(k):
    model = GraphCutClustering(**AUTO, affinity="precomputed").fit(caves(k, 8))
    assert model.n_clusters_ == k
    curve = model.n_clusters_curve_
    beyond = [16, 18, 20, 22] if k == 10 else []
    np.testing.assert_array_equal(
        curve["n_clusters"], [*range(1, min(8 * k // 3, 15) + 1), *beyond]
    )
    exact = ratio_cut(model.affinity_matrix_, model.labels_, normalized=True).value
    assert curve["normalized_cut"][k - 1] == pytest.approx(exact)
    assert curve["normalized_cut"][0] == 0.0
    volumes = np.bincount(model.labels_, model.affinity_matrix_.sum(axis=1))
    shares = volumes / volumes.sum()
    # Each clique has two edges to others, of its volume.
    assert curve["modularity"][k - 1] == pytest.approx(
        1 - 2 * k / volumes.sum() - (shares**2).sum()
    )
    assert np.nanargmax(curve["score"]) == k - 1


@pytest.mark.filterwarnings(
    "ignore:GraphCutClustering.n_clusters='auto'. sees no clear:UserWarning"
)
def test_the_number_is_at_least_what_the_constraints_need():
    graph = sp.csr_array(block_diag(*[1 - np.eye(8)] * 2))
    model = GraphCutClustering(**AUTO, affinity="precomputed").fit(graph)
    assert model.n_clusters_ == 2
    clique = [[0, 8], [0, 9], [8, 9]]
    cycle = [[0, 8], [8, 1], [1, 9], [9, 2], [2, 0]]
    for pairs in (clique, cycle):
        model.fit(graph, cannot_link=pairs)
        # What the third cluster costs is seen from the cut into two.
        assert model.n_clusters_ >= 3 and model.n_clusters_curve_["n_clusters"][0] == 2
        first, second = np.transpose(pairs)
        assert (model.labels_[first] != model.labels_[second]).all()
    # More classes than a third of the samples.
    few = sp.csr_array(1 - np.eye(6))
    model.fit(few, partial_labels=[0, 1, 2, -1, -1, -1])
    assert model.n_clusters_ == 3


@pytest.mark.filterwarnings(
    "ignore:GraphCutClustering.n_clusters='auto'. sees no clear:UserWarning"
)
@pytest.mark.filterwarnings("ignore:The graph of .* has 3 parts:UserWarning")
@pytest.mark.parametrize(
    ("bound", "most"),
    [
        ({"min_cluster_size": 25}, 2),
        ({"min_cluster_size": 31}, 1),
        ({"max_imbalance": 0.3}, 6),
    ],
)
def test_the_number_is_one_that_the_bounds_allow(bound, most, global_random_seed):
    X, _ = make_blobs(
        60, centers=[[0, 0], [9, 0], [0, 9]], random_state=global_random_seed
    )
    X[:12] = X[0]  # a group of equal samples, larger than a tenth
    model = GraphCutClustering(**AUTO, **bound).fit(X)
    assert model.n_clusters_curve_["n_clusters"][-1] == most
    assert model.n_clusters_ <= most
    assert model.cluster_sizes_.min() >= bound.get("min_cluster_size", 1)
    if "max_imbalance" in bound:
        assert model.cluster_sizes_.max() <= 1.3 * 60 / model.n_clusters_
    with pytest.raises(ValueError, match="'min_cluster_size' .* at most the mean"):
        model.set_params(min_cluster_size=61, max_imbalance=None).fit(X)
    with pytest.raises(ValueError, match="'min_cluster_size' .* at most the mean"):
        model.set_params(min_cluster_size=25).fit(X, partial_labels=[0, 1, 2] * 20)


@pytest.mark.parametrize(("n_cliques", "size"), [(40, 5), (40, 8)])
def test_many_cliques_are_counted(n_cliques, size):
    # Modularity alone would join pairs of the small ones.
    n = n_cliques * size
    graph = np.kron(np.eye(n_cliques), 1 - np.eye(size))
    ends = np.arange(0, n, size)
    graph[ends, ends - 1] = graph[ends - 1, ends] = 1
    model = GraphCutClustering(**AUTO, affinity="precomputed").fit(graph)
    assert model.n_clusters_ == n_cliques


# The modularity alone would divide them.
@pytest.mark.parametrize(
    ("centers", "n_samples"),
    [
        ([[0, 0, 0], [8, 0, 0], [0, 8, 0], [0, 0, 8]], 1000),
        ([[0, 0], [8, 0], [0, 8], [8, 8], [16, 0]], 500),
    ],
)
def test_large_blobs_are_not_divided(centers, n_samples, global_random_seed):
    X, y = make_blobs(n_samples, centers=centers, random_state=global_random_seed)
    model = GraphCutClustering(**AUTO).fit(X)
    assert model.n_clusters_ == len(centers)
    assert adjusted_rand_score(y, model.labels_) > 0.99


def test_clusters_that_return_have_one_candidate(global_random_seed):
    X, _ = make_blobs(
        300, centers=[[0, 0], [9, 0], [0, 9]], random_state=global_random_seed
    )
    model = GraphCutClustering(**AUTO).fit(X)
    np.testing.assert_array_equal(model.n_clusters_candidates_, [3])
    model.set_params(n_clusters=3).fit(X)
    assert model.n_clusters_candidates_ is model.n_clusters_curve_ is None


@pytest.mark.parametrize("cut", ["ratio", "normalized"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_blobs_are_counted_whatever_is_cut(cut, form, global_random_seed):
    X, _ = make_blobs(
        300, n_features=4, centers=20.0 * np.eye(5, 4), random_state=global_random_seed
    )
    model = GraphCutClustering(**AUTO, cut=cut, n_neighbors=12).fit(form(X))
    assert model.n_clusters_ == 5
    assert model.score(form(X)) > 0.7
    assert GraphCutClustering(5).fit(X).n_clusters_curve_ is None


@pytest.mark.parametrize("n_samples", [600, 2400])
def test_rings_are_counted(n_samples, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    y = np.repeat([0, 1, 2], n_samples // 3)
    radius = 1.0 + 2.0 * y
    angle = rng.uniform(0, 2 * np.pi, len(y))
    X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    X += 0.03 * rng.normal(size=X.shape)
    model = GraphCutClustering(**AUTO).fit(X)
    assert adjusted_rand_score(y, model.labels_) == 1.0
    # Their modularity is largest for arcs.
    best = np.nanargmax(model.n_clusters_curve_["score"])
    assert model.n_clusters_curve_["n_clusters"][best] > 6


def test_communities_of_a_network_with_hubs_are_counted():
    rng = np.random.RandomState(6)
    y = np.repeat(np.arange(6), 160)
    n = len(y)
    weights = np.minimum((1 - rng.rand(n)) ** (-1 / 1.5), 30.0).reshape(6, -1)
    weights /= weights.sum(axis=1, keepdims=True)
    # Seven of ten edges are within a community; ten hubs have 200 neighbours anywhere.
    within = [160 * c + rng.choice(160, (2, 700), p=p) for c, p in enumerate(weights)]
    across = rng.choice(n, (2, 1800), p=weights.ravel() / 6)
    hubs = np.repeat(rng.choice(n, 10), 200), rng.choice(n, 2000)
    first, second = np.hstack([*within, across, hubs])
    graph = sp.csr_array((np.ones(len(first)), (first, second)), shape=(n, n))
    graph.setdiag(0)
    graph.eliminate_zeros()
    model = GraphCutClustering(**AUTO, affinity="precomputed")
    with (
        pytest.warns(ConvergenceWarning, match="no clear number .* agree with an ARI"),
        pytest.warns(UserWarning, match="has 1 nodes in 1 parts"),
    ):
        model.fit(graph + graph.T)
    assert model.n_clusters_ == 6
    assert 6 in model.n_clusters_candidates_
    assert adjusted_rand_score(y, model.labels_) > 0.6


def test_a_network_without_separate_clusters_has_labels_of_a_larger_modularity(
    global_random_seed,
):
    rng = np.random.RandomState(global_random_seed)
    degrees = np.minimum((1 - rng.rand(360)) ** (-1 / 1.2), 30.0).reshape(6, -1)
    shares = degrees / degrees.sum(axis=1, keepdims=True)
    within = [60 * c + rng.choice(60, (2, 150), p=p) for c, p in enumerate(shares)]
    across = rng.choice(360, (2, 300), p=shares.ravel() / 6)
    first, second = np.hstack([*within, across])
    graph = sp.csr_array((np.ones(len(first)), (first, second)), shape=(360, 360))
    graph.setdiag(0)
    graph.eliminate_zeros()
    graph = graph + graph.T
    found = {}
    for size in ("auto", 1):
        model = GraphCutClustering(
            6, affinity="precomputed", min_cluster_size=size, random_state=0
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # nodes without edges
            labels = model.fit(graph).labels_
        degree = graph.sum(axis=1)
        expected = np.bincount(labels, degree) ** 2 / graph.sum() ** 2
        edges = graph.tocoo()
        inside = edges.data[labels[edges.row] == labels[edges.col]]
        found[size] = model, inside.sum() / graph.sum() - expected.sum()
    lowest, _ = found[1]
    assert lowest.objective_ == "normalized cut"
    assert lowest.normalized_cut_ > 0.07 * 6
    assert found["auto"][0].objective_ == "modularity"
    assert found["auto"][1] > found[1][1]


def test_samples_without_clusters_are_warned_of(global_random_seed):
    X = np.random.RandomState(global_random_seed).uniform(size=(300, 2))
    match = "on 3 random subsamples .* their clusters and the returned ones agree"
    with pytest.warns(ConvergenceWarning, match=match):
        model = GraphCutClustering(**AUTO).fit(X)
    assert {1, model.n_clusters_} <= set(model.n_clusters_candidates_)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert GraphCutClustering(**AUTO).fit(X[:7]).n_clusters_ == 2
    assert GraphCutClustering(**AUTO).fit(X[:1]).n_clusters_ == 1


def test_classes_are_the_least_number(global_random_seed):
    X, y = make_blobs(
        150, centers=[[0, 0], [9, 0], [0, 9]], random_state=global_random_seed
    )
    known = np.full(150, -1)
    for label in range(5):  # two of them inside blobs of others
        rows = np.flatnonzero(y == label % 3)[(label // 3) * 5 :][:5]
        known[rows] = label
    model = GraphCutClustering(**AUTO)
    with warnings.catch_warnings():
        # Five are not clear, for most seeds.
        warnings.simplefilter("ignore", UserWarning)
        model.fit(X, partial_labels=known)
    assert model.n_clusters_ >= 5
    # What the fifth cluster costs is seen from the cut into four.
    assert model.n_clusters_curve_["n_clusters"][0] == 4


@pytest.mark.few_epochs
def test_a_stream_keeps_the_number_that_was_chosen(global_random_seed):
    X, _ = make_blobs(
        200, centers=[[0, 0], [9, 0], [0, 9]], random_state=global_random_seed
    )
    model = PRCut(**AUTO, encoder="mlp", max_iter=5).fit(X)
    assert model.n_clusters_ == 3 and model.predict_proba(X).shape == (200, 3)
    model.partial_fit(X[:100])
    assert model.predict_proba(X).shape == (200, 3)


def test_the_curves_are_drawn():
    model = GraphCutClustering(**AUTO, affinity="precomputed").fit(caves(4, 6))
    display = NClustersCurveDisplay.from_estimator(model)
    for name, line in display.lines_.items():
        np.testing.assert_array_equal(line.get_xdata(), np.arange(1, 9))
        np.testing.assert_array_equal(line.get_ydata(), model.n_clusters_curve_[name])
    assert sorted(display.lines_) == ["modularity", "normalized_cut", "score"]
    assert display.n_clusters == 4
    given = GraphCutClustering(4, affinity="precomputed").fit(caves(4, 6))
    with pytest.raises(ValueError, match="n_clusters='auto'"):
        NClustersCurveDisplay.from_estimator(given)
    plt.close("all")
