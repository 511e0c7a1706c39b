"""perturbed_forest: means against large references, noise, threads, wrong input."""

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from skdiffclust.forests import maximum_spanning_forest, perturbed_forest
from skdiffclust.forests._perturbed._perturbation import (
    checked_relation,
    vjp,
)
from skdiffclust.forests._perturbed._samplers import Noise, make_sampler


def affinity_of(n, seed=0):
    points = np.random.RandomState(seed).randn(n, 3)
    matrix = -((points[:, None] - points[None]) ** 2).sum(axis=2)
    return (matrix - matrix.mean()) / matrix.std()


def graph_of(n, edges, weights):
    """Symmetric sparse graph that stores every weight, zeros too."""
    i, j = np.array(edges).T
    ends = np.concatenate([i, j]), np.concatenate([j, i])
    return sparse.coo_array((np.tile(weights, 2).astype(float), ends), shape=(n, n))


def labels_of(n, k, seed=0):
    """Partial labels that k clusters can meet."""
    rng = np.random.RandomState(seed)
    labels = np.full(n, -1)
    rows = rng.permutation(n)[: n // 2]
    labels[rows] = rng.randint(0, max(1, min(k, 3)), size=len(rows))
    return labels


def feasible(labels, k):
    n_classes = len(np.unique(labels[labels >= 0]))
    return n_classes <= k <= n_classes + (labels < 0).sum()


def numpy_reference(affinity, k, scale, n_samples, noise, seed):
    """A_ε, M_ε and F_ε with standard errors from NumPy's own normal noise."""
    rng = np.random.RandomState(seed)
    n = len(affinity)
    draw = rng.standard_normal if noise == "normal" else lambda m: rng.gumbel(size=m)
    i, j = np.triu_indices(n, 1)
    forest, connected, totals = np.zeros((n, n)), np.zeros((n, n)), []
    for _ in range(n_samples):
        noisy = np.zeros((n, n))
        noisy[i, j] = noisy[j, i] = affinity[i, j] + scale * draw(len(i))
        tree = sparse.csgraph.minimum_spanning_tree(np.triu(noisy.max() + 1 - noisy, 1))
        heads, tails = tree.nonzero()
        kept = np.argsort(tree.data)[: n - k]
        heads, tails = heads[kept], tails[kept]
        forest[heads, tails] += 1
        totals.append(2 * noisy[heads, tails].sum())
        links = np.zeros((n, n))
        links[heads, tails] = 1
        parts = sparse.csgraph.connected_components(links, directed=False)[1]
        connected += parts[:, None] == parts[None, :]
    return (forest + forest.T) / n_samples, connected / n_samples, np.array(totals)


def assert_close(mean, reference, n_mean, n_reference):
    """Frequencies within 4.5 standard errors, floored for those that are 0 or 1."""
    pooled = (n_mean * mean + n_reference * reference) / (n_mean + n_reference)
    variance = np.maximum(pooled * (1 - pooled), 1 / n_mean)
    error = np.sqrt(variance * (1 / n_mean + 1 / n_reference))
    assert (np.abs(mean - reference) <= 4.5 * error).all()


def compare_with_reference(n, k, noise, n_samples, n_reference, seed):
    affinity = affinity_of(n, seed)
    result = perturbed_forest(
        affinity,
        k,
        noise_scale=0.3,
        n_perturbations=n_samples,
        noise=noise,
        random_state=seed,
        return_connectivity=True,
    )
    forest, connected, totals = numpy_reference(
        affinity, k, 0.3, n_reference, noise, seed
    )
    # Antithetic pairs are not independent: count them as single draws.
    assert_close(result.forest, forest, n_samples / 2, n_reference)
    assert_close(result.connectivity, connected, n_samples / 2, n_reference)
    # Pairs have at most the variance of half as many samples.
    error = totals.std() * np.sqrt(2 / n_samples + 1 / n_reference)
    assert abs(result.weight - totals.mean()) <= 4.5 * error + 1e-9


@pytest.mark.parametrize("noise", ["normal", "gumbel"])
def test_means_are_those_of_independent_noise(noise, global_random_seed):
    compare_with_reference(8, 3, noise, 4000, 1000, global_random_seed)


@pytest.mark.paper
@pytest.mark.parametrize("noise", ["normal", "gumbel"])
@pytest.mark.parametrize("n, k", [(5, 1), (5, 5), (16, 4), (64, 10)])
def test_means_against_200_000_samples(n, k, noise):
    compare_with_reference(n, k, noise, 200_000, 20_000, n)


@pytest.mark.parametrize("k", [1, 3, 12])
def test_without_noise_it_is_the_forest(k, global_random_seed):
    affinity = affinity_of(12, global_random_seed)
    exact = maximum_spanning_forest(affinity, k)
    result = perturbed_forest(affinity, k, noise_scale=0, return_connectivity=True)
    edges = np.column_stack(np.nonzero(np.triu(result.forest)))
    np.testing.assert_array_equal(
        edges,
        np.sort(exact.edges, axis=1)[np.lexsort(np.sort(exact.edges, axis=1).T[::-1])]
        if len(edges)
        else np.empty((0, 2)),
    )
    assert result.weight == pytest.approx(2 * exact.weight)
    labels = exact.labels
    np.testing.assert_array_equal(
        result.connectivity, labels[:, None] == labels[None, :]
    )


def test_pairs_of_noise_make_the_weight_less_noisy(global_random_seed):
    affinity = affinity_of(20, global_random_seed)
    in_pairs, single = (
        [
            np.mean(
                [
                    perturbed_forest(
                        affinity, 4, n_perturbations=size, random_state=seed
                    ).weight
                    for seed in range(first, first + 20 // size)
                ]
            )
            for first in range(0, 1000, 20)
        ]
        for size in (2, 1)
    )
    assert np.std(in_pairs) < 0.8 * np.std(single)  # a half, on average


@pytest.mark.parametrize("n_perturbations", [1, 2, 7])
def test_any_number_of_samples(n_perturbations, global_random_seed):
    result = perturbed_forest(
        affinity_of(8, global_random_seed),
        3,
        n_perturbations=n_perturbations,
        random_state=global_random_seed,
    )
    assert result.forest.sum() / 2 == pytest.approx(5)
    counts = result.forest * n_perturbations
    np.testing.assert_allclose(counts, np.round(counts))


@pytest.mark.parametrize("constrained", [False, True])
def test_same_bits_for_any_number_of_threads(constrained, global_random_seed):
    # Enough for several chunks, and for threads.
    affinity = affinity_of(150, global_random_seed)
    labels = labels_of(150, 5, global_random_seed)
    results = []
    for n_threads in (1, 2, 3):
        with threadpool_limits(n_threads):
            result = perturbed_forest(
                affinity,
                5,
                n_perturbations=61,
                constraints=labels if constrained else None,
                random_state=global_random_seed,
                return_connectivity=True,
            )
        results.append(result)
    for other in results[1:]:
        for name in ("forest", "connectivity", "weight"):
            np.testing.assert_array_equal(
                getattr(results[0], name), getattr(other, name)
            )


def test_sparse_affinity_keeps_its_pattern(global_random_seed):
    affinity = affinity_of(15, global_random_seed)
    graph = sparse.csr_array(np.where(affinity > -0.5, affinity, 0))
    graph.setdiag(0)
    graph.eliminate_zeros()
    result = perturbed_forest(graph, 4, random_state=global_random_seed)
    assert isinstance(result.forest, sparse.csr_array)
    assert result.forest.nnz <= graph.nnz
    missing = np.where(affinity > -0.5, affinity, -1e3)
    dense = perturbed_forest(missing, 4, random_state=global_random_seed)
    np.testing.assert_array_equal(result.forest.toarray(), dense.forest)


def test_stored_zero_is_an_edge():
    graph = graph_of(3, [[0, 1], [1, 2]], [0.0, -1.0])
    forest = perturbed_forest(graph, 1, noise_scale=0).forest.toarray()
    np.testing.assert_array_equal(forest, [[0, 1, 0], [1, 0, 1], [0, 1, 0]])


def test_sparse_graph_in_too_many_pieces_is_refused():
    graph = graph_of(4, [[0, 1]], [1.0])
    with pytest.raises(ValueError, match="at least 3, the number of components"):
        perturbed_forest(graph, 2)


@pytest.mark.parametrize("n, k, seed", [(8, 3, 0), (12, 2, 1), (20, 6, 2)])
def test_constrained_forest_meets_the_constraints(n, k, seed, global_random_seed):
    seed += 1000 * global_random_seed
    labels = labels_of(n, k, seed)
    assert feasible(labels, k)
    result = perturbed_forest(
        affinity_of(n, seed),
        k,
        constraints=labels,
        random_state=global_random_seed,
        return_connectivity=True,
    )
    known = labels >= 0
    expected = (labels[:, None] == labels[None, :])[np.ix_(known, known)]
    np.testing.assert_array_equal(result.connectivity[np.ix_(known, known)], expected)
    assert result.forest.sum() / 2 == pytest.approx(n - k)
    free = perturbed_forest(affinity_of(n, seed), k, random_state=global_random_seed)
    assert result.weight <= free.weight


def test_labels_and_their_matrix_are_one(global_random_seed):
    labels = labels_of(12, 3, global_random_seed)
    known = labels >= 0
    matrix = np.where(labels[:, None] == labels[None, :], 1, -1)
    matrix[~known] = matrix[:, ~known] = 0
    results = [
        perturbed_forest(
            affinity_of(12, global_random_seed),
            3,
            constraints=c,
            random_state=global_random_seed,
        ).forest
        for c in (labels, matrix, sparse.csr_array(matrix))
    ]
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_pairs_are_kept(global_random_seed):
    n = 10
    matrix = np.zeros((n, n), dtype=int)
    matrix[0, 1] = matrix[4, 5] = 1
    matrix[0, 4] = matrix[2, 3] = matrix[3, 6] = -1
    result = perturbed_forest(
        affinity_of(n, global_random_seed),
        4,
        constraints=matrix,
        random_state=global_random_seed,
        return_connectivity=True,
    )
    links = result.connectivity
    assert links[0, 1] == links[4, 5] == 1
    assert links[0, 4] == links[1, 5] == links[2, 3] == links[3, 6] == 0


def test_free_and_constrained_forests_share_their_noise(global_random_seed):
    # Constraints that every sample meets by itself change nothing at all.
    x = np.array([0.0, 0.1, 5.0, 5.1])
    affinity = -np.abs(x[:, None] - x[None, :])
    free = perturbed_forest(affinity, 2, random_state=global_random_seed)
    bound = perturbed_forest(
        affinity, 2, constraints=[0, -1, 1, -1], random_state=global_random_seed
    )
    np.testing.assert_array_equal(free.forest, bound.forest)
    assert free.weight == pytest.approx(bound.weight, rel=1e-12)


@pytest.mark.parametrize("connected", [False, True])
@pytest.mark.parametrize("noise", ["normal", "gumbel"])
def test_score_function_is_the_derivative_of_the_mean(
    connected, noise, global_random_seed
):
    # On three rows: finite differences of a mean over fresh noise.
    affinity = np.array([[0, 0.3, -0.2], [0.3, 0, 0.1], [-0.2, 0.1, 0]])
    cotangent = np.array([[0, 1.0, -2], [1, 0, 0.5], [-2, 0.5, 0]])
    kwargs = {"noise_scale": 0.5, "noise": noise, "n_perturbations": 40_000}
    plan = Noise(0.5, 40_000, noise, np.uint64(1))
    relation = checked_relation(affinity, 2)
    sampler = make_sampler(relation, None, 2, plan)
    name = "connectivity" if connected else "forest"
    gradient = vjp(relation, sampler, plan, **{name: cotangent})

    def value(moved):
        result = perturbed_forest(
            moved,
            2,
            random_state=global_random_seed,
            return_connectivity=connected,
            **kwargs,
        )
        return np.sum(getattr(result, name) * cotangent)

    for e, (i, j) in enumerate([(0, 1), (0, 2), (1, 2)]):
        step = np.zeros((3, 3))
        step[i, j] = step[j, i] = 0.05
        slope = (value(affinity + step) - value(affinity - step)) / 0.1
        assert 2 * gradient[e] == pytest.approx(slope, abs=0.2)


@pytest.mark.parametrize(
    "change, match",
    [
        ({"noise_scale": -0.1}, "'noise_scale' parameter"),
        ({"noise_scale": np.nan}, "'noise_scale' parameter"),
        ({"noise_scale": np.inf}, "'noise_scale' parameter"),
        ({"n_perturbations": 0}, "'n_perturbations' parameter"),
        ({"noise": "uniform"}, "'noise' parameter"),
        ({"n_clusters": 0}, "'n_clusters' parameter"),
        ({"n_clusters": 9}, "at most the number of samples, 8. Got 9"),
        ({"n_clusters": 2.5}, "'n_clusters' parameter"),
        (
            {"affinity": np.full((8, 8), np.nan)},
            "'affinity' parameter must be finite",
        ),
        ({"affinity": np.zeros((8, 7))}, "square matrix"),
        ({"affinity": np.ma.masked_array(np.zeros((8, 8)))}, "masked"),
        ({"constraints": np.zeros(7, dtype=int)}, "'constraints' parameter"),
        ({"constraints": np.arange(8)}, "at least 8, the number of classes"),
        ({"constraints": np.zeros(8, dtype=int)}, "at most 1, the number of groups"),
    ],
)
def test_wrong_input_is_refused(change, match, global_random_seed):
    arguments = {
        "affinity": affinity_of(8, global_random_seed),
        "n_clusters": 3,
        **change,
    }
    with pytest.raises(ValueError, match=match):
        perturbed_forest(**arguments)


def test_links_on_a_graph_without_all_pairs_are_refused(global_random_seed):
    graph = sparse.csr_array(affinity_of(6, global_random_seed))
    graph[0, 1] = graph[1, 0] = 0
    graph.eliminate_zeros()
    links = np.zeros((6, 6), dtype=int)
    links[0, 2] = links[2, 3] = -1
    with pytest.raises(ValueError, match="must be None for a sparse affinity"):
        perturbed_forest(graph, 3, constraints=links)
