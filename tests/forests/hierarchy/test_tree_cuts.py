"""Size-weighted cuts, against their definition carried out naively."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from skdiffclust import SpanningForestClustering
from skdiffclust.forests import SpanningTree, minimum_spanning_tree
from skdiffclust.forests._hierarchy._core_sizes import core_radii, core_sizes
from skdiffclust.forests._hierarchy._tree_cuts import SIZE_POWER, cut, mask
from skdiffclust.forests._trees._tree import components, cut_order


def random_tree(rng, n, *, ties=False):
    """Return a random labelled tree in cut order."""
    order = rng.permutation(n)
    parents = [rng.integers(max(0, t - rng.integers(1, n)), t) for t in range(1, n)]
    edges = np.sort(np.column_stack([order[1:], order[parents]]), axis=1)
    lengths = rng.integers(1, 4, n - 1) * 1.0 if ties else rng.exponential(size=n - 1)
    by_length = cut_order(edges, lengths)
    edges, lengths = edges[by_length], lengths[by_length]
    return SpanningTree(edges, lengths, np.ones(n - 1, dtype=bool))


def sizes_of(tree, weights=None):
    """Return the core sizes of a tree in cut order."""
    return core_sizes(core_radii(tree, weights), tree, weights)


def naive_part(tree, sizes, cuts, part):
    """Return the largest score of a part of a forest, the edge to cut, and its rank."""
    n = len(tree.edges) + 1
    inner = np.setdiff1d(np.arange(n - 1), cuts)
    inner = inner[np.isin(tree.edges[inner], part).all(axis=1)]
    logs = np.log(tree.lengths)
    ranks = {}
    for e in inner[tree.may_cut[inner]]:
        after = components(np.delete(tree.edges, [*cuts, e], axis=0), n)
        both = [np.flatnonzero(after == after[end]) for end in tree.edges[e]]
        one, other = (sizes[side].sum() for side in both)
        if one <= 0 or other <= 0:
            continue
        is_clear = min(one, other) >= 5
        for side in both:
            own = logs[inner[np.isin(tree.edges[inner], side).all(axis=1)]]
            is_clear &= len(own) > 0 and logs[e] - own.mean() > max(
                2.5 * own.std(), 1e-6
            )
        score = tree.lengths[e] * (one * other / (one + other)) ** SIZE_POWER
        # Of equal scores, which may differ by rounding, the first in cut order.
        ranks[int(e)] = bool(is_clear), float(f"{score:.12g}"), -int(e)
    if not ranks:
        return 0.0, None, (False, 0.0, 0)
    best = max(ranks, key=ranks.get)
    return max(score for _, score, _ in ranks.values()), best, ranks[best]


def naive_cuts(tree, sizes, n_cuts):
    """Cut the part of the largest rank, by components, one after the other.

    Cuts of other parts change nothing in a part, so each is looked at once.
    """
    n = len(tree.edges) + 1
    cuts, scores = [], []
    parts = [(np.arange(n), naive_part(tree, sizes, cuts, np.arange(n)))]
    while len(cuts) < n_cuts:
        known = [p for p, (_, found) in enumerate(parts) if found[1] is not None]
        if not known:
            break
        scores.append(max(parts[p][1][0] for p in known))
        part, (_, e, _) = parts.pop(max(known, key=lambda p: parts[p][1][2]))
        cuts.append(e)
        after = components(np.delete(tree.edges, cuts, axis=0), n)
        for end in tree.edges[e]:
            side = part[after[part] == after[end]]
            parts.append((side, naive_part(tree, sizes, cuts, side)))
    return cuts, scores


def gaps(rng, n):
    """Return a random tree that clear gaps divide into parts of unlike scales."""
    tree = random_tree(rng, n)
    lengths = np.exp(rng.normal(size=n - 1) * 0.3)
    scale = np.exp(rng.choice([0.0, 4.0], n))
    order = rng.permutation(n - 1)[: n // 20]
    lengths *= scale[tree.edges].min(axis=1)
    lengths[order] *= np.exp(rng.uniform(1, 8, len(order)))
    by_length = cut_order(tree.edges, lengths)
    return SpanningTree(tree.edges[by_length], lengths[by_length], tree.may_cut)


@pytest.mark.parametrize("seed", range(24))
def test_clear_gaps_are_their_definition(seed, global_random_seed):
    rng = np.random.default_rng(seed + 1000 * global_random_seed)
    tree = gaps(rng, int(rng.integers(55, 90)))
    sizes = np.round(rng.uniform(0.5, 1, len(tree.edges) + 1) * 64) / 64
    positions, scores, _ = cut(tree, 12, sizes=sizes)
    expected, expected_scores = naive_cuts(tree, sizes, 12)
    assert positions.tolist() == expected
    assert np.allclose(scores, expected_scores, rtol=1e-11)


def doubtful_gap(rng):
    """Return a tree of two or three parts, one small, with gaps near the limits."""
    counts = [int(rng.integers(50, 90)), int(rng.integers(5, 30))]
    if rng.random() < 0.6:
        counts.insert(0, 50)
    spread = rng.choice([0.03, 0.1, 0.3])
    edges, logs = [], []
    start = 0
    for part, count in enumerate(counts):
        is_last = part == len(counts) - 1
        own = spread * rng.choice([0.3, 1.0, 2.0]) if is_last else spread
        shift = spread * rng.uniform(0, 6) if is_last else 0.0
        for i in range(start + 1, start + count):
            edges.append((int(rng.integers(max(start, i - 4), i)), i))
            logs.append(shift + own * np.clip(rng.normal(), -1, 1))
        if start:
            edges.append((int(rng.integers(start)), start))
            limit = 2.5 * max(spread, own) * 0.55  # the deviation of clipped normals
            logs.append(shift + rng.uniform(0.6, 1.6) * limit)
        start += count
    edges, lengths = np.array(edges), np.exp(logs)
    order = cut_order(edges, lengths)
    return SpanningTree(edges[order], lengths[order], np.ones(start - 1, dtype=bool))


@pytest.mark.parametrize("seed", range(60))
def test_doubtful_gaps_are_judged_by_the_definition(seed):
    tree = doubtful_gap(np.random.default_rng(seed))
    sizes = np.ones(len(tree.edges) + 1)
    positions, _, _ = cut(tree, 3, sizes=sizes)
    assert positions.tolist() == naive_cuts(tree, sizes, 3)[0]


def test_lengths_that_differ_by_rounding_are_no_gaps():
    """Of a chain of equal lengths, the middle is cut."""
    edges = np.column_stack([np.arange(63), np.arange(1, 64)])
    lengths = np.ones(63)
    lengths[50] += 2e-15
    order = cut_order(edges, lengths)
    tree = SpanningTree(edges[order], lengths[order], np.ones(63, dtype=bool))
    positions, _, _ = cut(tree, 1, sizes=np.ones(64))
    assert tree.edges[positions[0]].tolist() == [31, 32]


@pytest.mark.parametrize("d", [2, 4, 10])
@pytest.mark.parametrize("n, n_small", [(600, 8), (2000, 10)])
def test_a_small_cluster_beside_a_large_one(n, n_small, d, global_random_seed):
    """That is halved where only sizes count."""
    rng = np.random.default_rng(global_random_seed)
    near = rng.normal(size=(n, d))
    small = rng.normal(size=(n_small, d)) * 0.5
    far = rng.normal(size=(n // 4, d)) * 0.7
    small[:, 0] += 8 + 0.5 * d**0.5
    far[:, 1] += 8 + 0.5 * d**0.5
    y = np.repeat([0, 1, 2], [n, n_small, n // 4])
    forest = SpanningForestClustering(3).fit(np.concatenate([near, small, far]))
    assert adjusted_rand_score(y, forest.labels_) > 0.99
    assert np.bincount(forest.labels_)[2] == n_small


@pytest.mark.parametrize("d", [3, 12])
def test_a_small_cluster_is_counted(d, global_random_seed):
    """The scores fall far after the large clusters."""
    rng = np.random.default_rng(global_random_seed)
    y = np.repeat([0, 1, 2], [600, 400, 14])
    X = rng.normal(size=(1014, d)) * np.array([1.0, 0.8, 0.6])[y, None]
    X[:, 0] += 30 * (y == 1)
    X[:, 1] += (8 + 0.5 * d**0.5) * (y == 2)
    with warnings.catch_warnings():
        # The falls show two clusters.
        warnings.simplefilter("ignore", ConvergenceWarning)
        forest = SpanningForestClustering("auto").fit(X)
    assert forest.n_clusters_ == 3
    assert adjusted_rand_score(y, forest.labels_) > 0.99


@pytest.mark.parametrize("sizes", [[1000, 400, 14, 14], [1000, 400, 40, 9]])
def test_small_clusters_of_unlike_scales_in_many_dimensions(sizes, global_random_seed):
    """Lengths differ little in each, so that two of them differ by many deviations."""
    rng = np.random.default_rng(global_random_seed)
    y = np.repeat(range(4), sizes)
    X = rng.normal(size=(len(y), 16)) * np.array([1.0, 0.8, 0.35, 0.75])[y, None]
    X[:, 0] += 30 * (y == 1)
    X[:, 1] += 40 * (y >= 2)
    X[:, 2] += 10 * (y == 3)
    labels = SpanningForestClustering(4).fit_predict(X)
    assert adjusted_rand_score(y, labels) == 1


@pytest.mark.parametrize("d", [2, 5])
@pytest.mark.parametrize("ratio, sizes", [(10, [300] * 5), (1e3, [900, 40, 300])])
def test_clusters_of_unlike_scales(ratio, sizes, d, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    center = np.zeros(d)
    parts = []
    for c, size in enumerate(sizes):
        step = rng.normal(size=d)
        center = center + 20 * ratio**c * step / np.linalg.norm(step)
        parts.append(center + ratio**c * rng.normal(size=(size, d)))
    y = np.repeat(np.arange(len(sizes)), sizes)
    labels = SpanningForestClustering(len(sizes)).fit_predict(np.concatenate(parts))
    assert adjusted_rand_score(y, labels) > 0.98


def test_gaps_leave_samples_without_weight_out(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = np.concatenate([rng.normal(size=(300, 4)), rng.normal(size=(8, 4)) + 6])
    X = np.concatenate([X, X + 1e-5 * rng.normal(size=X.shape)])
    weights = np.repeat([1.0, 0.0], [308, 308])
    labels = SpanningForestClustering(4).fit(X, sample_weight=weights).labels_
    expected = SpanningForestClustering(4).fit(X[:308]).labels_
    assert adjusted_rand_score(labels[:308], expected) == 1


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
    scaled = SpanningTree(tree.edges, tree.lengths * 2.0**30, tree.may_cut)
    assert np.array_equal(cut(scaled, 59, sizes=sizes)[0], positions)
    assert np.array_equal(sizes_of(scaled), sizes_of(tree))


def points_and_tree(X):
    tree = minimum_spanning_tree(X)
    may_cut = tree.lengths > 0
    return SpanningTree(tree.edges, tree.lengths, may_cut)


def test_a_weight_is_so_many_equal_samples(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = np.concatenate([rng.normal(size=(60, 2)), rng.normal(size=(5, 2)) * 300])
    weights = rng.integers(1, 4, 65)
    once = points_and_tree(X)
    repeated = points_and_tree(np.repeat(X, weights, axis=0))
    weights_once = weights * 1.0
    sizes = sizes_of(once, weights_once)
    sizes_repeated = sizes_of(repeated)
    assert np.array_equal(np.repeat(sizes / weights, weights), sizes_repeated)
    first = cut(once, 20, sizes=sizes)
    second = cut(repeated, 20, sizes=sizes_repeated)
    assert np.allclose(first[1], second[1], rtol=1e-12)
    labels = components(once.edges[~mask(first[0], once)], 65)
    others = components(repeated.edges[~mask(second[0], repeated)], weights.sum())
    assert adjusted_rand_score(np.repeat(labels, weights), others) == 1


def test_many_clusters_alike_are_counted(global_random_seed):
    """Scores of a hundred cuts are nearly equal, so that no fall is large."""
    rng = np.random.default_rng(global_random_seed)
    grid = 8.0 * np.stack(np.meshgrid(range(11), range(11)), -1).reshape(-1, 2)
    X = np.repeat(grid, 15, axis=0) + rng.uniform(-1, 1, (1815, 2))
    assert SpanningForestClustering("auto").fit(X).n_clusters_ == 121


def test_a_doubtful_number_is_named_beside_the_other():
    """Two pairs of squares, near each other."""
    rng = np.random.default_rng(1)
    corners = np.array([[0.0, 0.0], [2.3, 0.0], [60.0, 0.0], [62.3, 0.0]])
    X = np.concatenate([c + rng.uniform(-1, 1, (60, 2)) for c in corners])
    message = r"takes 3 clusters, but 2 or 5 win if .* see n_clusters_candidates_"
    with pytest.warns(ConvergenceWarning, match=message):
        forest = SpanningForestClustering("auto").fit(X)
    assert forest.n_clusters_ == 3
    assert forest.n_clusters_candidates_.tolist() == [2, 3, 5]


# At the end of the file, when another process has compiled the kernels.
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n, core", [(120, 5), (60, 3), (59, 2)])
@pytest.mark.parametrize("seed", range(4))
def test_core_sizes_are_their_definition(
    seed, n, core, weighted, compiled, cold, monkeypatch, global_random_seed
):
    if compiled:
        monkeypatch.setattr("skdiffclust._compiled.is_ready", lambda kernel: True)
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
    local = np.full(n, np.nan)
    for threshold in np.concatenate([[0.0], tree.lengths[order]]):
        labels = components(tree.edges[tree.lengths <= threshold], n)
        mass = np.bincount(labels, weights)[labels]
        radii[(mass >= core) & np.isnan(radii)] = threshold
        # A component without a core has no neighbourhood, either.
        for i in np.flatnonzero((mass >= 20) & np.isnan(local)):
            own = np.flatnonzero((labels == labels[i]) & (radii > 0) & (weights > 0))
            local[i] = 0.0
            if len(own):
                local[i] = np.exp(np.average(np.log(radii[own]), weights=weights[own]))
    positive = (radii > 0) & (weights > 0)
    repeated = np.repeat(radii[positive], weights[positive].astype(int))
    median = np.sort(repeated)[(len(repeated) + 1) // 2 - 1]
    with np.errstate(divide="ignore"):
        expected = np.minimum(1, (20 * np.maximum(median, local) / radii) ** 2)
    expected = np.where(radii > 20 * median, expected, 1.0) * weights
    known = weights if weighted else None
    found = sizes_of(tree, known)
    assert np.allclose(found, expected, atol=1e-6 * weights.max())
    assert found.min() >= 0
