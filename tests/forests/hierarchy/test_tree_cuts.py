"""Size-weighted cuts, against their definition carried out naively."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from skdiffclust.forests import minimum_spanning_tree
from skdiffclust.forests._hierarchy._core_sizes import (
    core_radii,
    core_sizes,
    outlier_scores,
)
from skdiffclust.forests._hierarchy._linkage import linkage_matrix
from skdiffclust.forests._hierarchy._tree_cuts import (
    SIZE_POWER,
    clear_ratio,
    cut,
    mask,
    n_clusters_by_scores,
)
from skdiffclust.forests._trees import _compilation_threshold
from skdiffclust.forests._trees._tree import CutTree, components, cut_order


def random_tree(rng, n, *, ties=False):
    """Return a random labelled tree in cut order."""
    order = rng.permutation(n)
    parents = [rng.integers(max(0, t - rng.integers(1, n)), t) for t in range(1, n)]
    edges = np.sort(np.column_stack([order[1:], order[parents]]), axis=1)
    lengths = rng.integers(1, 4, n - 1) * 1.0 if ties else rng.exponential(size=n - 1)
    by_length = cut_order(edges, lengths)
    edges, lengths = edges[by_length], lengths[by_length]
    return CutTree(edges, lengths, np.ones(n - 1, dtype=bool))


def radii_of(tree, weights=None):
    """Return the core radii of a tree in cut order."""
    return core_radii(linkage_matrix(tree.edges, tree.lengths), weights)


def naive_cuts(tree, sizes, n_cuts):
    """Cut the edge of the largest score, by components, one after the other."""
    n = len(tree.edges) + 1
    cuts, scores = [], []
    while len(cuts) < n_cuts:
        best, best_score = None, 0.0
        for e in np.setdiff1d(np.flatnonzero(tree.may_cut), cuts):
            after = components(np.delete(tree.edges, [*cuts, e], axis=0), n)
            one, other = (sizes[after == after[end]].sum() for end in tree.edges[e])
            if one > 0 and other > 0:
                h = one * other / (one + other)
                score = tree.lengths[e] * h**SIZE_POWER
                if score > best_score * (1 + 1e-12):
                    best, best_score = int(e), score
        if best is None:
            break
        cuts.append(best)
        scores.append(best_score)
    return cuts, scores


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_the_definition(seed, ties, global_random_seed):
    rng = np.random.default_rng(seed + 1000 * global_random_seed)
    n = int(rng.integers(2, 25))
    tree = random_tree(rng, n, ties=ties)
    tree.may_cut[rng.random(n - 1) < 0.1] = False
    sizes = rng.integers(0, 4, n) * 1.0 if ties else rng.exponential(size=n)
    n_cuts = int(rng.integers(1, n))
    positions, scores, _ = cut(tree, n_cuts, sizes=sizes)
    expected, expected_scores = naive_cuts(tree, sizes, n_cuts)
    assert positions.tolist() == expected
    assert np.allclose(scores, expected_scores, rtol=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_nested_non_increasing_and_without_a_scale(seed, global_random_seed):
    rng = np.random.default_rng(seed + 1000 * global_random_seed)
    tree = random_tree(rng, 60)
    sizes = np.round(rng.random(60) * 64) / 64
    positions, scores, _ = cut(tree, 59, sizes=sizes)
    assert (np.diff(scores) <= 1e-12 * scores[:-1]).all()
    for n_cuts in range(0, 59, 7):
        fewer, _, _ = cut(tree, n_cuts, sizes=sizes)
        assert np.array_equal(fewer, positions[:n_cuts])
    scaled = CutTree(tree.edges, tree.lengths * 2.0**30, tree.may_cut)
    assert np.array_equal(cut(scaled, 59, sizes=sizes)[0], positions)
    assert np.array_equal(core_sizes(radii_of(scaled)), core_sizes(radii_of(tree)))


def test_forced_edges_come_first_and_lengths_of_zero_last():
    edges = np.array([[3, 4], [0, 1], [1, 2], [2, 3]])
    lengths = np.array([np.inf, 3.0, 2.0, 0.0])
    tree = CutTree(edges, lengths, lengths > 0)
    positions, scores, _ = cut(tree, 4, sizes=np.ones(5))
    assert positions.tolist() == [0, 1, 2]
    assert np.isinf(scores[0])
    assert np.allclose(scores[1:], [3 * 0.75**0.75, 2 * (2 / 3) ** 0.75])


def points_and_tree(X):
    tree = minimum_spanning_tree(X)
    may_cut = tree.lengths > 0
    return CutTree(tree.edges, tree.lengths, may_cut)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n, core", [(120, 5), (75, 3), (30, 2)])
@pytest.mark.parametrize("seed", range(4))
def test_core_sizes_are_their_definition(
    seed, n, core, weighted, compiled, cold, monkeypatch, global_random_seed
):
    if compiled:
        monkeypatch.setattr(_compilation_threshold, "SMALL", 0)
    rng = np.random.default_rng(seed + 1000 * global_random_seed)
    X = rng.standard_t(1, size=(n, 2)) * 10.0
    X[:4] = X[4]
    weights = np.ones(n)
    if weighted:  # of the same sum
        weights[: n // 2] = rng.permutation(np.arange(n // 2) % 3)
        weights[-1] += n - weights.sum()
    tree = points_and_tree(X)
    order = np.argsort(tree.lengths, kind="stable")
    radii = np.full(n, np.nan)
    for threshold in np.concatenate([[0.0], tree.lengths[order]]):
        labels = components(tree.edges[tree.lengths <= threshold], n)
        reached = np.bincount(labels, weights)[labels] >= core
        radii[reached & np.isnan(radii)] = threshold
    positive = (radii > 0) & (weights > 0)
    repeated = np.repeat(radii[positive], weights[positive].astype(int))
    median = np.sort(repeated)[(len(repeated) + 1) // 2 - 1]
    with np.errstate(divide="ignore"):
        expected = np.minimum(1, (20 * median / radii) ** 2) * weights
    known = weights if weighted else None
    found = core_sizes(radii_of(tree, known), known)
    assert np.allclose(found, expected, atol=1e-6 * weights.max())
    assert found.min() >= 0


def test_a_weight_is_so_many_equal_samples(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = np.concatenate([rng.normal(size=(60, 2)), rng.normal(size=(5, 2)) * 300])
    weights = rng.integers(1, 4, 65)
    once = points_and_tree(X)
    repeated = points_and_tree(np.repeat(X, weights, axis=0))
    weights_once = weights * 1.0
    sizes = core_sizes(radii_of(once, weights_once), weights_once)
    sizes_repeated = core_sizes(radii_of(repeated))
    assert np.array_equal(np.repeat(sizes / weights, weights), sizes_repeated)
    first = cut(once, 20, sizes=sizes)
    second = cut(repeated, 20, sizes=sizes_repeated)
    assert np.allclose(first[1], second[1], rtol=1e-12)
    labels = components(once.edges[~mask(first[0], once)], 65)
    others = components(repeated.edges[~mask(second[0], repeated)], weights.sum())
    assert adjusted_rand_score(np.repeat(labels, weights), others) == 1


def test_the_number_of_clusters_is_read_off_the_scores():
    scores = np.array([100.0, 90.0, 80.0, 30.0, 29.0, 28.0])
    assert n_clusters_by_scores(scores, 1, 100) == (4, 80 / 30)
    # The last of several falls by more than a half, not the largest.
    scores = np.array([100.0, 10.0, 4.0, 3.9])
    assert n_clusters_by_scores(scores, 1, 100) == (3, 2.5)
    assert n_clusters_by_scores(scores, 1, 100, largest=True) == (2, 10.0)
    # Forced cuts count for nothing; where nothing else falls, the parts remain.
    scores = np.array([np.inf, np.inf, 10.0, 4.0, 3.0])
    assert n_clusters_by_scores(scores, 3, 100) == (4, 2.5)
    assert n_clusters_by_scores(scores[[0, 1, 3, 4]], 3, 100)[0] == 3
    # Without a half, a fall late in the curve counts for more than an early one.
    scores = np.array([100.0, 61.0, 60.0, 59.0, 58.0, 57.0, 56.0, 34.0, 33.0])
    assert n_clusters_by_scores(scores, 1, 100) == (8, 56 / 34)
    assert n_clusters_by_scores(scores, 1, 100, largest=True)[0] == 8
    scores[7:] = [37.0, 36.0]
    assert n_clusters_by_scores(scores, 1, 100) == (8, 56 / 37)
    # A fall to a half exactly is none below it.
    halved = np.array([100.0, 50.0, 49.0, 48.0, 47.0, 46.0, 45.0, 24.0, 23.0])
    assert n_clusters_by_scores(halved, 1, 100) == (8, 45 / 24)
    assert n_clusters_by_scores(scores, 1, 100, largest=True) == (2, 100 / 61)
    assert 56 / 37 > clear_ratio(8) == 1.5
    # At most a tenth of the samples, or five.
    assert n_clusters_by_scores(3.0 ** -np.arange(90), 1, 100)[0] == 10
    assert n_clusters_by_scores(3.0 ** -np.arange(90), 1, 40)[0] == 5
    assert n_clusters_by_scores(3.0 ** -np.arange(90), 1, 10_000)[0] == 60
    assert n_clusters_by_scores(np.array([3.0]), 1, 100)[0] == 2
    assert n_clusters_by_scores(np.array([]), 1, 100)[0] == 1


def test_outlier_scores_are_their_definition(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    radii = rng.exponential(size=60)
    labels = rng.integers(0, 3, 60)
    weights = rng.integers(1, 4, 60)
    found = outlier_scores(radii, labels, weights)
    for label in range(3):
        own = np.sort(np.repeat(radii[labels == label], weights[labels == label]))
        median = own[(len(own) + 1) // 2 - 1]
        expected = 1 - np.minimum(1, median / radii[labels == label])
        assert np.allclose(found[labels == label], expected)
    assert np.array_equal(outlier_scores(np.zeros(5), np.zeros(5, int)), np.zeros(5))
