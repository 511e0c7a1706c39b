"""Links: nodes that are merged, nodes that are separated, and edges."""

import itertools

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from skdiffclust import GraphCutClustering, PRCut
from skdiffclust.cuts import ratio_cut


def violations(labels, must, cannot):
    """Return how many pairs (m, 2) of either kind labels (n,) do not satisfy."""
    first, second = labels[np.asarray(must, dtype=int).reshape(-1, 2)].T
    third, fourth = labels[np.asarray(cannot, dtype=int).reshape(-1, 2)].T
    return int((first != second).sum() + (third == fourth).sum())


def random_problem(seed):
    """Return a small graph, links, a number of clusters and whether it is NC."""
    rng = np.random.RandomState(seed)
    n, k = rng.randint(6, 9), rng.randint(2, 4)
    graph = np.triu(rng.rand(n, n) * (rng.rand(n, n) < 0.6), 1)
    must = rng.randint(n, size=(rng.randint(3), 2))
    cannot = rng.randint(n, size=(rng.randint(1, 7), 2))
    cannot = cannot[cannot[:, 0] != cannot[:, 1]]
    return graph + graph.T, must, cannot, k, bool(seed % 2)


def lowest_cut(graph, must, cannot, k, normalized):
    """Return the least cut of all labels that satisfy the links; inf without any."""
    best = np.inf
    for labels in itertools.product(range(k), repeat=len(graph)):
        labels = np.array(labels)
        firsts = np.unique(labels, return_index=True)[1]
        # Every partition once: clusters are numbered by their first nodes.
        if len(firsts) < k or (np.diff(firsts) < 0).any():
            continue
        if not violations(labels, must, cannot):
            best = min(best, ratio_cut(graph, labels, normalized=normalized).value)
    return best


# Isolated vertices, small parts and clusters of one node are what small graphs are.
@pytest.mark.filterwarnings("ignore:The graph of GraphCut")
@pytest.mark.filterwarnings("ignore:GraphCutClustering found")
def test_small_graphs_have_the_lowest_cut_that_the_links_allow(global_random_seed):
    gaps = []
    for seed in range(48):
        *problem, k, normalized = random_problem(seed + 1000 * global_random_seed)
        graph, must, cannot = problem
        best = lowest_cut(graph, must, cannot, k, normalized)
        cut = "normalized" if normalized else "ratio"
        model = GraphCutClustering(
            k,
            affinity="precomputed",
            cut=cut,
            min_cluster_size=1,
            n_init=3,
            random_state=0,
        )
        if not np.isfinite(best):
            with pytest.raises(ValueError, match="n_clusters|contradict|constraints"):
                model.fit(graph, must_link=must, cannot_link=cannot)
            continue
        model.fit(graph, must_link=must, cannot_link=cannot)
        assert not violations(model.labels_, must, cannot)
        found = ratio_cut(graph, model.labels_, normalized=normalized).value
        assert found >= best * (1 - 1e-12)
        gaps.append(found / best - 1.0 if best > 0 else found)
    assert len(gaps) > 20
    assert np.mean(gaps) < 0.05
    assert np.mean(np.array(gaps) < 1e-9) > 0.8


