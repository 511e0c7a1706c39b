"""The objectives, against their definitions, central differences, and autograd."""

import itertools
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import linprog
from sklearn.kernel_approximation import Nystroem, RBFSampler

from skdiffclust.gemini import available_objectives, gemini_score
from skdiffclust.gemini._objectives import OBJECTIVES
from skdiffclust.gemini._relations import Features, make_relation

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
F_DIVERGENCES = {
    "kl": lambda r: r * r.log(),
    "tv": lambda r: (r - 1).abs() / 2,
    "hellinger": lambda r: 1 - r.sqrt(),
    "chi2": lambda r: (r - 1) ** 2,
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


def transport_cost(first, second, distances):
    n = len(first)
    rows = np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))
    return linprog(
        distances.ravel(), A_eq=np.vstack(rows), b_eq=np.concatenate([first, second])
    ).fun


def brute_force(name, mode, P, w, relation):
    """Return the double sums of the definition, one pair of densities at a time."""
    import torch

    share = P.T @ w
    densities = (P * w[:, None] / share).T
    if name == "mmd":
        product = getattr(relation, "matrix", None)
        if product is None:
            product = relation.features @ relation.features.T

        def distance(p, q):
            return np.sqrt(max((p - q) @ product @ (p - q), 0))
    elif name == "wasserstein":

        def distance(p, q):
            return transport_cost(p, q, relation.matrix)
    else:

        def distance(p, q):
            return float(q @ F_DIVERGENCES[name](torch.tensor(p / q)).numpy())

    if mode == "ova":
        return sum(s * distance(p, w) for s, p in zip(share, densities, strict=True))
    pairs = itertools.product(zip(share, densities, strict=True), repeat=2)
    return sum(s * t * distance(p, q) for (s, p), (t, q) in pairs)


@pytest.mark.torch
@pytest.mark.parametrize("name, mode, choice", CASES)
def test_value_is_the_definition(name, mode, choice, global_random_seed):
    X, P, w = problem(global_random_seed)
    relation = relation_of(name, X, choice)
    value, _ = OBJECTIVES[name].with_gradient(mode)(P, w, relation)
    assert_allclose(value, brute_force(name, mode, P, w, relation), rtol=1e-9)


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


@pytest.mark.torch
@pytest.mark.parametrize("name", ["kl", "tv", "hellinger", "chi2", "mmd"])
@pytest.mark.parametrize("mode", ["ova", "ovo"])
def test_gradient_is_that_of_autograd(name, mode, global_random_seed):
    import torch

    X, P, w = problem(global_random_seed)
    weights, leaf = torch.tensor(w), torch.tensor(P, requires_grad=True)
    share = weights @ leaf
    if name == "mmd":
        means = (leaf * weights[:, None] / share).T @ torch.tensor(X)
        others = (weights @ torch.tensor(X))[None] if mode == "ova" else means
        gaps = (means[:, None] - others[None]).square().sum(-1)
        distances = torch.sqrt(gaps + (gaps == 0)) * (gaps != 0)
    else:
        f = F_DIVERGENCES[name]
        ratios = leaf / share
        others = torch.ones_like(ratios[:, :1]) if mode == "ova" else ratios
        ratio = ratios[:, :, None] / others[:, None, :]
        distances = torch.einsum("i,il,ikl->kl", weights, others, f(ratio))
    value = share @ distances @ (torch.ones(1).double() if mode == "ova" else share)
    value.backward()
    ours, gradient = OBJECTIVES[name].with_gradient(mode)(
        P, w, relation_of(name, X, "linear")
    )
    assert_allclose(ours, value.item(), atol=1e-12)
    assert_allclose(gradient, leaf.grad.numpy(), atol=1e-10)


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


def test_a_warm_start_changes_nothing(global_random_seed):
    X, P, w = problem(global_random_seed, n=40)
    warm = make_relation("distance", X, None, "euclidean")
    for step in range(4):
        moved = P + 0.01 * step * np.roll(P, 1, axis=1)
        moved /= moved.sum(axis=1, keepdims=True)
        cold = make_relation("distance", X, None, "euclidean")
        values = [
            OBJECTIVES["wasserstein"].one_vs_one(moved, w, r)[0] for r in (warm, cold)
        ]
        assert_allclose(*values, rtol=1e-12)


@pytest.mark.parametrize("name, mode, choice", CASES)
@pytest.mark.parametrize("kind", ["one-hot", "empty cluster", "one cluster", "same"])
def test_finite_at_the_edge_of_the_simplex(
    name, mode, choice, kind, global_random_seed
):
    X, P, w = problem(global_random_seed)
    if kind == "one-hot":
        P = np.eye(3)[np.arange(9) % 3]
    elif kind == "empty cluster":
        P = np.eye(3)[np.arange(9) % 2]
    elif kind == "one cluster":
        P = np.eye(3)[np.zeros(9, int)]
    else:
        P = np.tile([0.5, 0.3, 0.2], (9, 1))
    value, gradient = OBJECTIVES[name].with_gradient(mode)(
        P, w, relation_of(name, X, choice)
    )
    assert np.isfinite(value) and value > -1e-9
    assert np.isfinite(gradient).all()
    if kind in ("one cluster", "same"):
        assert value < 1e-7


def test_mutual_information_is_that_of_the_joint_distribution(global_random_seed):
    X, P, _ = problem(global_random_seed)
    joint = P / len(P)
    marginals = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
    expected = np.sum(joint * np.log(joint / marginals))
    assert_allclose(gemini_score(P, X, objective="kl"), expected, rtol=1e-12)


