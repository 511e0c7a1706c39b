"""GEMINI: results, guarantees and refusals."""

import re
import warnings

import numpy as np
import pytest
from gemini_assignments import objective_of, trained
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.callback import ProgressBar, ScoringMonitor
from sklearn.datasets import make_blobs, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from skdiffclust import GEMINI, SparseGEMINI
from skdiffclust.gemini import available_objectives, gemini_score
from skdiffclust.metrics import links_to_incidence, silhouette_scorer

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


@pytest.mark.parametrize("model", ["linear", "mlp"])
def test_the_dtype_is_kept(model, global_random_seed):
    X, _ = blobs(dtype=np.float32, seed=global_random_seed)
    gemini = quiet_fit(GEMINI(3, model=model, **FAST), X)
    assert {a.dtype for a in (*gemini.coefs_, *gemini.intercepts_)} == {
        np.dtype(np.float32)
    }
    assert gemini.predict_proba(X).dtype == np.float32
    double = quiet_fit(GEMINI(3, model=model, **FAST), X.astype(np.float64))
    assert adjusted_rand_score(gemini.labels_, double.labels_) == 1


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
    # Opposite corners cannot be one side of a line, nor equal samples be apart.
    X = np.repeat([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]], 5, axis=0)
    links = {"must_link": [[0, 5], [10, 15]], "cannot_link": [[0, 10], [1, 2]]}
    match = "separates (1|2) groups of .* joins (1|2) pairs of groups"
    with pytest.warns(ConvergenceWarning, match=match) as caught:
        labels = GEMINI(2, **FAST).fit(X, **links).labels_
    one, other = set(labels[[0, 5]]), set(labels[[10, 15]])
    separated = len(one) + len(other) - 2
    joined = 1 + bool(one & other)
    counts = re.findall("separates (.) .* joins (.) pairs", str(caught[0].message))
    assert counts == [(str(separated), str(joined))]


@pytest.mark.parametrize("objective", available_objectives())
@pytest.mark.parametrize("mode", ["ova", "ovo"])
@pytest.mark.parametrize("model", ["linear", "free"])
def test_weights_are_repeated_rows(objective, mode, model):
    X, _ = blobs(12)
    # Without a model, samples of weight 0 have logits, whose squares count.
    counts = np.random.RandomState(0).randint(model == "free", 4, 12)
    params = {"objective": objective, "mode": mode, "model": model, "l2": 1e-3}
    gemini = GEMINI(3, **FAST | {"max_iter": 5}, **params)
    weighed = quiet_fit(clone(gemini), X, sample_weight=counts)
    repeated = quiet_fit(gemini, np.repeat(X, counts, axis=0))
    labels = np.repeat(weighed.labels_, counts)
    if objective == "wasserstein":  # whose potentials, and gradients, are not unique
        assert_array_equal(labels, repeated.labels_)
        return
    losses = repeated.history_["loss"]
    assert_allclose(weighed.history_["loss"], losses, rtol=1e-7, atol=1e-12)
    if model == "linear":
        assert_allclose(trained(weighed, X), trained(repeated, X), atol=1e-8)
    else:
        assert_array_equal(labels, repeated.labels_)


def test_a_monitor_sees_every_epoch():
    monitor = ScoringMonitor(scoring={"silhouette": silhouette_scorer})
    model = GEMINI(3, **{**FAST, "max_iter": 4, "l2": 1e-3})
    quiet_fit(model.set_callbacks(ProgressBar(), monitor), blobs()[0])
    # Each epoch of two restarts, the last one from a partition.
    names = [row["task_name"] for row in monitor.get_logs().data]
    assert names.count("epoch") == 8


# ------------------------------------------------------------------ precomputed, free


