"""Size-weighted cuts, against their definition carried out naively."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from skdiffclust import SpanningForestClustering
from skdiffclust.forests import SpanningTree, minimum_spanning_tree
from skdiffclust.forests._hierarchy import _tree_cuts
from skdiffclust.forests._hierarchy._core_sizes import core_radii, core_sizes
from skdiffclust.forests._hierarchy._number import (
    choose_number,
    falls_of,
    gains_of_cuts,
    number_by_falls,
)
from skdiffclust.forests._hierarchy._outliers import outlier_scores
from skdiffclust.forests._hierarchy._tree_cuts import SIZE_POWER, cut, mask
from skdiffclust.forests._trees import _compilation_threshold
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
    linkage = tree.linkage()
    return core_sizes(core_radii(linkage, weights), linkage, weights)


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


def test_clear_gaps_are_cut_sooner_and_change_no_largest_score(monkeypatch):
    """Nested, non-increasing, without a unit; and the rule matters on these trees."""
    n_changed = 0
    for seed in range(30):
        tree = gaps(np.random.default_rng(seed), 200)
        sizes = np.ones(200)
        positions, scores, _ = cut(tree, 60, sizes=sizes)
        assert (np.diff(scores) <= 0).all()
        for n_cuts in (1, 7, 31):
            assert np.array_equal(cut(tree, n_cuts, sizes=sizes)[0], positions[:n_cuts])
        scaled = SpanningTree(tree.edges, tree.lengths * 2.0**30, tree.may_cut)
        assert np.array_equal(cut(scaled, 60, sizes=sizes)[0], positions)
        with monkeypatch.context() as without:
            without.setattr(_tree_cuts, "LEAST_CLUSTER", np.inf)
            plain, plain_scores, _ = cut(tree, 60, sizes=sizes)
        n_changed += not np.array_equal(plain, positions)
        assert scores[0] == plain_scores[0]
        assert (scores >= plain_scores).all()
    assert n_changed > 10


def test_lengths_that_differ_by_rounding_are_no_gaps():
    """Of a chain of equal lengths, the middle is cut."""
    edges = np.column_stack([np.arange(63), np.arange(1, 64)])
    lengths = np.ones(63)
    lengths[50] += 2e-15
    order = cut_order(edges, lengths)
    tree = SpanningTree(edges[order], lengths[order], np.ones(63, dtype=bool))
    positions, _, _ = cut(tree, 1, sizes=np.ones(64))
    assert tree.edges[positions[0]].tolist() == [31, 32]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_sizes_of_a_power_law(seed):
    """Small clusters are told apart before the largest is halved."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(12), [1277, 319, 141, 79, 51, 35, 26, 19, 15, 12, 10, 10])
    X = rng.normal(size=(len(y), 5))
    X[:, 0] += 12 * rng.permutation(12)[y]
    model = SpanningForestClustering(12).fit(X)
    assert adjusted_rand_score(y, model.labels_) == 1


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


def test_forced_edges_come_first_and_lengths_of_zero_last():
    edges = np.array([[3, 4], [0, 1], [1, 2], [2, 3]])
    lengths = np.array([np.inf, 3.0, 2.0, 0.0])
    tree = SpanningTree(edges, lengths, lengths > 0)
    positions, scores, _ = cut(tree, 4, sizes=np.ones(5))
    assert positions.tolist() == [0, 1, 2]
    assert np.isinf(scores[0])
    assert np.allclose(scores[1:], [3 * 0.75**0.75, 2 * (2 / 3) ** 0.75])


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


def test_the_number_of_clusters_is_where_the_gains_end():
    scores = np.array([9.0, 8.0, 7.0, 6.0, 5.0, 4.0])
    gains = np.array([0.5, -0.1, 0.6, 0.2, 0.0, -1.0])
    costs = np.full(6, 0.13)
    choice = choose_number(scores, gains, costs, 1, 100)
    assert choice.n_clusters == 5
    # At higher costs, fewer cuts are worth them.
    assert choice.candidates.tolist() == [2, 4, 5]
    assert choice.largest_sum == pytest.approx(1.2 - 4 * 0.13)
    assert choice.by_falls == 6
    # Without gains the falls decide; half the costs leave some of it.
    nothing = choose_number(scores, -np.abs(gains), costs, 1, 100)
    assert nothing.candidates.tolist() == [6]
    assert nothing.largest_sum == 0
    little = choose_number(scores, np.array([0.1, *[-1.0] * 5]), costs, 1, 100)
    assert little.n_clusters == 6
    assert little.candidates.tolist() == [2, 6]
    # Forced cuts count for nothing; without gains the parts remain.
    forced = np.array([np.inf, np.inf, 9.0, 8.0, 7.0])
    missing = np.array([np.nan, np.nan, -1.0, -1.0, -1.0])
    assert choose_number(forced, missing, costs[:5], 3, 100).n_clusters == 3
    assert choose_number(forced, missing + 2, costs[:5], 3, 100).n_clusters == 6
    # At most a tenth of the samples, or five, or 200.
    many = np.ones(300), np.ones(300), np.full(300, 0.1)
    for n_samples, most in ((100, 10), (40, 5), (8, 4), (10_000, 200)):
        assert choose_number(*many, 1, n_samples).n_clusters == most
    one = np.ones(1)
    assert choose_number(one, one, one / 2, 1, 100).n_clusters == 2
    empty = choose_number(one[:0], one[:0], one[:0], 1, 100)
    assert empty.candidates.tolist() == [empty.n_clusters] == [1]


