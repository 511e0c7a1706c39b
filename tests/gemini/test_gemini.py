"""GEMINI: results, guarantees and refusals."""

import warnings

import numpy as np
import pytest
from gemini_assignments import objective_of, trained
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
)

from skdiffclust import GEMINI
from skdiffclust.gemini import available_objectives, gemini_score
from skdiffclust.metrics import links_to_incidence

FAST = {"max_iter": 1000, "n_init": 1, "random_state": 0, "learning_rate": 0.1}


def blobs(n=60, dtype=np.float64, seed=0):
    X, y = make_blobs(n, centers=[[0, 0], [6, 0], [0, 6]], random_state=seed)
    return X.astype(dtype), y


def quiet_fit(model, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(*args, **kwargs)


@pytest.mark.parametrize("model", ["linear", "mlp", "free"])
@pytest.mark.parametrize("mode", ["ova", "ovo"])
def test_blobs(model, mode, global_random_seed):
    X, y = blobs(seed=global_random_seed)
    gemini = GEMINI(
        3, model=model, mode=mode, learning_rate=0.1, random_state=global_random_seed
    )
    assert adjusted_rand_score(y, gemini.fit(X).labels_) > 0.9


@pytest.mark.parametrize("objective", available_objectives())
@pytest.mark.parametrize("mode", ["ova", "ovo"])
def test_every_objective_clusters_and_scores(objective, mode, global_random_seed):
    X, y = blobs(24, seed=global_random_seed)
    gemini = GEMINI(3, objective=objective, mode=mode, l2=1e-3, **FAST)
    quiet_fit(gemini, X)
    assert adjusted_rand_score(y, gemini.labels_) > 0.4
    expected = gemini_score(trained(gemini, X), X, objective=objective, mode=mode)
    assert_allclose(objective_of(gemini, X), expected, rtol=1e-9)
    assert_allclose(max(gemini.history_["objective"]), expected, rtol=0.05)


def test_kernel_rim_parts_what_is_no_blob(global_random_seed):
    X, y = make_moons(200, noise=0.05, random_state=global_random_seed)
    rbf = Nystroem(gamma=5.0, n_components=60, random_state=global_random_seed)
    params = {"l2": 0.01, "learning_rate": 0.1, "n_init": 10}
    rim = GEMINI(2, objective="kl", random_state=global_random_seed, **params)
    assert adjusted_rand_score(y, make_pipeline(rbf, rim).fit(X)[-1].labels_) > 0.8


def test_attributes_fit_together(global_random_seed):
    X, _ = blobs(seed=global_random_seed)
    gemini = GEMINI(3, random_state=global_random_seed, tol=1e-3).fit(X)
    assert_array_equal(gemini.labels_, gemini.predict(X))
    assert gemini.labels_.dtype == np.int64
    assert (np.diff(np.bincount(gemini.labels_)) <= 0).all()
    assert_allclose(gemini.predict_proba(X).sum(axis=1), 1)
    assert_allclose(gemini.means_, X.mean(axis=0))
    assert gemini.n_iter_ == len(gemini.history_["loss"]) < gemini.max_iter
    assert_allclose(-min(gemini.history_["loss"]), objective_of(gemini, X), rtol=1e-9)


# ------------------------------------------------------------------ what is known


@pytest.mark.parametrize("model", ["linear", "mlp"])
@pytest.mark.few_epochs
def test_partial_labels_choose_between_two_clusterings(model, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    corners = np.array([[-3.0, -2.0], [-3, 2], [3, -2], [3, 2]])
    X = np.repeat(corners, 25, axis=0) + rng.normal(scale=0.5, size=(100, 2))
    by_second = X[:, 1] > 0
    plain = GEMINI(2, model=model, **FAST).fit(X)
    assert adjusted_rand_score(by_second, plain.labels_) < 0.1
    known = np.full(100, -1)
    known[::10] = by_second[::10]
    params = {**FAST, "learning_rate": 0.02, "tol": 1e-3, "n_init": 3}
    guided = GEMINI(2, model=model, **params)
    guided.fit(X, partial_labels=known)
    assert adjusted_rand_score(by_second, guided.labels_) > 0.9


def test_links_in_every_form_are_the_same(global_random_seed):
    X, _ = blobs(seed=global_random_seed)
    pairs = np.array([[0, 5], [5, 9], [20, 30]])
    groups = np.full(60, -1)
    groups[[0, 5, 9]], groups[[20, 30]] = 0, 1
    found = [
        quiet_fit(GEMINI(3, **FAST), X, must_link=links).predict_proba(X)
        for links in (pairs, groups, links_to_incidence(pairs, 60))
    ]
    assert_array_equal(found[0], found[1])
    assert_array_equal(found[0], found[2])


def test_links_that_are_not_met_are_counted():
    X = np.repeat([[0.0, 0.0], [5.0, 5.0]], 10, axis=0)
    with pytest.warns(
        ConvergenceWarning, match="joins 1 pairs of groups that must be separated"
    ):
        GEMINI(2, **FAST).fit(X, cannot_link=[[0, 1]])


# ------------------------------------------------------------------ within a search


# ------------------------------------------------------------------ precomputed, free


def test_precomputed_relations_need_no_features(global_random_seed):
    X, y = blobs(seed=global_random_seed)
    for params, matrix in (
        ({"kernel": "precomputed"}, X @ X.T),
        ({"kernel": "precomputed"}, X @ X.T - 50.0),
        (
            {"objective": "wasserstein", "metric": "precomputed"},
            np.linalg.norm(X[:, None] - X, axis=2),
        ),
    ):
        gemini = GEMINI(3, model="free", mode="ovo", **{**FAST, "learning_rate": 1.0})
        gemini.set_params(**params)
        assert adjusted_rand_score(y, gemini.fit(matrix).labels_) > 0.4
    with pytest.raises(ValueError, match="must be 'free' for a precomputed relation"):
        GEMINI(3, kernel="precomputed").fit(X @ X.T)
    with pytest.raises(ValueError, match="must be a square matrix of kernels"):
        GEMINI(3, kernel="precomputed", model="free").fit(X)


def test_free_assignments_cannot_predict_and_say_what_can(global_random_seed):
    X, _ = blobs(seed=global_random_seed)
    gemini = quiet_fit(GEMINI(3, model="free", **FAST), X)
    assert gemini.assignments_.shape == (60, 3)
    assert_array_equal(gemini.assignments_.argmax(axis=1), gemini.labels_)
    for name in ("predict", "predict_proba", "score"):
        assert not hasattr(gemini, name)
        with pytest.raises(AttributeError) as caught:
            getattr(gemini, name)
        assert "use model='mlp'" in str(caught.value.__cause__)


# ------------------------------------------------------------------ faults


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_score_is_the_silhouette_among_the_means_of_others(kernel, global_random_seed):
    X, _ = blobs(seed=global_random_seed)
    gemini = GEMINI(3, kernel=kernel, gamma="scale", **FAST).fit(X)
    K = X @ X.T
    if kernel == "rbf":
        K = rbf_kernel(X, gamma=gemini.gamma_)
    # The last one is alone in its cluster.
    labels = np.append(gemini.labels_[:-1], 3)
    gemini._logits = lambda X: np.eye(4)[labels]
    values = []
    for i, label in enumerate(labels):
        is_other = np.arange(len(X)) != i
        squares = []
        for k in range(4):
            members = (labels == k) & is_other
            if members.any():
                within = K[np.ix_(members, members)].mean()
                squares.append(K[i, i] - 2 * K[i, members].mean() + within)
            else:
                squares.append(0.0)
        own = np.sqrt(squares.pop(label))
        nearest = np.sqrt(min(squares))
        alone = not (is_other & (labels == label)).any()
        values.append(0.0 if alone else (nearest - own) / max(own, nearest))
    # A kernel is reduced to its leading components.
    rounding = 1e-9 if kernel == "linear" else 0.02
    assert gemini.score(X) == pytest.approx(np.mean(values), rel=rounding)
    gemini._logits = lambda X: np.ones((len(X), 1))
    assert gemini.score(X) == 0.0


@pytest.mark.parametrize("container", [np.asarray, csr_array])
def test_weights_of_a_score_are_repeated_samples(container, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    X, _ = blobs(seed=global_random_seed)
    gemini = GEMINI(3, **FAST).fit(X)
    X = X[:12] * rng.choice([1, 5], size=(12, 1))
    labels = np.repeat([0, 2, 5], [6, 5, 1])  # others have no sample
    weights = rng.choice([0, 1, 3], size=12)
    weights[0] = 3
    score = {}
    for name, counts in {"weighted": np.ones(12, int), "repeated": weights}.items():
        repeated = np.repeat(labels, counts)
        gemini._logits = lambda X, labels=repeated: np.eye(6)[labels]
        rows = container(np.repeat(X, counts, axis=0))
        given = {"sample_weight": weights} if name == "weighted" else {}
        score[name] = gemini.score(rows, **given)
    assert score["weighted"] == pytest.approx(score["repeated"])
    values = []
    X, labels = np.repeat(X, weights, axis=0), np.repeat(labels, weights)
    for i, label in enumerate(labels):
        own = (labels == label) & (np.arange(len(X)) != i)
        other = [X[labels == k].mean(axis=0) for k in set(labels) - {label}]
        far = np.linalg.norm(X[i] - other, axis=1).min()
        near = np.linalg.norm(X[i] - X[own].mean(axis=0)) if own.any() else far
        values.append((far - near) / max(far, near))
    assert score["weighted"] == pytest.approx(np.mean(values))


def test_weights_of_a_score_are_repeated_samples_of_a_kernel(global_random_seed):
    X, _ = blobs(60, seed=global_random_seed)
    gemini = GEMINI(3, kernel="rbf", gamma=1.0, **FAST).fit(X)
    # Components beyond the 32 leading ones are left out.
    counts = np.where(np.arange(60) % 5, 1, 6)
    counts[1] = 0
    weighted = gemini.score(X, sample_weight=counts)
    repeated = gemini.score(np.repeat(X, counts, axis=0))
    assert weighted == pytest.approx(repeated, rel=1e-9)


@pytest.mark.parametrize("n_samples", [60, 100, 200])
def test_a_kernel_whose_components_have_one_size(n_samples):
    # No two samples are similar, but for a third of them, which are equal.
    K = np.eye(n_samples)
    K[: n_samples // 3, : n_samples // 3] = 1.0
    X = np.arange(n_samples)[:, None].clip(n_samples // 3)
    gemini = quiet_fit(GEMINI(2, **FAST), X, precomputed=K)
    assert -1 <= gemini.score(X, precomputed=K) <= 1


def test_a_kernel_that_single_precision_cannot_hold_is_refused():
    X = np.float32(1e8) * blobs(30)[0].astype(np.float32)
    gemini = GEMINI(3, kernel="polynomial", **FAST)
    with pytest.raises(ValueError, match="must give values that float32 holds"):
        gemini.fit(X)
    gemini.fit(X.astype(np.float64))


def test_a_large_linear_problem_forms_no_matrix_between_rows():
    # A 50 000 x 50 000 kernel would take 19 GiB.
    X = np.random.RandomState(0).normal(size=(50_000, 3)).astype(np.float32)
    gemini = quiet_fit(GEMINI(2, max_iter=2, n_init=1, random_state=0), X)
    assert len(gemini.labels_) == 50_000


@pytest.mark.parametrize("mode", ["ova", "ovo"])
def test_mmd_of_weights_that_are_no_numbers_is_divergence_and_not_zero(mode):
    X, _ = blobs(30)
    params = {**FAST, "learning_rate": 1e300}
    gemini = GEMINI(2, mode=mode, model="mlp", hidden_layer_sizes=4, **params)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gemini.fit(X)
    assert "diverged in epoch 2: loss nan" in str(caught[0].message)


@pytest.mark.parametrize("objective", ["mmd", "wasserstein", "kl"])
def test_a_batch_of_rows_without_weight_is_none(objective):
    X, _ = blobs(24)
    weight = np.r_[np.ones(8), np.zeros(8), np.ones(8)]
    params = {**FAST, "max_iter": 5, "batch_size": 2, "l2": 0.01}
    gemini = quiet_fit(
        GEMINI(2, objective=objective, **params), X, sample_weight=weight
    )
    assert np.isfinite(gemini.history_["loss"]).all()


@pytest.mark.parametrize("objective", ["mmd", "wasserstein", "kl"])
@pytest.mark.parametrize("batch_size", [None, 7])
def test_equal_rows_never_part_without_a_model(objective, batch_size):
    X = np.repeat(blobs(15)[0], 2, axis=0)
    weight = np.random.RandomState(0).uniform(0.5, 2.0, 30)
    params = {**FAST, "max_iter": 10, "batch_size": batch_size, "l2": 0.01}
    gemini = GEMINI(3, objective=objective, model="free", **params)
    quiet_fit(gemini, X, sample_weight=weight)
    assert gemini.assignments_.shape == (30, 3)
    assert_array_equal(gemini.assignments_[::2], gemini.assignments_[1::2])
    matrix = np.linalg.norm(X[:, None] - X, axis=2)
    gemini.set_params(objective="wasserstein", metric="precomputed")
    labels = quiet_fit(gemini, matrix, sample_weight=weight).labels_
    assert_array_equal(labels[::2], labels[1::2])


def test_relations_that_are_none_are_refused():
    X, _ = blobs(12)
    params = {"objective": "wasserstein", "model": "free"}
    with pytest.raises(ValueError, match="distances of at least 0. Got .* from 'preco"):
        GEMINI(2, metric="precomputed", **params).fit(X @ X.T - 50)
    with pytest.raises(ValueError, match="distances of at least 0. Got -1"):
        gemini_score(
            np.full((12, 2), 0.5), X, objective="wasserstein", metric=lambda a, b: -1.0
        )
    with pytest.raises(ValueError, match="to a dense array. Got a sparse one from One"):
        GEMINI(2, kernel=OneHotEncoder()).fit(X)
    with pytest.raises(ValueError, match="finite features. Got NaN or infinity from F"):
        GEMINI(2, kernel=FunctionTransformer(lambda X: X * np.nan)).fit(X)


@pytest.mark.parametrize("objective", available_objectives())
@pytest.mark.parametrize("mode", ["ova", "ovo"])
def test_weights_are_repeated_rows_for_every_objective(objective, mode):
    X, _ = blobs(12)
    counts = np.random.RandomState(0).randint(1, 4, 12)
    params = {**FAST, "max_iter": 5, "l2": 1e-3, "objective": objective, "mode": mode}
    for model in ("linear", "free"):
        gemini = GEMINI(3, model=model, **params)
        weighed = quiet_fit(clone(gemini), X, sample_weight=counts)
        repeated = quiet_fit(gemini, np.repeat(X, counts, axis=0))
        if model == "linear":
            found, expected = (trained(m, X) for m in (weighed, repeated))
        else:
            found = np.repeat(weighed.assignments_, counts, axis=0)
            expected = repeated.assignments_
        if (
            objective == "wasserstein"
        ):  # whose potentials, and gradients, are not unique
            found, expected = found.argmax(axis=1), expected.argmax(axis=1)
        assert_allclose(found, expected, atol=1e-8)


@pytest.mark.parametrize(
    "params, message",
    [
        ({"metric": "precomputed"}, "'metric' par.*objective='mmd'.*kernel='precomp"),
        (
            {"kernel": "precomputed", "objective": "wasserstein"},
            "'kernel' par.*objective='wasserstein'.*metric='precomputed'",
        ),
        ({"kernel": "precomputed", "objective": "kl"}, "'kernel' par.*Pass features"),
    ],
)
@pytest.mark.parametrize("model", ["linear", "free"])
def test_a_matrix_that_the_objective_would_take_as_features(params, message, model):
    D = np.abs(np.subtract.outer(np.arange(9.0), np.arange(9.0)))
    with pytest.raises(ValueError, match=message):
        GEMINI(2, model=model, **params).fit(D)


def test_a_fit_leaves_no_attributes_of_another_model():
    X = np.random.default_rng(0).normal(size=(30, 2)) + [[0.0, 0.0], [9.0, 9.0]] * 15
    gemini = GEMINI(2, kernel="rbf", learning_rate=0.1, random_state=0)
    for model in ("linear", "free", "mlp", "linear"):
        quiet_fit(gemini.set_params(model=model), X)
        fresh = quiet_fit(clone(gemini), X)
        assert vars(gemini).keys() == vars(fresh).keys()
    quiet_fit(gemini.set_params(kernel="linear"), X)
    assert not hasattr(gemini, "gamma_")


# ------------------------------------------------------------------ without a use


@pytest.mark.parametrize(
    "used, unused",
    [
        ({}, {"metric": "cosine", "gamma": 0.5}),
        ({}, {"gamma": "scale", "kernel_params": {"degree": 2}}),
        ({"kernel": "cosine"}, {"gamma": 1.0}),
        ({"kernel": "rbf"}, {"kernel_params": {"degree": 2, "coef0": 0}}),
        ({"objective": "wasserstein"}, {"kernel": "rbf", "gamma": 0.5}),
        ({"objective": "kl"}, {"kernel": np.dot, "metric": "l1"}),
    ],
)
def test_what_has_no_part_in_the_relation_is_ignored(used, unused):
    X, _ = blobs(seed=0)
    gemini = GEMINI(3, max_iter=3, n_init=1, random_state=0, **used)
    expected = quiet_fit(gemini, X)
    found = quiet_fit(clone(gemini).set_params(**unused), X)
    assert_array_equal(found.coefs_[0], expected.coefs_[0])
    assert not hasattr(found, "gamma_")


# ------------------------------------------------------------------ the start


def test_training_leaves_a_hard_start_only_if_that_is_better():
    X, _ = blobs(seed=0)
    hard = GEMINI(3, random_state=0).fit(X)
    assert trained(hard, X).max(axis=1).min() > 0.99
    # Large weights are penalised: training finds softer clusters that are better.
    soft = GEMINI(3, l2=0.5, learning_rate=0.05, random_state=0).fit(X)
    assert trained(soft, X).max(axis=1).min() < 0.99


@pytest.mark.parametrize("kernel", ["linear", "rbf", "laplacian", "cosine"])
def test_no_number_of_clusters_where_nothing_varies(kernel):
    model = GEMINI("auto", kernel=kernel, random_state=0)
    assert model.fit(np.ones((2, 3))).n_clusters_ == 1
    assert np.isfinite(model.score(np.ones((2, 3))))
    X = np.random.RandomState(0).normal(size=(20, 3))
    one = np.eye(20)[4]
    assert model.fit(X, sample_weight=one).n_clusters_ == 1
    free = clone(model).set_params(kernel="precomputed", model="free")
    assert free.fit(np.ones((20, 20))).n_clusters_ == 1