@pytest.mark.parametrize("name", ["linear", "negative", "euclidean"])
def test_precomputed_relations_need_no_features(name, global_random_seed):
    X, y = blobs(seed=global_random_seed)
    matrix = X @ X.T - 50.0 * (name == "negative")
    gemini = GEMINI(3, kernel="precomputed", mode="ovo", **FAST | {"learning_rate": 1})
    if name == "euclidean":
        gemini.set_params(
            objective="wasserstein", kernel="linear", metric="precomputed"
        )
        matrix = np.linalg.norm(X[:, None] - X, axis=2)
    with pytest.raises(ValueError, match="must be 'free' for a precomputed relation"):
        gemini.fit(matrix)
    gemini.set_params(model="free")
    assert adjusted_rand_score(y, gemini.fit(matrix).labels_) > 0.4
    with pytest.raises(ValueError, match="must be a square matrix of"):
        gemini.fit(X)


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


def test_empty_clusters_are_counted():
    X = np.repeat([[0.0, 0.0], [9.0, 9.0]], 10, axis=0)
    with pytest.warns(ConvergenceWarning, match=r"2 of 4 clusters.*\[10, 10, 0"):
        gemini = GEMINI(4, **FAST).fit(X)
    assert gemini.n_clusters_ == 2
    assert set(gemini.labels_) == {0, 1}


@pytest.mark.parametrize(
    "kernel, container",
    [("linear", np.asarray), ("linear", csr_array), ("rbf", np.asarray)],
)
def test_score_is_the_silhouette_among_the_means_of_others(
    kernel, container, global_random_seed
):
    rng = np.random.RandomState(global_random_seed)
    centers = [[0, 0], [6, 0], [0, 6], [6, 6]]
    X, y = make_blobs(80, centers=centers, random_state=global_random_seed)
    gemini = GEMINI(4, kernel=kernel, gamma=0.1, **FAST).fit(X)
    # One is alone in its cluster, and one cluster has no sample.
    rows = np.concatenate([np.flatnonzero(y == k)[:n] for k, n in enumerate([6, 5, 1])])
    X = X[rows]
    weights = rng.choice([0, 1, 3], size=12)
    weights[[0, 6, 11]] = [3, 3, 1]
    score = gemini.score(container(X), sample_weight=weights)
    X = np.repeat(X, weights, axis=0)
    labels = gemini.predict(X)
    assert gemini.score(container(X)) == pytest.approx(score)
    K = X @ X.T if kernel == "linear" else rbf_kernel(X, gamma=0.1)
    values = []
    for i, label in enumerate(labels):
        distances = {}
        for k in set(labels):
            members = (labels == k) & (np.arange(len(X)) != i)
            if members.any():
                within = K[np.ix_(members, members)].mean()
                distances[k] = np.sqrt(K[i, i] - 2 * K[i, members].mean() + within)
        own = distances.pop(label, None)
        nearest = min(distances.values())
        values.append(0.0 if own is None else (nearest - own) / max(own, nearest))
    assert score == pytest.approx(np.mean(values))
    assert gemini.score(X[labels == labels[0]]) == 0.0


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


@pytest.mark.parametrize("batch_size", [1, 7, 20, 59, 1000])
def test_batches(batch_size, global_random_seed):
    X, y = blobs(seed=global_random_seed)
    params = {**FAST, "learning_rate": 0.02}
    gemini = quiet_fit(GEMINI(3, batch_size=batch_size, mode="ovo", **params), X)
    assert np.isfinite(gemini.score(X))
    if batch_size >= 20:
        assert adjusted_rand_score(y, gemini.labels_) > 0.4


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


@pytest.mark.parametrize("kernel", ["chi2", "additive_chi2"])
@pytest.mark.parametrize("estimator", [GEMINI, SparseGEMINI])
def test_samples_may_be_read_only(estimator, kernel):
    X, _ = blobs(seed=0)
    X = X - X.min() + 1
    model = estimator(3, kernel=kernel, max_iter=5, n_init=1, random_state=0)
    expected = quiet_fit(clone(model), X).labels_
    X.flags.writeable = False
    assert_array_equal(quiet_fit(clone(model), X).labels_, expected)
    value = gemini_score(np.eye(3)[expected], X, kernel=kernel)
    assert_allclose(value, gemini_score(np.eye(3)[expected], X.copy(), kernel=kernel))


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