def test_two_clusters_one_vs_one_is_one_vs_all_but_for_the_shares(global_random_seed):
    X, P, _ = problem(global_random_seed, k=2)
    ova, ovo = (gemini_score(P, X, mode=mode) for mode in ("ova", "ovo"))
    # m = pi_0 m_0 + pi_1 m_1, so both are 2 pi_0 pi_1 ||m_0 - m_1||.
    assert_allclose(ova, ovo, rtol=1e-12)


@pytest.mark.parametrize("mode", ["ova", "ovo"])
@pytest.mark.parametrize("make", [Nystroem, RBFSampler])
def test_a_transformer_is_its_features(mode, make, global_random_seed):
    X, P, _ = problem(global_random_seed + 9, n=20)
    transformer = make(n_components=6, random_state=global_random_seed)
    expected = gemini_score(P, transformer.fit_transform(X), mode=mode)
    assert_allclose(gemini_score(P, X, kernel=transformer, mode=mode), expected)


@pytest.mark.parametrize("mode", ["ova", "ovo"])
def test_wide_data_go_through_a_factor_of_their_gram_matrix(mode, global_random_seed):
    X, P, w = problem(global_random_seed, n=8, d=50)
    relation = make_relation("kernel", X - X.mean(axis=0), "linear", None)
    assert relation.features.shape[1] < 8
    value, gradient = OBJECTIVES["mmd"].with_gradient(mode)(P, w, relation)
    K = (X - X.mean(axis=0)) @ (X - X.mean(axis=0)).T
    dense = make_relation("kernel", (K + K.T) / 2, "precomputed", None)
    expected, slope = OBJECTIVES["mmd"].with_gradient(mode)(P, w, dense)
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
    X, P, w = problem(global_random_seed, n=40, k=2)
    half = 0.5 + 1e-3 * np.random.RandomState(global_random_seed + 1).uniform(-1, 1, 40)
    P = np.column_stack([P[:, 0] * half, P[:, 0] * (1 - half), P[:, 1]])
    gradients = []
    for dtype in (np.float32, np.float64):
        rounded = (array.astype(np.float32).astype(dtype) for array in (P, w, X))
        *arrays, features = rounded
        _, gradient = OBJECTIVES["mmd"].one_vs_one(*arrays, Features(features))
        gradients.append(gradient)
    low, high = gradients
    assert low.dtype == np.float32
    assert_allclose(low, high, atol=1e-3 * np.abs(high).max())


def test_wrong_input_is_refused(global_random_seed):
    X, P, _ = problem(global_random_seed)
    with pytest.raises(ValueError, match="The 'objective' parameter of gemini_score"):
        gemini_score(P, X, objective="mmd2")
    with pytest.raises(ValueError, match="The 'mode' parameter of gemini_score must"):
        gemini_score(P, X, mode="all")
    with pytest.raises(ValueError, match="one row for each of the 8 samples"):
        gemini_score(P, X[:8])
    with pytest.raises(ValueError, match="rows summing to one"):
        gemini_score(2 * P, X)
    with pytest.raises(ValueError, match="contains NaN"):
        gemini_score(P, np.where(X > 1, np.nan, X))
    with pytest.raises(ValueError, match="overflow"):
        gemini_score(P, X * 1e300)
    with pytest.raises(ValueError, match="overflow"):
        gemini_score(P, (X * 1e30).astype(np.float32))
    with pytest.raises(ValueError, match="square"):
        gemini_score(P, X, kernel="precomputed")
    with pytest.raises(ValueError, match="masked"):
        gemini_score(P, np.ma.masked_array(X, X > 0))


def test_every_parameter_of_the_score_is_refused_by_its_name():
    X, P, _ = problem()
    for name, value in (
        ("kernel", "rbff"),
        ("kernel", 3),
        ("metric", "roundabout"),
        ("return_gradient", "yes"),
    ):
        with pytest.raises(
            ValueError, match=f"'{name}' parameter of gemini_score must"
        ):
            gemini_score(P, X, objective="wasserstein", **{name: value})
    with pytest.raises(ValueError, match="'assignments' parameter .* masked array"):
        gemini_score(np.ma.masked_array(P, P > 0.5), X)
    _, gradient = gemini_score(P.astype(np.float32), X, return_gradient=True)
    assert gradient.dtype == np.float32


@pytest.mark.parametrize("name", available_objectives())
def test_auto_is_one_vs_one_where_that_has_a_bound(name, global_random_seed):
    X, P, _ = problem(global_random_seed)
    mode = "ovo" if name in ("mmd", "wasserstein") else "ova"
    expected = gemini_score(P, X, objective=name, mode=mode)
    assert gemini_score(P, X, objective=name) == expected
    other = {"ova": "ovo", "ovo": "ova"}[mode]
    assert gemini_score(P, X, objective=name, mode=other) != expected


@pytest.mark.parametrize("choice", ["linear", "rbf"])
def test_clusters_with_equal_means_are_at_distance_zero(choice, global_random_seed):
    # Their squared distance is a difference of numbers as large as the third is far.
    X, P, w = problem(global_random_seed, n=40, k=2)
    X[P[:, 0] > 0.5] += 5
    share = np.linspace(0.1, 0.9, 9)
    relation = relation_of("mmd", X, choice)
    merged, by_merged = OBJECTIVES["mmd"].one_vs_one(P, w, relation)
    for part in share:
        parts = np.column_stack([part * P[:, 0], (1 - part) * P[:, 0], P[:, 1]])
        value, gradient = OBJECTIVES["mmd"].one_vs_one(parts, w, relation)
        assert_allclose(value, merged, rtol=1e-12)
        # Moving weight between equal clusters changes nothing.
        assert_allclose(gradient[:, 0], gradient[:, 1], atol=1e-9)
        assert_allclose(gradient[:, 0], by_merged[:, 0], atol=1e-9)


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
