"""The forest is the same with every kernel."""

from time import sleep

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from skdiffclust.forests._trees._distances import (
    lengths_of_graph,
    lengths_of_matrix,
    lengths_of_points,
    mutual_reachability,
)
from skdiffclust.forests._trees._solve import spanning_edges


def forest(lengths, *args, **kwargs):
    edges, values = spanning_edges(lengths, *args, **kwargs)
    return sorted(zip(*edges.T.tolist(), values.tolist(), strict=True))


def relations(rng):
    """Relations of every kind between 40 rows, with ties and duplicates."""
    X = np.round(rng.normal(size=(40, 3)), 1)[rng.integers(0, 40, 40)]
    D = cdist(X, X, "cityblock")
    held = rng.random((40, 40)) < 0.2
    rows, columns = np.nonzero(np.triu(held | held.T, 1))
    ends = np.concatenate([rows, columns]), np.concatenate([columns, rows])
    graph = csr_array((np.tile(D[rows, columns], 2), ends), shape=(40, 40))
    return {
        "points": lengths_of_points(X, "euclidean"),
        "cosine": lengths_of_points(X, "cosine"),
        "manhattan": lengths_of_points(X, "manhattan"),
        "matrix": lengths_of_matrix(D),
        "graph": lengths_of_graph(graph),
        "raised points": mutual_reachability(lengths_of_points(X, "l2"), 4),
        "raised matrix": mutual_reachability(lengths_of_matrix(D), 4),
        "raised manhattan": mutual_reachability(lengths_of_points(X, "manhattan"), 4),
    }


@pytest.mark.parametrize("kind", relations(np.random.default_rng(0)))
@pytest.mark.parametrize("seed", range(4))
def test_every_tier_and_algorithm(kind, seed, cold, monkeypatch, global_random_seed):
    seed += 1000 * global_random_seed
    rng = np.random.default_rng(seed)
    lengths = relations(rng)[kind]
    nodes = rng.integers(0, 25, 40)
    rows = np.sort(rng.permutation(40)[:15])
    cases = [(), (None, nodes), (rows,), (rows, nodes)]
    expected = [forest(lengths, *case) for case in cases]
    monkeypatch.setattr("skdiffclust._compiled.is_ready", lambda kernel: True)
    for algorithm in ("auto", "prim", "kruskal", "boruvka"):
        for case, theirs in zip(cases, expected, strict=True):
            assert forest(lengths, *case, algorithm=algorithm) == theirs


@pytest.mark.parametrize("kind", relations(np.random.default_rng(0)))
def test_ready_kernels_grow_the_tree_of_few_samples(
    kind, monkeypatch, global_random_seed
):
    """Compiling is what few samples do without, not compiled kernels."""
    with monkeypatch.context() as cold:
        cold.setattr("skdiffclust._compiled.is_ready", lambda kernel: False)
        lengths = relations(np.random.default_rng(global_random_seed))[kind]
        expected = forest(lengths)
    monkeypatch.setattr("skdiffclust._compiled.is_ready", lambda kernel: True)
    monkeypatch.delattr("skdiffclust.forests._trees._solve.prim")
    lengths = relations(np.random.default_rng(global_random_seed))[kind]
    assert forest(lengths) == expected
    assert forest(lengths, algorithm="auto", n_jobs=2) == expected


def test_blocks_merged_on_the_way_and_any_number_of_threads(
    monkeypatch, global_random_seed
):
    X = (
        np.random.default_rng(global_random_seed)
        .integers(0, 9, (1300, 3))
        .astype(float)
    )
    expected = forest(lengths_of_points(X, "manhattan"))
    monkeypatch.setattr("skdiffclust._compiled.is_ready", lambda kernel: True)
    for n_jobs in (1, 3):
        assert forest(lengths_of_points(X, "manhattan"), n_jobs=n_jobs) == expected


def test_a_function_as_metric_is_called_by_one_thread_at_a_time(
    monkeypatch, global_random_seed
):
    inside = []

    def distance(x, y):
        inside.append(1)
        assert len(inside) == 1
        if x[0] > 2:  # few of them, which let other threads run
            sleep(0)
        inside.pop()
        return np.abs(x - y).sum()

    X = np.random.default_rng(global_random_seed).normal(size=(600, 2))
    monkeypatch.setattr("skdiffclust._compiled.is_ready", lambda kernel: True)
    expected = forest(lengths_of_points(X, "manhattan"))
    assert forest(lengths_of_points(X, distance), n_jobs=4) == expected
