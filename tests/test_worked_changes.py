"""The changes that the documentation works out, applied and run."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial.distance import cdist
from sklearn.datasets import make_blobs

from skdiffclust import GEMINI, PRCut, SpanningForestClustering
from skdiffclust._compat import StrOptions
from skdiffclust._encoder import ACTIVATIONS, Encoder
from skdiffclust._neighbors import nearest_sample
from skdiffclust._pairwise import EUCLIDEAN_FORMS, METRICS
from skdiffclust.gemini._objectives import OBJECTIVES

FOLDER = Path(__file__).resolve().parents[1] / "doc" / "worked_changes"


def worked(name):
    """Return the module of a worked change."""
    spec = spec_from_file_location(name, FOLDER / f"{name}.py")
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("mode", ["ova", "ovo"])
def test_a_new_divergence(mode, monkeypatch, global_random_seed):
    change = worked("add_a_divergence")
    ((name, row),) = change.ROW.items()
    assert name not in OBJECTIVES
    monkeypatch.setitem(OBJECTIVES, name, row)
    constraints = GEMINI._parameter_constraints
    monkeypatch.setitem(constraints, "objective", [StrOptions(set(OBJECTIVES))])

    rng = np.random.RandomState(global_random_seed)
    P = rng.dirichlet(np.ones(3), size=9)
    w = rng.dirichlet(np.ones(9))
    value, gradient = OBJECTIVES[name].with_gradient(mode)(P, w, None)
    share = w @ P
    densities = (w[:, None] * P / share).T
    pairs = [(s, p, 1.0, w) for s, p in zip(share, densities, strict=True)]
    if mode == "ovo":
        pairs = [
            (s, p, t, q)
            for s, p in zip(share, densities, strict=True)
            for t, q in zip(share, densities, strict=True)
        ]
    expected = sum(s * t * change.triangular(p, q) for s, p, t, q in pairs)
    np.testing.assert_allclose(value, expected, rtol=1e-10)
    for index in np.ndindex(P.shape):
        sides = []
        for step in (1e-6, -1e-6):
            moved = P.copy()
            moved[index] += step
            sides.append(OBJECTIVES[name].with_gradient(mode)(moved, w, None)[0])
        slope = (sides[0] - sides[1]) / 2e-6
        np.testing.assert_allclose(gradient[index], slope, rtol=1e-5, atol=1e-8)

    X, _ = make_blobs(60, centers=[[-6.0, 0.0], [6.0, 0.0]], random_state=0)
    model = GEMINI(2, objective=name, mode=mode, l2=0.01, random_state=0).fit(X)
    # The objective is that of the trained assignments, before their calibration.
    P = model.predict_proba(X) ** model.temperature_
    P /= P.sum(axis=1, keepdims=True)
    value, _ = OBJECTIVES[name].with_gradient(mode)(P, np.full(60, 1 / 60), None)
    np.testing.assert_allclose(model.history_["objective"][-1], value, rtol=1e-6)
    assert model.n_clusters_ == 2


@pytest.mark.torch
@pytest.mark.parametrize("mode", ["ova", "ovo"])
def test_a_new_divergence_in_torch(mode, monkeypatch, global_random_seed):
    import torch

    from skdiffclust.gemini._torch import GENERATORS
    from skdiffclust.nn import GEMINILoss

    change = worked("add_a_divergence")
    ((name, row),) = change.ROW.items()
    monkeypatch.setitem(OBJECTIVES, name, row)
    monkeypatch.setitem(GENERATORS, name, change.GENERATOR[name])
    logits = torch.tensor(
        np.random.RandomState(global_random_seed).normal(size=(9, 3)),
        requires_grad=True,
    )
    P = torch.softmax(logits, dim=1).detach().numpy()
    value, _ = row.with_gradient(mode)(P, np.full(9, 1 / 9), None)
    loss = GEMINILoss(name, mode=mode)(logits)
    np.testing.assert_allclose(loss.item(), -value, rtol=1e-10)
    loss.backward()
    assert torch.isfinite(logits.grad).all()


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


def with_activation(change, monkeypatch, seed):
    """Put the activation into the registry; return samples and an encoder with it."""
    ((name, row),) = change.ROW.items()
    assert name not in ACTIVATIONS
    monkeypatch.setitem(ACTIVATIONS, name, row)
    rng = np.random.RandomState(seed)
    encoder = Encoder.with_random_weights(
        [3, 6, 5, 2], rng, np.float64, activation=name
    )
    return 3.0 * rng.normal(size=(40, 3)), encoder


def test_a_new_activation(monkeypatch, global_random_seed):
    change = worked("add_an_activation")
    X, encoder = with_activation(change, monkeypatch, global_random_seed)
    outputs, inputs = encoder.forward(X)
    np.testing.assert_allclose(encoder.outputs(X), outputs, rtol=1e-12)
    gradients = encoder.backward(np.cos(outputs), inputs)
    for array, gradient in zip(encoder.arrays, gradients, strict=True):
        for index in np.ndindex(array.shape):
            value, sides = array[index], []
            for step in (1e-6, -1e-6):
                array[index] = value + step
                sides.append(np.sin(encoder.outputs(X)).sum())
            array[index] = value
            slope = np.diff(sides)[0] / -2e-6
            np.testing.assert_allclose(gradient[index], slope, rtol=1e-6, atol=1e-6)

    centers = 5.0 * np.eye(3)
    X = np.concatenate([0.3 * X[:20] + center for center in centers])
    model = PRCut(
        3, encoder="mlp", activation=encoder.activation, max_iter=5, random_state=0
    ).fit(X)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    np.testing.assert_array_equal(np.diff(model.labels_) != 0, np.arange(59) % 20 == 19)


@pytest.mark.torch
def test_a_new_activation_in_torch(monkeypatch, global_random_seed):
    import torch

    from skdiffclust._torch import encoder_module

    change = worked("add_an_activation")
    X, encoder = with_activation(change, monkeypatch, global_random_seed)
    module = encoder_module(encoder)
    outputs, inputs = encoder.forward(X)
    found = module(torch.from_numpy(X))
    np.testing.assert_allclose(found.detach().numpy(), outputs, atol=1e-12)
    found.sum().backward()
    gradients = encoder.backward(np.ones_like(outputs), inputs)
    layers = [layer for layer in module if isinstance(layer, torch.nn.Linear)]
    theirs = [layer.weight.grad.T for layer in layers]
    theirs += [layer.bias.grad for layer in layers]
    for gradient, other in zip(gradients, theirs, strict=True):
        np.testing.assert_allclose(gradient, other.numpy(), atol=1e-11)
