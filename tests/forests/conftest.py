"""One fixture for every test of constraints: the twins of the constrained forest."""

from importlib.util import find_spec

import constrained_definition as definition
import numpy as np
import pytest
from constrained_definition import edges_of, solve_by_kernels, solve_by_numpy

from skdiffclust.forests._constrained import _search
from skdiffclust.forests._constrained._problem import (
    ConstrainedProblem,
    constrained_problem,
)
from skdiffclust.forests._perturbed import _fenchel_young, _perturbation, _samplers
from skdiffclust.forests._perturbed._noise import draw_list, noise_workspace

HAS_TORCH = find_spec("torch") is not None
if HAS_TORCH:
    from skdiffclust.forests._perturbed import _torch


@pytest.fixture
def cold(monkeypatch):
    """A process in which nothing is compiled."""
    monkeypatch.setattr("skdiffclust._compiled.is_ready", lambda kernel: False)


class NumpySampler:
    """Samples of a complete relation by the definition: a sampler for the losses."""

    seconds = 1e-3

    def __init__(self, relation, constraints, n_clusters, noise):
        self.relation, self.noise, n = relation, noise, relation.n_samples
        # Without constraints the forest is that of contraction alone.
        free = ConstrainedProblem(
            np.arange(n),
            np.zeros((n, n), dtype=bool),
            np.full(n, -1),
            False,
            n_clusters,
            np.ones(n),
            0.0,
        )
        self.is_free = constraints is None
        self.problem = free
        if not self.is_free:
            self.problem = constrained_problem(constraints, n_clusters)

    def sample(self, first, last):
        relation, noise, n = self.relation, self.noise, self.relation.n_samples
        draws, found = np.empty(len(relation.weights)), []
        for s in range(first, last):
            draw_list(
                noise.seed,
                s // noise.samples_per_draw,
                s % noise.samples_per_draw,
                relation.indptr,
                relation.columns,
                noise.table,
                noise_workspace(n),
                draws,
            )
            noisy = relation.spread(relation.weights + noise.scale * draws)
            if self.is_free:
                labels = definition.contract(noisy, self.problem)
                up = np.full(n, -1)
                for c in range(self.problem.n_clusters):
                    tree = definition._Tree(noisy, np.flatnonzero(labels == c))
                    up[tree.rows[1:]] = tree.rows[tree.above[1:]]
                edges = edges_of(up)
            else:
                labels, edges = solve_by_numpy(noisy, self.problem)
            found.append((edges, labels, noisy[edges[:, 0], edges[:, 1]]))
        return as_samples(found, n)


def as_samples(found, n):
    """Return forests, components, weights and lowest values of some samples."""
    pairs = np.array([edges for edges, *_ in found])
    i, j = pairs[..., 0], pairs[..., 1]
    forests = (i * (2 * n - i - 1) // 2 + j - i - 1).astype(np.int32)
    labels = np.array([labels for _, labels, _ in found], dtype=np.int32)
    values = np.array([values for *_, values in found]).reshape(len(found), -1)
    minimum = values.min(axis=1, initial=np.inf)
    return _samplers.Samples(forests, labels, values.sum(axis=1), minimum)


@pytest.fixture(params=["numpy", "compiled"])
def backend(request, monkeypatch):
    """Solve all forests by one of the twins, wherever a public function is called.

    Returns ``solve(similarity, problem) -> labels (n,), edges (m, 2)``, the edges with
    i < j in row-major order.
    """
    if request.param == "compiled":
        return solve_by_kernels
    monkeypatch.setattr(_search, "improve_forest", definition.improve_forest)

    def make_sampler(relation, constraints, n_clusters, noise):
        if not relation.is_complete:
            return _samplers.make_sampler(relation, constraints, n_clusters, noise)
        return NumpySampler(relation, constraints, n_clusters, noise)

    for module in (_perturbation, _fenchel_young, *([_torch] if HAS_TORCH else [])):
        monkeypatch.setattr(module, "make_sampler", make_sampler)
    return solve_by_numpy
