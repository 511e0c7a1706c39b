"""Properties of the GEMINI objectives, the penalties, and the path."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdiffclust import SparseGEMINI
from skdiffclust._encoder import Encoder
from skdiffclust.gemini import available_objectives, gemini_score
from skdiffclust.gemini._models import MODELS
from skdiffclust.gemini._objectives import OBJECTIVES
from skdiffclust.gemini._penalties import (
    GroupLasso,
    Groups,
    hierarchical_prox,
)
from skdiffclust.gemini._problem import Problem
from skdiffclust.gemini._relations import make_relation
from skdiffclust.gemini._training import loss_and_gradients

seeds = st.integers(0, 2**32 - 1)
names = st.sampled_from(available_objectives())
modes = st.sampled_from(["ova", "ovo"])
KERNELS = {"kernel": ["linear", "rbf"], "distance": ["euclidean"], None: [None]}
CASES = [
    (name, mode, choice)
    for name, row in OBJECTIVES.items()
    for mode in ("ova", "ovo")
    for choice in KERNELS[row.relation]
]


@st.composite
def problems(draw, largest=12):
    """Rows (n, d), n from 4 and d to 5, assignments (n, k), and a stream."""
    rng = np.random.RandomState(draw(seeds))
    n, d, k = draw(
        st.tuples(st.integers(4, largest), st.integers(1, 5), st.integers(1, 4))
    )
    X = rng.normal(size=(n, d))
    if draw(st.booleans()):
        X = np.round(X)
    concentration = draw(st.sampled_from([0.2, 1.0, 5.0]))
    P = 0.99 * rng.dirichlet(np.full(k, concentration), n) + 0.01 / k
    return X, P, rng


@given(problems(), names, modes)
def test_not_negative_and_blind_to_order_and_names(problem, name, mode):
    X, P, rng = problem
    value = gemini_score(P, X, objective=name, mode=mode)
    assert value >= -1e-12
    rows, columns = rng.permutation(len(X)), rng.permutation(P.shape[1])
    moved = gemini_score(P[rows][:, columns], X[rows], objective=name, mode=mode)
    # Near zero a root magnifies rounding.
    assert moved == pytest.approx(value, rel=1e-8, abs=1e-7)


@given(problems(), modes, st.sampled_from(["mmd", "wasserstein"]), seeds)
def test_zero_with_a_finite_gradient_where_all_rows_are_equal(
    problem, mode, name, seed
):
    X, P, _ = problem
    X = np.tile(np.random.RandomState(seed).normal(size=X.shape[1]), (len(X), 1))
    value, gradient = gemini_score(
        P, X, objective=name, mode=mode, return_gradient=True
    )
    assert value == pytest.approx(0.0, abs=1e-7)
    assert np.isfinite(gradient).all()
    if name == "mmd":
        assert value == 0.0 and not gradient.any()


def slope_gap(function, slope, step, name):
    """How far a slope is from central differences of a function of one number.

    Total variation, transport and ReLU have corners, with a slope on either side: there
    whatever lies between the two is right.
    """
    value, high, low = function(0.0), function(step), function(-step)
    gap = abs((high - low) / (2 * step) - slope)
    if name in ("tv", "wasserstein"):
        sides = sorted([(high - value) / step, (value - low) / step])
        gap = min(gap, max(sides[0] - slope, slope - sides[1], 0.0))
    return gap


@given(problems(largest=8), st.sampled_from(CASES))
def test_the_gradient_is_that_of_central_differences(problem, case):
    name, mode, choice = case
    X, P, rng = problem
    options = {"objective": name, "mode": mode}
    if choice is not None:
        options["kernel" if name == "mmd" else "metric"] = choice
    _, gradient = gemini_score(P, X, return_gradient=True, **options)
    direction = rng.normal(size=P.shape)
    direction -= direction.mean(axis=1, keepdims=True)
    direction *= P.min() / np.abs(direction).max() if direction.any() else 0.0
    slope = float((gradient * direction).sum())
    gap = slope_gap(
        lambda h: gemini_score(P + h * direction, X, **options), slope, 1e-4, name
    )
    assert gap <= 1e-6 * max(1.0, abs(slope))


@given(seeds, st.sampled_from(CASES), st.sampled_from(sorted(MODELS)))
def test_the_gradient_through_every_weight(seed, case, kind):
    name, mode, choice = case
    rng = np.random.RandomState(seed)
    n, d, k = 6, 3, 3
    X, weights = rng.normal(size=(n, d)), rng.uniform(0.5, 1.5, n)
    sizes = {"linear": [d, k], "free": [n, k]}.get(kind, [d, 4, k])
    model = MODELS[kind].with_random_weights(sizes, rng, np.float64)
    task = Problem(
        np.arange(n) if kind == "free" else X,
        weights / weights.sum(),
        make_relation(OBJECTIVES[name].relation, X, choice, choice),
        OBJECTIVES[name].with_gradient(mode),
        l2=0.1,
    )
    loss, _, gradients = loss_and_gradients(model, task)
    directions = [rng.normal(size=array.shape) for array in model.arrays]
    slope = sum(
        float((g * v).sum()) for g, v in zip(gradients, directions, strict=True)
    )

    def moved(step):
        arrays = [a + step * v for a, v in zip(model.arrays, directions, strict=True)]
        return loss_and_gradients(MODELS[kind].from_arrays(arrays), task)[0]

    has_corners = "tv" if kind in ("mlp", "skip") else name
    assert slope_gap(moved, slope, 1e-5, has_corners) <= 1e-6 * max(1.0, abs(slope))


@given(problems(), modes, st.sampled_from([1e-4, 0.25, 9.0, 1e4]), st.integers(-9, 9))
def test_scale_and_offset_of_a_kernel(problem, mode, scale, offset):
    X, P, _ = problem
    kernel = X @ X.T

    def score(matrix):
        return gemini_score(P, matrix, kernel="precomputed", mode=mode)

    value = score(kernel)
    close = {"rel": 1e-7, "abs": 1e-6}
    assert score(scale * kernel) / np.sqrt(scale) == pytest.approx(value, **close)
    assert score(kernel + offset) == pytest.approx(value, **close)
    assert gemini_score(P, X, mode=mode) == pytest.approx(value, **close)


@st.composite
def weights(draw):
    """Skip weights (d, k), hidden weights (d, h), group ids (d,) or None, a stream."""
    rng = np.random.RandomState(draw(seeds))
    d, k, h = draw(st.tuples(st.integers(1, 5), st.integers(1, 4), st.integers(1, 4)))
    skip, hidden = rng.normal(size=(d, k)), rng.normal(size=(d, h))
    hidden *= draw(st.sampled_from([0.01, 1.0, 10.0]))
    if draw(st.booleans()):
        skip[rng.uniform(size=d) < 0.3] = 0.0
        hidden = np.round(hidden)
    ids = rng.randint(0, 3, d) if draw(st.booleans()) else None
    return skip, hidden, ids, rng


@given(weights(), st.floats(0.0, 3.0))
def test_the_group_lasso_meets_its_optimality_conditions(case, threshold):
    v, _, ids, _ = case
    d = len(v)
    shrunk = v.copy()
    model = Encoder([shrunk], [np.zeros(shrunk.shape[1])])
    GroupLasso(Groups.of(ids, d), threshold).prox(model, 1.0)
    ids = np.arange(d) if ids is None else ids
    for group in np.unique(ids):
        gap, kept = (v - shrunk)[ids == group], shrunk[ids == group]
        norm = np.linalg.norm(kept)
        if norm == 0:
            assert np.linalg.norm(gap) <= threshold * (1 + 1e-12)
        else:
            assert np.allclose(gap, threshold * kept / norm, rtol=0, atol=1e-10)


@given(weights(), st.floats(0.0, 3.0), st.sampled_from([0.0, 0.3, 1.0, 10.0]))
def test_the_hierarchical_prox_beats_feasible_points(case, threshold, hierarchy):
    skip, hidden, ids, rng = case
    groups = Groups.of(ids, len(skip))

    def objective(theta, W):
        gaps = np.square(theta - skip).sum() + np.square(W - hidden).sum()
        return gaps / 2 + threshold * groups.norms(theta).sum()

    theta, W = skip.copy(), hidden.copy()
    hierarchical_prox(theta, W, threshold, hierarchy, groups)
    bound = hierarchy * groups.by_feature(groups.norms(theta))[:, None]
    assert (np.abs(W) <= bound * (1 + 1e-12)).all()
    best = objective(theta, W)
    for i in range(200):
        scale = 10.0 ** -(i % 4)
        other = theta + scale * rng.normal(size=theta.shape)
        box = hierarchy * groups.by_feature(groups.norms(other))[:, None]
        inside = np.clip(W + scale * rng.normal(size=W.shape), -box, box)
        assert objective(other, inside) >= best - 1e-9 * max(1.0, best)


# A path trains a model at every step: fewer of them.
@settings(max_examples=5)
@given(
    seeds,
    st.sampled_from(["linear", "mlp"]),
    st.booleans(),
    st.integers(1, 3),
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_path_ends_where_it_should_and_leaves_parameters_alone(
    seed, model, dynamic, min_features
):
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(12, 4))
    X[:6, :2] += 4
    sparse = SparseGEMINI(
        2,
        model=model,
        hidden_layer_sizes=(3,),
        dynamic=dynamic,
        max_iter=20,
        learning_rate=0.05,
        random_state=seed % 1000,
    )
    before = sparse.get_params()
    path = sparse.path(X, min_features=min_features, alpha_multiplier=1.5)
    assert sparse.get_params() == before
    assert path.n_features[-1] <= min_features
    assert (path.n_features[:-1] > min_features).all()
    assert sparse.alpha_ == path.alphas[path.chosen]
    assert np.array_equal(sparse.labels_, path.labels[path.chosen])
    assert np.array_equal(sparse.get_support(), path.supports[path.chosen])
    assert np.array_equal(sparse.predict(X), sparse.labels_)
    # A dropped feature changes nothing, bit for bit.
    dropped = ~sparse.get_support()
    other = X.copy()
    other[:, dropped] = rng.normal(scale=100, size=(12, dropped.sum()))
    assert np.array_equal(sparse.predict_proba(other), sparse.predict_proba(X))
