"""Kruskal on noisy edge lists, against scipy and Prim; pruning, sample for sample."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from skdiffclust._constraints import as_constraints
from skdiffclust.forests._constrained._dense_trees import tree_of_rows
from skdiffclust.forests._perturbed._heaviest_forest import (
    cuts_of,
    heaviest_forest,
    workspace,
)
from skdiffclust.forests._perturbed._noise import quantile_table
from skdiffclust.forests._perturbed._pruning import can_enter, kept_edges
from skdiffclust.forests._perturbed._relation import relation_of
from skdiffclust.forests._perturbed._samplers import (
    ContractedSampler,
    FreeSampler,
    Noise,
    noise_width,
)
from skdiffclust.forests._perturbed._sampling import (
    sample_free,
)


def similarities(n, kind, seed):
    rng = np.random.RandomState(seed)
    if kind == "points":
        points = rng.randn(n, 2)
        matrix = -((points[:, None] - points[None]) ** 2).sum(axis=2)
    elif kind == "ties":
        matrix = rng.randint(-2, 3, size=(n, n)).astype(float)
    elif kind == "outlier":
        matrix = rng.rand(n, n)
        matrix[0, 1:] = -1e6
    else:
        matrix = rng.randn(n, n)
    matrix = np.triu(matrix, 1)
    return matrix + matrix.T


KINDS = ["points", "ties", "outlier", "random"]


def plan(scale, n_samples, *, seed=0, kind="normal", antithetic=True):
    return Noise(scale, n_samples, kind, antithetic, np.uint64(seed))


def noisy_copies(relation, noise):
    """The matrices that the samples are solved on, from the same counters."""
    from skdiffclust.forests._perturbed._noise import draw_list, noise_workspace

    n, m = relation.n_samples, len(relation.weights)
    draws, copies = np.empty(m), []
    for sample in range(noise.n_samples):
        draw_list(
            noise.seed,
            sample // noise.samples_per_draw,
            sample % noise.samples_per_draw,
            relation.indptr,
            relation.columns,
            noise.table,
            noise_workspace(n),
            draws,
        )
        copies.append(relation.spread(relation.weights + noise.scale * draws))
    return copies


def forest_by_prim(matrix, n_clusters):
    """Edges (n - k, 2) of the maximum spanning forest, heaviest first."""
    n = len(matrix)
    up = np.empty(n, dtype=np.int64)
    rows = np.arange(n)
    tree_of_rows(matrix, rows, up)
    lower = rows[1:]
    edges = np.sort(np.column_stack([lower, up[lower]]), axis=1)
    order = np.lexsort((*edges.T[::-1], -matrix[edges[:, 0], edges[:, 1]]))
    return edges[order[: n - n_clusters]]


def sampled(relation, noise, n_clusters):
    return sample_free(
        noise.seed,
        (0, noise.n_samples),
        noise.samples_per_draw,
        noise.scale,
        quantile_table(noise.kind),
        relation.edges,
        relation.n_samples - n_clusters,
        cuts_of(relation.weights, float(relation.n_samples)),
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("noise", ["normal", "gumbel"])
def test_kruskal_is_prim_sample_for_sample(kind, noise, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    for n in (1, 2, 3, 17, 60):
        seed = n + 1000 * global_random_seed
        relation = relation_of(similarities(n, kind, seed))
        k = rng.randint(1, n + 1)
        noise_plan = plan(0.1, 6, seed=seed, kind=noise)
        forests, labels, totals, minimum_weights = sampled(relation, noise_plan, k)
        for s, matrix in enumerate(noisy_copies(relation, noise_plan)):
            edges = forest_by_prim(matrix, k)
            found = np.column_stack([relation.heads, relation.columns])[forests[s]]
            np.testing.assert_array_equal(found, edges)
            weights = matrix[edges[:, 0], edges[:, 1]]
            assert totals[s] == pytest.approx(weights.sum(), rel=1e-12, abs=1e-12)
            assert minimum_weights[s] == (weights.min() if len(weights) else np.inf)
            assert len(np.unique(labels[s])) == k
            assert (labels[s][edges[:, 0]] == labels[s][edges[:, 1]]).all()


def test_kruskal_without_noise_is_scipy(global_random_seed):
    for kind in ("points", "random"):
        matrix = similarities(40, kind, global_random_seed + 3)
        relation = relation_of(matrix)
        _, _, totals, _ = sampled(
            relation, plan(0.0, 1, antithetic=False, seed=global_random_seed), 1
        )
        shifted = matrix.max() + 1 - matrix
        np.fill_diagonal(shifted, 0)
        expected = minimum_spanning_tree(shifted).sum()
        assert 39 * (matrix.max() + 1) - totals[0] == pytest.approx(expected)


@given(
    n=st.integers(2, 30),
    k=st.integers(1, 30),
    kind=st.sampled_from(KINDS),
    scale=st.sampled_from([0.0, 1e-9, 0.02, 0.3, 10.0]),
    seed=st.integers(0, 2**32 - 1),
)
@settings(deadline=None)
def test_pruning_changes_no_sample(n, k, kind, scale, seed):
    relation = relation_of(similarities(n, kind, seed))
    noise = plan(scale, 6, seed=seed)
    k = min(k, n)
    sampler = FreeSampler(relation, k, noise)
    assert sampler.kept is not None
    names = ("forests", "components", "weights", "lowest values")
    found, expected = sampler.sample(0, 6), sampled(relation, noise, k)
    for name, one, other in zip(names, found, expected, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=name)


def test_pruning_keeps_few_edges_and_those_that_can_enter(global_random_seed):
    matrix = similarities(200, "points", global_random_seed)
    matrix /= matrix.std()
    relation = relation_of(matrix)
    shares = []
    for scale in (0.1, 0.01):
        sampler = FreeSampler(relation, 5, plan(scale, 2, seed=global_random_seed))
        shares.append(len(sampler.edges[0]) / len(relation.weights))
    assert 0.01 < shares[1] < shares[0] / 2 < 0.45


def test_bottlenecks_are_those_of_the_forest(global_random_seed):
    n, k = 30, 4
    relation = relation_of(similarities(n, "points", global_random_seed))
    weights, _, columns, heads, tails = relation.edges
    work = workspace(len(weights), n)
    cuts = cuts_of(weights, float(n))
    n_found = heaviest_forest(weights, heads, tails, n - k, cuts, work)
    accepted = work[-1][:n_found].copy()
    # By brute force: the narrowest edge on the way between two rows in the forest.
    narrow = np.full((n, n), -np.inf)
    np.fill_diagonal(narrow, np.inf)
    for e in accepted:
        i, j = heads[e], columns[e]
        between = np.minimum.outer(narrow[:, i], narrow[j])
        between = np.maximum(between, between.T)
        narrow = np.maximum(narrow, np.minimum(between, weights[e]))
    bound = np.maximum(narrow[heads, columns], weights[accepted].min())
    for slack in (0.0, 0.1, 1.0):
        marked = can_enter(accepted, weights, heads, tails, n, slack)
        np.testing.assert_array_equal(marked, weights + slack >= bound)
        edges, kept = kept_edges(marked, relation.edges)
        np.testing.assert_array_equal(edges[0], weights[marked])
        np.testing.assert_array_equal(np.flatnonzero(marked), kept)


def test_noise_width_is_the_range_of_a_sample():
    assert noise_width(plan(0.1, 1)) == pytest.approx(0.1 * 2 * 6.3379577545537895)


@pytest.mark.paper
def test_thousand_cases_kruskal_is_prim():
    rng = np.random.RandomState(0)
    for case in range(1000):
        n = rng.randint(2, 65)
        k = rng.randint(1, n + 1)
        relation = relation_of(similarities(n, KINDS[case % 4], case))
        noise = plan(rng.choice([0.02, 0.1, 1.0]), 2, seed=case)
        forests = FreeSampler(relation, k, noise).sample(0, 2)[0]
        pairs = np.column_stack([relation.heads, relation.columns])
        for s, matrix in enumerate(noisy_copies(relation, noise)):
            np.testing.assert_array_equal(pairs[forests[s]], forest_by_prim(matrix, k))


@pytest.mark.parametrize("kind", KINDS)
def test_forests_do_not_depend_on_where_the_work_is_divided(kind, global_random_seed):
    n, k = 40, 3
    weights, _, _, heads, tails = relation_of(
        similarities(n, kind, global_random_seed)
    ).edges
    work = workspace(len(weights), n)
    accepted = []
    for wanted in (1.0, 2.0 * n, 1e9):
        cuts = cuts_of(weights, wanted)
        assert cuts[-1] == -np.inf
        assert (np.diff(cuts) < 0).all()
        assert heaviest_forest(weights, heads, tails, n - k, cuts, work) == n - k
        accepted.append(work[-1][: n - k].copy())
    assert (accepted[0] == accepted[1]).all()
    assert (accepted[0] == accepted[2]).all()
    if kind in ("points", "random"):
        n_above = np.sum(weights >= cuts_of(weights, 2.0 * n)[0])
        assert 2 * n <= n_above < 3 * n


def test_trees_of_contracted_samples_are_the_heaviest_of_their_components(
    global_random_seed,
):
    n = 40
    k = 5
    rng = np.random.RandomState(global_random_seed)
    matrix = similarities(n, "points", global_random_seed) - 1.0
    labels = np.full(n, -1)
    labels[rng.permutation(n)[:15]] = np.arange(15) % 3
    same = (labels[:, None] == labels) & (labels >= 0)
    kept = same | (matrix > np.quantile(matrix, 0.3))
    relation = relation_of(csr_array(np.where(kept, matrix, 0.0)))
    assert not relation.is_complete
    noise = plan(0.1, 6, seed=global_random_seed)
    constraints = as_constraints(n, partial_labels=labels)
    found = ContractedSampler(relation, constraints, k, noise).sample(0, 6)
    copies = noisy_copies(relation, noise)
    for copy, forest, total, low in zip(
        copies, found.forests, found.totals, found.minimum_weights, strict=True
    ):
        matrix = copy.toarray()
        edges = np.zeros((n, n))
        edges[relation.heads[forest], relation.columns[forest]] = 1
        n_components, component = connected_components(edges, directed=False)
        assert n_components == k and edges.sum() == n - k
        for label in range(3):
            assert len(np.unique(component[labels == label])) == 1
        assert len(np.unique(component[labels >= 0])) == 3
        # Shifted, so that no stored weight is zero and every tree is spanning.
        inside = (component[:, None] == component) & (matrix != 0)
        shift = matrix.max() + 1.0
        tree = minimum_spanning_tree(csr_array(np.where(inside, shift - matrix, 0.0)))
        heaviest = (n - k) * shift - tree.sum()
        assert total == pytest.approx(heaviest, rel=1e-12)
        assert total == pytest.approx((edges * matrix).sum(), rel=1e-12)
        assert low == matrix[edges > 0].min()
