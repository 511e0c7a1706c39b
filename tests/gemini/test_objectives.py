"""The objectives, against their definitions and central differences."""

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import linprog
from sklearn.kernel_approximation import Nystroem, RBFSampler

from skdiffclust.gemini import available_objectives, gemini_score
from skdiffclust.gemini._objectives import OBJECTIVES
from skdiffclust.gemini._relations import make_relation

RELATIONS = {
    "kernel": ["linear", "rbf", lambda a, b: np.exp(-np.abs(a - b).sum())],
    "distance": ["euclidean", "manhattan"],
    None: [None],
}
CASES = [
    (name, mode, relation)
    for name, row in OBJECTIVES.items()
    for mode in ("ova", "ovo")
    for relation in RELATIONS[row.relation]
]


def marginals(n):
    """Return the matrix that takes a flat plan (n * n,) to its two margins."""
    return np.vstack([np.kron(np.eye(n), np.ones(n)), np.tile(np.eye(n), n)])


# Distances of two densities (n,); those of a relation take its matrix (n, n).
ORACLES = {
    "kl": lambda p, q: np.sum(p * np.log(p / q)),
    "tv": lambda p, q: np.abs(p - q).sum() / 2,
    "hellinger": lambda p, q: 1 - np.sqrt(p * q).sum(),
    "chi2": lambda p, q: np.sum(np.square(p - q) / q),
    "mmd": lambda p, q, K: np.sqrt(max((p - q) @ K @ (p - q), 0)),
    "wasserstein": lambda p, q, D: (
        linprog(
            D.ravel(),
            A_eq=np.vstack(
                [np.kron(np.eye(len(p)), np.ones(len(p)))]
                + [np.tile(np.eye(len(p)), len(p))]
            ),
            b_eq=np.concatenate([p, q]),
        ).fun
    ),
}


def problem(seed=0, n=9, k=3, d=4):
    rng = np.random.RandomState(seed)
    weights = rng.uniform(0.5, 1.5, n)
    return (
        rng.normal(size=(n, d)),
        rng.dirichlet(np.ones(k), n),
        weights / weights.sum(),
    )


def relation_of(name, X, choice):
    kind = OBJECTIVES[name].relation
    return make_relation(kind, X, choice, choice)


@pytest.mark.parametrize("name, mode, choice", CASES)
def test_value_is_the_definition(name, mode, choice, global_random_seed):
    X, P, w = problem(global_random_seed)
    relation = relation_of(name, X, choice)
    matrices = []
    if choice is not None:
        has_matrix = hasattr(relation, "matrix")
        matrices = [relation.matrix if has_matrix else X @ X.T]
    share = P.T @ w
    pairs = [(s, p) for s, p in zip(share, (P * w[:, None] / share).T, strict=True)]
    others = pairs if mode == "ovo" else [(1.0, w)]
    expected = sum(
        s * t * ORACLES[name](p, q, *matrices) for s, p in pairs for t, q in others
    )
    value, _ = OBJECTIVES[name].with_gradient(mode)(P, w, relation)
    assert_allclose(value, expected, rtol=1e-9)


