"""The changes that the documentation works out, applied and run."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial.distance import cdist

from skdiffclust import SpanningForestClustering
from skdiffclust._affinity import EUCLIDEAN_FORMS, METRICS, nearest_sample
from skdiffclust._compat import StrOptions

FOLDER = Path(__file__).resolve().parents[1] / "doc" / "worked_changes"


def worked(name):
    """Return the module of a worked change."""
    spec = spec_from_file_location(name, FOLDER / f"{name}.py")
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("algorithm", ["auto", "prim", "kruskal", "boruvka"])
def test_a_new_distance_for_forests(algorithm, monkeypatch, global_random_seed):
    change = worked("add_a_distance")
    ((name, form),) = change.ROW.items()
    assert name not in METRICS
    monkeypatch.setitem(EUCLIDEAN_FORMS, name, form)
    constraints = SpanningForestClustering._parameter_constraints
    monkeypatch.setitem(constraints, "metric", [StrOptions(METRICS | {name})])

    rng = np.random.default_rng(global_random_seed)
    X = rng.dirichlet(np.ones(4), size=60)
    new = rng.dirichlet(np.ones(4), size=20)
    model = SpanningForestClustering(
        4, metric=name, cut_rule="longest", algorithm=algorithm
    ).fit(X)
    distances = cdist(X, X, change.hellinger)
    tree = minimum_spanning_tree(distances).toarray()
    expected = np.sort(tree[tree > 0])
    np.testing.assert_allclose(np.sort(model.edge_lengths_), expected, rtol=1e-9)

    nearest = cdist(new, X, change.hellinger).argmin(axis=1)
    np.testing.assert_array_equal(model.predict(new), model.labels_[nearest])
    found, lengths = nearest_sample(X, new, metric=name)
    np.testing.assert_array_equal(found, nearest)
    np.testing.assert_allclose(
        lengths, cdist(new, X, change.hellinger).min(axis=1), rtol=1e-9
    )
