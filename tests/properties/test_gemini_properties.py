"""Properties of the GEMINI objectives, the penalties, and the path."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdiffclust import SparseGEMINI
from skdiffclust.gemini import available_objectives, gemini_score
from skdiffclust.gemini._objectives import OBJECTIVES

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