@pytest.mark.parametrize("mode", ["ova", "ovo"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("choice", RELATIONS["kernel"])
def test_mmd_of_equal_assignments_has_no_gradient(
    mode, dtype, choice, global_random_seed
):
    X, _, w = problem(global_random_seed, n=40, d=60)
    relation = relation_of("mmd", X.astype(dtype), choice)
    P = np.tile(np.array([0.2, 0.5, 0.3], dtype), (40, 1))
    value, gradient = OBJECTIVES["mmd"].with_gradient(mode)(
        P, w.astype(dtype), relation
    )
    assert value == 0
    assert not gradient.any()


@pytest.mark.parametrize("name, mode, choice", CASES)
def test_gradient_is_that_of_central_differences(
    name, mode, choice, global_random_seed
):
    X, P, w = problem(global_random_seed)
    P = 0.9 * P + 0.1 / 3  # at the edge of the simplex a step of 1e-6 is a large one
    relation = relation_of(name, X, choice)
    objective = OBJECTIVES[name].with_gradient(mode)
    _, gradient = objective(P, w, relation)
    for index in np.ndindex(P.shape):
        sides = []
        for step in (1e-6, -1e-6):
            moved = P.copy()
            moved[index] += step
            sides.append(objective(moved, w, relation)[0])
        assert_allclose(gradient[index], (sides[0] - sides[1]) / 2e-6, atol=1e-6)


@pytest.mark.parametrize("mode", ["ova", "ovo"])
def test_wasserstein_runs_on_the_base_install(mode, monkeypatch, global_random_seed):
    X, P, _ = problem(global_random_seed + 3)
    settings = {"objective": "wasserstein", "mode": mode, "return_gradient": True}
    value, gradient = gemini_score(P, X, **settings)
    # Python refuses to import a module that is None here.
    monkeypatch.setitem(sys.modules, "ot.lp", None)
    other, slope = gemini_score(P, X, **settings)
    assert_allclose(value, other, rtol=1e-9)
    direction = np.random.RandomState(global_random_seed).normal(size=P.shape)
    direction -= direction.mean(axis=1, keepdims=True)
    # Potentials need not be unique; derivatives along the simplex are.
    assert_allclose((gradient * direction).sum(), (slope * direction).sum(), atol=1e-8)


@pytest.mark.parametrize("name, mode, choice", CASES)
@pytest.mark.parametrize(
    "P, is_same",
    [
        (np.eye(3)[np.arange(9) % 3], False),
        (np.eye(3)[np.arange(9) % 2], False),
        (np.eye(3)[np.zeros(9, int)], True),
        (np.tile([0.5, 0.3, 0.2], (9, 1)), True),
    ],
    ids=["one-hot", "empty cluster", "one cluster", "same"],
)
def test_finite_at_the_edge_of_the_simplex(name, mode, choice, P, is_same):
    X, _, w = problem()
    value, gradient = OBJECTIVES[name].with_gradient(mode)(
        P, w, relation_of(name, X, choice)
    )
    assert -1e-9 < value < (1e-7 if is_same else np.inf)
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize("mode", ["ova", "ovo"])
@pytest.mark.parametrize("make", [Nystroem, RBFSampler])
def test_a_transformer_is_its_features(mode, make, global_random_seed):
    X, P, _ = problem(global_random_seed + 9, n=20)
    transformer = make(n_components=6, random_state=global_random_seed)
    expected = gemini_score(P, transformer.fit_transform(X), mode=mode)
    assert_allclose(gemini_score(P, X, kernel=transformer, mode=mode), expected)


@pytest.mark.parametrize("mode", ["ova", "ovo"])
def test_more_features_than_samples(mode, global_random_seed):
    X, P, _ = problem(global_random_seed, n=8, d=50)
    params = {"mode": mode, "return_gradient": True}
    value, gradient = gemini_score(P, X, **params)
    X -= X.mean(axis=0)
    expected, slope = gemini_score(P, X @ X.T, kernel="precomputed", **params)
    assert_allclose(value, expected, rtol=1e-12)
    assert_allclose(gradient, slope, atol=1e-12)


@pytest.mark.parametrize("name", available_objectives())
@pytest.mark.parametrize("mode", ["ova", "ovo"])
def test_float32_stays_float32(name, mode, global_random_seed):
    X, P, _ = problem(global_random_seed)
    value, gradient = gemini_score(
        P, X, objective=name, mode=mode, return_gradient=True
    )
    arrays = P.astype(np.float32), X.astype(np.float32)
    low, slope = gemini_score(*arrays, objective=name, mode=mode, return_gradient=True)
    assert slope.dtype == np.float32
    assert_allclose(low, value, rtol=1e-3)
    assert_allclose(slope, gradient, rtol=1e-2, atol=1e-3)


def test_close_clusters_keep_their_digits_in_float32(global_random_seed):
    X, P, _ = problem(global_random_seed, n=40, k=2)
    half = 0.5 + 1e-3 * np.random.RandomState(global_random_seed + 1).uniform(-1, 1, 40)
    P = np.column_stack([P[:, 0] * half, P[:, 0] * (1 - half), P[:, 1]])
    low, high = (
        gemini_score(
            P.astype(np.float32).astype(dtype),
            X.astype(np.float32).astype(dtype),
            mode="ovo",
            return_gradient=True,
        )[1]
        for dtype in (np.float32, np.float64)
    )
    assert low.dtype == np.float32
    assert_allclose(low, high, atol=1e-3 * np.abs(high).max())


@pytest.mark.parametrize(
    "change, message",
    [
        ({"objective": "mmd2"}, "'objective' parameter of gemini_score must"),
        ({"mode": "all"}, "'mode' parameter of gemini_score must"),
        ({"kernel": "rbff"}, "'kernel' parameter of gemini_score must"),
        ({"kernel": 3}, "'kernel' parameter of gemini_score must"),
        ({"metric": "roundabout"}, "'metric' parameter of gemini_score must"),
        ({"return_gradient": "yes"}, "'return_gradient' parameter of gemini_score"),
        ({"X": np.ones((8, 4))}, "one row for each of the 8 samples"),
        ({"X": np.full((9, 4), np.nan)}, "contains NaN"),
        ({"X": 1e300 * np.eye(9)}, "overflow"),
        ({"X": (1e37 * np.eye(9)).astype(np.float32)}, "overflow"),
        ({"X": np.ma.masked_array(np.ones((9, 4)), np.eye(9, 4))}, "masked"),
        ({"kernel": "precomputed"}, "square"),
        ({"assignments": np.ones((9, 2))}, "rows summing to one"),
        ({"assignments": np.ma.masked_array(np.ones((9, 1)), np.eye(9, 1))}, "masked"),
    ],
)
def test_wrong_input_is_refused(change, message):
    X, P, _ = problem()
    with pytest.raises(ValueError, match=message):
        gemini_score(**{"assignments": P, "X": X} | change)


@pytest.mark.parametrize("name", available_objectives())
def test_auto_is_one_vs_one_where_that_has_a_bound(name, global_random_seed):
    X, P, _ = problem(global_random_seed)
    mode = "ovo" if name in ("mmd", "wasserstein") else "ova"
    expected = gemini_score(P, X, objective=name, mode=mode)
    assert gemini_score(P, X, objective=name) == expected
    other = {"ova": "ovo", "ovo": "ova"}[mode]
    assert gemini_score(P, X, objective=name, mode=other) != expected


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_clusters_with_equal_means_are_at_distance_zero(kernel, global_random_seed):
    # Their squared distance is a difference of numbers as large as the third is far.
    X, P, _ = problem(global_random_seed, n=40, k=2)
    X[P[:, 0] > 0.5] += 5
    params = {"kernel": kernel, "mode": "ovo", "return_gradient": True}
    merged, by_merged = gemini_score(P, X, **params)
    for part in np.linspace(0.1, 0.9, 9):
        parts = np.column_stack([part * P[:, 0], (1 - part) * P[:, 0], P[:, 1]])
        value, gradient = gemini_score(parts, X, **params)
        assert_allclose(value, merged, rtol=1e-12)
        # Moving weight between equal clusters changes nothing.
        assert_allclose(gradient, by_merged[:, [0, 0, 1]], atol=1e-9)


@pytest.mark.parametrize("mode", ["ova", "ovo"])
@pytest.mark.parametrize("solver", ["POT", "HiGHS"])
def test_transport_does_not_depend_on_the_unit(mode, solver, monkeypatch):
    if solver == "HiGHS":
        monkeypatch.setitem(sys.modules, "ot.lp", None)
    X, P, _ = problem(n=20)
    options = {"objective": "wasserstein", "mode": mode, "return_gradient": True}
    expected, by_unit = gemini_score(P, X, **options)
    for unit in (1e-100, 1e-12, 1e-6, 1e6, 1e100):
        value, gradient = gemini_score(P, unit * X, **options)
        assert_allclose(value, unit * expected, rtol=1e-12)
        assert_allclose(gradient, unit * by_unit, rtol=1e-9)
    distances = np.sqrt(np.square(X[:, None] - X).sum(axis=2))
    huge, _ = gemini_score(P, 1e200 * distances, metric="precomputed", **options)
    assert_allclose(huge, 1e200 * expected, rtol=1e-12)