@pytest.mark.parametrize("init", ["multilevel", "spectral"])
def test_links_are_satisfied_and_tell_of_the_other_samples(init, global_random_seed):
    X, y = load_digits(n_class=6, return_X_y=True)
    rng = np.random.RandomState(global_random_seed)
    pairs = rng.randint(len(X), size=(300, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    links = {"must_link": pairs[same], "cannot_link": pairs[~same]}
    settings = {"init": init, "n_init": 3, "min_cluster_size": 1, "random_state": 0}
    model = GraphCutClustering(6, **settings).fit(X, **links)
    assert not violations(model.labels_, *links.values())
    assert model.n_clusters_ == 6
    bounded = GraphCutClustering(6, max_imbalance=0.4, **settings).fit(X, **links)
    assert not violations(bounded.labels_, *links.values())
    known = np.where(rng.rand(len(X)) < 0.1, y, -1)
    labelled = GraphCutClustering(6, **settings).fit(X, partial_labels=known)
    seen = known >= 0
    assert adjusted_rand_score(y[seen], labelled.labels_[seen]) == 1.0
    free = GraphCutClustering(6, **settings).fit(X)
    agreement, alone = (
        adjusted_rand_score(y[~seen], found.labels_[~seen])
        for found in (labelled, free)
    )
    assert agreement >= alone - 0.01


@pytest.mark.parametrize("encoder", ["linear", "mlp"])
@pytest.mark.few_epochs
def test_an_encoder_keeps_the_labels_of_linked_samples(encoder, global_random_seed):
    X, y = make_blobs(120, centers=3, random_state=global_random_seed)
    # A link that no encoder would satisfy by itself.
    i, j = np.flatnonzero(y == 0)[0], np.flatnonzero(y == 1)[0]
    model = PRCut(3, encoder=encoder, max_iter=5, random_state=0)
    model.fit(X, must_link=[[i, j]])
    assert model.labels_[i] == model.labels_[j]
    held = np.isin(np.arange(120), [i, j])
    np.testing.assert_array_equal(model.labels_[~held], model.predict(X)[~held])
    assert (np.diff(model.cluster_sizes_) <= 0).all()


@pytest.mark.parametrize("affinity", ["ranked_neighbors", "nearest_neighbors", "rbf"])
def test_new_samples_are_linked_to_all_equal_ones(affinity, global_random_seed):
    # One of three equal samples, which comes first, is in the other cluster.
    rng = np.random.RandomState(global_random_seed)
    X = rng.normal(size=(15, 2))
    far = X + [50.0, 0.0]
    y = np.repeat([1, 0, 0, 1], 15)
    model = GraphCutClustering(2, affinity=affinity, random_state=global_random_seed)
    model.fit(np.concatenate([X, X, X, far]), partial_labels=y)
    labels = model.predict(np.concatenate([X, far]) + 1e-3)
    np.testing.assert_array_equal(labels, model.labels_[[15] * 15 + [45] * 15])


def test_equal_rows_part_where_links_ask_for_it():
    X = np.repeat([[0.0], [1.0], [9.0], [10.0]], 5, axis=0)
    labels = (
        GraphCutClustering(2, n_neighbors=6, random_state=0)
        .fit(X, cannot_link=[[0, 1]])
        .labels_
    )
    assert labels[0] != labels[1]


@pytest.mark.filterwarnings("ignore:The graph of GraphCut")
def test_colourings_are_found_where_there_are_any(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    for k, n_pairs in ((3, 150), (4, 250)):
        y = rng.randint(k, size=60)
        pairs = rng.randint(60, size=(n_pairs, 2))
        pairs = pairs[y[pairs[:, 0]] != y[pairs[:, 1]]]
        model = GraphCutClustering(k, min_cluster_size=1, random_state=0)
        labels = model.fit(rng.rand(60, 2), cannot_link=pairs).labels_
        assert not violations(labels, [], pairs)


@pytest.mark.parametrize(("k", "n_pairs"), [(3, 150), (4, 250)])
def test_colourings_into_equal_sizes_are_found(k, n_pairs, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    y = rng.permutation(np.arange(60) % k)
    pairs = rng.randint(60, size=(n_pairs, 2))
    pairs = pairs[y[pairs[:, 0]] != y[pairs[:, 1]]]
    model = GraphCutClustering(k, min_cluster_size=1, max_imbalance=0, random_state=1)
    labels = model.fit(rng.rand(60, 2), cannot_link=pairs).labels_
    assert not violations(labels, [], pairs)
    np.testing.assert_array_equal(np.bincount(labels), 60 // k)


def test_what_cannot_be_parted_is_warned_of():
    # The graph of Grötzsch has no triangle, so no clique of four, and four colours.
    cycle = [(i, (i + 1) % 5) for i in range(5)]
    outer = [(5 + i, (i + shift) % 5) for i in range(5) for shift in (1, -1)]
    hub = [(10, 5 + i) for i in range(5)]
    pairs = np.array(cycle + outer + hub)
    graph = np.ones((11, 11)) - np.eye(11)
    with pytest.warns(
        ConvergenceWarning, match="leave 1 of 20 pairs .* must be separated"
    ):
        GraphCutClustering(3, affinity="precomputed", random_state=0).fit(
            graph, cannot_link=pairs
        )
    labels = (
        GraphCutClustering(4, affinity="precomputed", random_state=0)
        .fit(graph, cannot_link=pairs)
        .labels_
    )
    assert not violations(labels, [], pairs)


def test_constraints_need_the_labels_of_a_search(global_random_seed):
    X, y = make_blobs(60, centers=3, random_state=global_random_seed)
    for init in ("random", y, GraphCutClustering()):
        with pytest.raises(ValueError, match="need init=None"):
            PRCut(3, init=init).fit(X, partial_labels=y)