@pytest.mark.parametrize("seed", range(20))
def test_candidates_win_for_some_costs(seed, global_random_seed):
    rng = np.random.default_rng(seed + 1000 * global_random_seed)
    gains = rng.normal(size=30)
    costs = rng.exponential(size=30) * 0.4
    scores = np.sort(rng.exponential(size=30))[::-1]
    choice = choose_number(scores, gains, costs, 1, 1000)
    winners = set()
    for multiple in np.linspace(0.5, 2, 4001):
        sums = np.cumsum(gains - multiple * costs)
        winners.add(2 + int(np.argmax(sums)) if sums.max() > 0 else choice.by_falls)
    # A line may be shorter than the steps.
    assert winners <= set(choice.candidates.tolist())
    assert len(choice.candidates) <= len(winners) + 1
    assert choice.n_clusters in choice.candidates


def test_the_number_by_falls_is_that_after_the_last_large_one():
    scores = np.array([100.0, 10.0, 4.0, 3.9])
    assert number_by_falls(falls_of(scores)) == 3
    # Without a half, a fall late in the curve counts for more than an early one.
    scores = np.array([100.0, 61.0, 60.0, 59.0, 58.0, 57.0, 56.0, 37.0, 36.0])
    assert number_by_falls(falls_of(scores)) == 8
    assert len(falls_of(np.zeros(3))) == 0


def test_gains_are_their_definition(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.normal(size=(90, 2)) + np.repeat([0, 9, -9], [60, 26, 4])[:, None]
    tree = points_and_tree(X)
    weights = rng.integers(1, 4, 90) * 1.0
    positions, _, _ = cut(tree, 12, sizes=weights)
    found, costs = gains_of_cuts(tree, positions, weights)
    n_few = 0
    for i, position in enumerate(positions):
        is_cut = mask(positions[: i + 1], tree)
        labels = components(tree.edges[~is_cut], 90)
        most = 0.0
        totals = []
        for end in tree.edges[position]:
            side = labels == labels[end]
            inner = ~is_cut & side[tree.edges].all(axis=1)
            totals.append(weights[side].sum())
            for length in np.sort(np.append(tree.lengths[inner], 0.0)):
                joined = components(tree.edges[inner & (tree.lengths <= length)], 90)
                if np.bincount(joined, weights * side).max() >= 0.8 * totals[-1]:
                    break
            most = max(most, length)
        most = max(most, np.finfo(float).eps * tree.lengths[position])
        expected = np.log(tree.lengths[position] / most)
        cost = 5 / min(totals) + 0.1
        if min(totals) < 5:
            n_few += 1
            expected, cost = min(expected, 0.0), 0.1
        assert np.isclose(found[i], expected)
        assert np.isclose(costs[i], cost)
    assert 0 < n_few < 12
    # It depends on neither the unit nor the division of a sample into equal ones.
    longer = replace(tree, lengths=8.0 * tree.lengths)
    assert np.allclose(gains_of_cuts(longer, positions, weights)[0], found)


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


def test_outlier_scores_are_their_definition(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    radii = rng.exponential(size=60)
    labels = rng.integers(0, 3, 60)
    weights = rng.integers(1, 4, 60)
    found = outlier_scores(radii, labels, weights)
    for label in range(3):
        own = np.sort(np.repeat(radii[labels == label], weights[labels == label]))
        median = own[(len(own) + 1) // 2 - 1]
        expected = radii[labels == label] / (radii[labels == label] + median)
        assert np.allclose(found[labels == label], expected)
    assert np.array_equal(outlier_scores(np.zeros(5), np.zeros(5, int)), np.zeros(5))


# At the end of the file, when another process has compiled the kernels.
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n, core", [(120, 5), (60, 3), (59, 2)])
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
