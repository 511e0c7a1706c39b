"""SparseGEMINI: optimality at a fixed penalty, the path, and the choice on it."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from gemini_assignments import Ending, objective_of, trained
from numpy.testing import assert_allclose, assert_array_equal, assert_equal
from scipy.special import softmax
from sklearn.base import clone
from sklearn.callback import ScoringMonitor
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from skdiffclust import GEMINI, SparseGEMINI
from skdiffclust.gemini import gemini_score

FAST = {
    "mode": "ovo",
    "max_iter": 50,
    "tol": 0.01,
    "n_init": 1,
    "learning_rate": 0.05,
    "hidden_layer_sizes": (6,),
    "random_state": 0,
}
per_model = pytest.mark.parametrize("model", ["linear", "mlp"])


def problem(n=90, noise=6, seed=0):
    """Three clusters in the first two features, then noise."""
    rng = np.random.RandomState(seed)
    y = np.repeat([0, 1, 2], n // 3)
    X = rng.normal(size=(n, 2 + noise))
    X[:, :2] += np.array([[-4, -4], [4, -4], [0, 5]])[y]
    return X, y


def overlapping(n=90, noise=6, seed=0):
    """Three clusters that overlap, so that features leave one after the other."""
    X, y = problem(n, noise, seed)
    X[:, :2] -= 0.7 * np.array([[-4, -4], [4, -4], [0, 5]])[y]
    return X, y


def quiet(function, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return function(*args, **kwargs)


@pytest.fixture(scope="module")
def short_path():
    """Return a path that ends after its first penalty."""
    X, _ = problem(n=30)
    return quiet(SparseGEMINI(2, **FAST).path, X, alpha_init=100.0)


# ------------------------------------------------------------------ a fixed penalty


@pytest.mark.filterwarnings("ignore:SparseGEMINI found 1 of 3 clusters")
@per_model
def test_more_penalty_fewer_features(model, global_random_seed):
    X, _ = problem(seed=global_random_seed)
    sizes = []
    for alpha in (0.0, 0.3, 5.0):
        sparse = quiet(SparseGEMINI(3, model=model, alpha=alpha, **FAST).fit, X)
        sizes.append(sparse.get_support().sum())
    assert sizes[0] == 8
    assert (np.diff(sizes) <= 0).all()
    with pytest.warns(ConvergenceWarning, match="selects no feature at alpha=1e"):
        sparse.set_params(alpha=1e4).fit(X)
    assert not sparse.feature_norms_.any()


@pytest.mark.filterwarnings("ignore:SparseGEMINI found 1 of 2 clusters")
@pytest.mark.parametrize("objective", ["mmd", "kl", "hellinger"])
@pytest.mark.parametrize("n_clusters, X", [(1, np.eye(4)), (2, np.ones((4, 2)))])
def test_an_objective_of_zero_has_a_path(objective, n_clusters, X):
    sparse = SparseGEMINI(n_clusters, objective=objective, n_init=1, random_state=0)
    path = sparse.path(X)
    assert np.isfinite(path.alphas).all()
    assert_array_equal(sparse.labels_, 0)


def test_without_penalty_and_hierarchy_it_is_gemini(global_random_seed):
    X, _ = problem(seed=global_random_seed)
    params = {k: v for k, v in FAST.items() if k != "tol"} | {"max_iter": 5000}
    sparse = SparseGEMINI(3, alpha=0.0, tol=1e-6, **params).fit(X)
    plain = GEMINI(3, tol=1e-6, **params).fit(X)
    assert objective_of(sparse, X) >= objective_of(plain, X) * (1 - 1e-9)


@per_model
def test_a_dropped_feature_changes_nothing_in_predict(model, global_random_seed):
    X, _ = problem(seed=global_random_seed)
    sparse = SparseGEMINI(3, model=model, **FAST)
    sparse.path(X, min_features=2)
    out = ~sparse.get_support()
    assert out.any()
    moved = X.copy()
    moved[:, out] = np.random.RandomState(global_random_seed).normal(
        scale=100, size=X[:, out].shape
    )
    assert_array_equal(sparse.predict_proba(moved), sparse.predict_proba(X))
    if model == "mlp":
        bound = sparse.hierarchy * np.linalg.norm(sparse.skip_weights_, axis=1)
        assert (np.abs(sparse.coefs_[0]).max(axis=1) <= bound * (1 + 1e-12)).all()


def test_links(global_random_seed):
    X, _ = problem(seed=global_random_seed)
    known = np.r_[0, 0, np.full(88, -1)]
    sparse = SparseGEMINI(3, **FAST)
    sparse.path(X, partial_labels=known, cannot_link=[[0, 89]])
    assert sparse.labels_[0] == sparse.labels_[1] != sparse.labels_[89]


# ------------------------------------------------------------------ the path


@per_model
@pytest.mark.parametrize("mode", ["ova", "ovo"])
def test_path_finds_the_informative_features(model, mode, global_random_seed):
    X, y = problem(seed=global_random_seed)
    sparse = SparseGEMINI(3, model=model, **{**FAST, "mode": mode})
    path = quiet(sparse.path, X, min_features=2)
    assert sparse.get_support(indices=True).tolist() == [0, 1]
    assert path.n_features[0] == 8 and path.n_features[-1] <= 2
    assert (np.diff(path.alphas) > 0).all()
    assert_allclose(path.alphas[2:] / path.alphas[1:-1], 1.05)
    # Where all but the informative features are out at once, a solution needs no more.
    assert path.n_features[1] >= 2
    if mode == "ovo":
        assert adjusted_rand_score(y, sparse.labels_) > 0.9


@per_model
def test_every_attribute_is_of_the_chosen_step(model, global_random_seed):
    X, _ = problem(seed=global_random_seed)
    sparse = SparseGEMINI(3, model=model, **FAST)
    before = sparse.get_params()
    path = sparse.path(X)
    step = path.chosen
    assert sparse.get_params() == before
    assert sparse.alpha_ == path.alphas[step]
    assert_array_equal(sparse.labels_, path.labels[step])
    assert_array_equal(sparse.predict(X), sparse.labels_)
    assert_array_equal(sparse.get_support(), path.supports[step])
    assert_allclose(objective_of(sparse, X), path.objectives[step], rtol=1e-9)
    assert_allclose(sparse.feature_norms_.sum(), path.penalties[step])
    assert sparse.n_iter_ == path.n_iters[step]
    expected = gemini_score(trained(sparse, X), X, mode="ovo")
    assert_allclose(path.objectives[step], expected, rtol=1e-9)


@per_model
def test_every_step_can_be_selected(model, global_random_seed):
    X, _ = problem(seed=global_random_seed)
    sparse = SparseGEMINI(3, model=model, **FAST)
    path = sparse.path(X)
    for step in range(0, len(path), 5):
        fitted = path.select(alpha=path.alphas[step])
        assert_array_equal(fitted.predict(X), path.labels[step])
        assert_allclose(objective_of(fitted, X), path.objectives[step], rtol=1e-9)
        assert fitted.get_params() == sparse.get_params()
    assert path.select(n_features=3).get_support().sum() <= 3
    assert_array_equal(path.select().labels_, sparse.labels_)
    kept = path.select(keep_threshold=0.5)
    assert kept.get_support().sum() <= sparse.get_support().sum()
    with pytest.raises(ValueError, match="one at a time"):
        path.select(alpha=1.0, n_features=2)
    with pytest.raises(ValueError, match="'n_features' parameter of select must be at"):
        path.select(n_features=0)
    with pytest.raises(
        ValueError, match="'alpha' parameter of select must be a float in"
    ):
        path.select(alpha=-1.0)


@pytest.mark.parametrize(
    "objectives, n_features, chosen",
    [
        ([3.0, 2.9, 2.8, 2.5, 1.0], [9, 6, 6, 4, 2], 1),  # the larger objective
        ([3.0, 2.9, 2.0, 2.8, 0.0], [9, 6, 5, 3, 0], 1),  # it comes back too late
        ([2.0, 3.0, 2.9, 2.0, 0.0], [9, 8, 5, 4, 0], 2),
        ([2.8, 2.0, 3.0, 2.9, 2.0], [9, 8, 5, 4, 0], 3),  # a dip at the beginning
        ([3.0, 2.9], [4, 3], 1),
        ([0.0, 0.0], [0, 0], 0),
    ],
)
def test_the_step_before_the_objective_falls(
    objectives, n_features, chosen, short_path
):
    steps = [
        replace(short_path.steps[0], objective=value, support=np.arange(9) < n)
        for value, n in zip(objectives, n_features, strict=True)
    ]
    assert replace(short_path, steps=steps).chosen == chosen


def test_a_path_without_names_is_drawn(short_path):
    lines = short_path.plot().lines_
    assert len(lines["weights"]) == short_path.supports.shape[1]


@pytest.mark.few_epochs
@pytest.mark.parametrize("model", ["linear", "mlp"])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("shape", [(1, 3), (4, 2), (4, 9)])
def test_equal_samples_have_a_path_of_no_features(model, dynamic, shape):
    X = np.ones(shape)
    sparse = SparseGEMINI(1, model=model, dynamic=dynamic, max_iter=3, random_state=0)
    assert_array_equal(sparse.fit(X).labels_, 0)
    path = sparse.path(X, min_features=1)
    assert (len(path), path.chosen, path.n_features[0]) == (1, 0, 0)
    assert_array_equal(path.select().predict(X), 0)


@pytest.mark.parametrize("min_features", [1, 3])
def test_importances_are_the_penalties_at_which_features_leave(
    min_features, global_random_seed
):
    X, _ = overlapping(seed=global_random_seed)
    sparse = SparseGEMINI(3, **FAST)
    path = sparse.path(X, min_features=min_features)
    assert set(np.argsort(-sparse.feature_importances_)[:2]) == {0, 1}
    alphas = np.append(path.alphas, np.nextafter(path.alphas[-1], np.inf))
    for feature, support in enumerate(path.supports.T):
        last = np.flatnonzero(support).max()
        assert sparse.feature_importances_[feature] == alphas[last + 1]
    least = path.n_features[path.n_features > 0].min()
    assert path.select(n_features=least).get_support().sum() == least
    assert not hasattr(quiet(sparse.fit, X), "feature_importances_")


@per_model
def test_groups_leave_together(model, global_random_seed):
    X, _ = problem(seed=global_random_seed)
    numbers, names = np.array([0, 1, 2, 2, 2, 3, 3, 0]), list("abcccdda")
    path = SparseGEMINI(3, model=model, groups=numbers, **FAST).path(X)
    for group in range(4):
        members = path.supports[:, numbers == group]
        assert_array_equal(members.any(axis=1), members.all(axis=1))
    for same in (names, pd.Series(names, dtype=object)):
        named = SparseGEMINI(3, model=model, groups=same, **FAST).path(X)
        assert_array_equal(named.supports, path.supports)


@pytest.mark.parametrize("groups", [[0, 1], [None] * 8, [0.5] * 8])
def test_groups_are_refused(groups):
    match = "'groups' parameter of SparseGEMINI must be .* array of integers or names"
    with pytest.raises(ValueError, match=match):
        SparseGEMINI(3, groups=groups).fit(problem()[0])


def test_a_perceptron_is_trained_again_within_a_multiple_of_max_iter():
    X, _ = problem()
    params = {**FAST, "max_iter": 20, "tol": 0.5, "alpha": 1e-3}
    sparse = SparseGEMINI(3, model="mlp", **params)
    with pytest.warns(ConvergenceWarning, match="optimality conditions are violated"):
        sparse.fit(X)
    assert 20 < sparse.n_iter_ <= 6 * 20


def test_refinement_parts_what_leaves_at_once(global_random_seed):
    X, _ = overlapping(noise=20, seed=global_random_seed)
    params = {**FAST, "max_iter": 1000}
    plain = SparseGEMINI(3, **params).path(X, alpha_multiplier=2.0)
    fine = SparseGEMINI(3, **params).path(X, alpha_multiplier=2.0, refine=True)
    assert np.diff(plain.n_features).min() < -3
    assert len(np.unique(fine.n_features)) > len(np.unique(plain.n_features))


@pytest.mark.parametrize("objective", ["mmd", "wasserstein", "kl"])
def test_dynamic(objective, global_random_seed):
    X, _ = problem(n=24, noise=2, seed=global_random_seed)
    params = {**FAST, "max_iter": 10, "l2": 0.01}
    sparse = SparseGEMINI(3, dynamic=True, objective=objective, **params)
    path = quiet(sparse.path, X, alpha_multiplier=2.0)
    if objective != "kl":
        step = np.flatnonzero(path.n_features == 2)[0]
        expected = gemini_score(
            softmax(path.steps[step].logits, axis=1),
            X[:, path.supports[step]],
            objective=objective,
            mode="ovo",
        )
        assert_allclose(path.objectives[step], expected, rtol=1e-9)
    with pytest.raises(ValueError, match="must be None with dynamic=True"):
        path.select(keep_threshold=0.9)


@per_model
@pytest.mark.few_epochs
def test_a_monitor_sees_every_epoch_of_a_path(model, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    X = rng.normal(size=(30, 8))
    X[:, :3] += 3 * np.repeat([-1, 1], 15)[:, None]
    scoring = {
        "features": lambda estimator, X, y: estimator.get_support().sum(),
        "objective": lambda estimator, X, y: objective_of(estimator, X),
    }
    monitor = ScoringMonitor(scoring=scoring)
    max_iter = 20 if model == "mlp" else 1000
    sparse = SparseGEMINI(2, model=model, **{**FAST, "max_iter": max_iter})
    path = sparse.set_callbacks(monitor).path(X, min_features=3, alpha_multiplier=1.5)
    epochs = [row for row in monitor.get_logs().data if row["task_name"] == "epoch"]
    assert len(epochs) >= path.n_iters.sum()
    assert epochs[-1]["features"] == path.n_features[-1] == 3
    if model == "linear":  # that of a perceptron may be the best epoch before
        assert epochs[-1]["objective"] == pytest.approx(path.objectives[-1])


@per_model
@pytest.mark.parametrize("n_tasks", [1, 8, 40])
def test_a_callback_that_stops_a_path_leaves_the_steps_before(model, n_tasks):
    X, _ = overlapping()
    sparse = SparseGEMINI(3, model=model, **FAST)
    whole = quiet(sparse.path, X)
    path = quiet(sparse.set_callbacks(Ending(n_tasks)).path, X)
    assert 1 <= len(path) < len(whole)
    assert_array_equal(sparse.predict(X), path.labels[path.chosen])
    alone = quiet(sparse.set_callbacks(Ending(n_tasks)).fit, X)
    assert_array_equal(alone.predict(X), alone.labels_)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_path_of_a_frame(dtype, global_random_seed):
    X, _ = problem(seed=global_random_seed)
    X = pd.DataFrame(X.astype(dtype), columns=[f"v{i}" for i in range(8)])
    sparse = SparseGEMINI(3, **FAST)
    path = sparse.path(X)
    frame = path.to_frame()
    assert len(frame) == len(path) and frame["chosen"].sum() == 1
    assert len(path.plot().axes_) == 3
    copy = pickle.loads(pickle.dumps(path)).select(n_features=2)
    for model in (sparse, copy):
        assert model.get_feature_names_out().tolist() == ["v0", "v1"]
        assert model.transform(X).dtype == model.coefs_[0].dtype == dtype
    assert_array_equal(copy.predict(X), path.select(n_features=2).labels_)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"alpha_multiplier": 1.0}, "'alpha_multiplier' parameter"),
        ({"alpha_multiplier": np.nan}, "'alpha_multiplier' parameter"),
        ({"min_features": 0}, "'min_features' parameter"),
        ({"min_features": 9}, "at most the number of features, n_features=8. Got 9"),
        ({"keep_threshold": 1.5}, "'keep_threshold' parameter"),
        ({"alpha_init": 0.0}, "'alpha_init' parameter"),
        ({"alpha_init": np.nan}, "'alpha_init' parameter"),
    ],
)
def test_options_of_the_path_are_refused(options, message):
    sparse = SparseGEMINI(3)
    with pytest.raises(ValueError, match=message):
        sparse.path(problem()[0], **options)
    assert not hasattr(sparse, "n_features_in_")


def test_the_estimator_that_chooses_the_number_of_clusters_is_named():
    for fit in (SparseGEMINI.fit, SparseGEMINI.path):
        with pytest.raises(ValueError, match="SparseGEMINICV chooses.*Got 'auto'"):
            fit(SparseGEMINI("auto"), problem()[0])


# ------------------------------------------------------------------ interruption


def test_an_interrupted_path_keeps_the_finished_steps(global_random_seed):
    X, _ = overlapping(seed=global_random_seed)
    sparse = SparseGEMINI(3, **FAST).set_callbacks(counter := Ending(10**9))
    whole = sparse.path(X, alpha_init=0.005)
    sparse.set_callbacks(Ending((10**9 - counter.n_left) // 2, KeyboardInterrupt))
    with pytest.warns(ConvergenceWarning, match="interrupted after .* steps, at alpha"):
        path = sparse.path(X, alpha_init=0.005)
    assert 1 < len(path) < len(whole)
    assert_array_equal(path.objectives, whole.objectives[: len(path)])
    assert_array_equal(sparse.predict(X), path.labels[path.chosen])


@pytest.mark.few_epochs
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"batch_size": 10},
        {"model": "mlp"},
        {"model": "mlp", "batch_size": 10},
        {"objective": "wasserstein"},
        {"objective": "wasserstein", "dynamic": True},
    ],
    ids=str,
)
def test_a_killed_path_resumes_bit_for_bit(params, tmp_path, global_random_seed):
    # On a grid there are many optimal potentials, and the start decides which.
    X = np.round(overlapping(n=24, noise=4, seed=global_random_seed)[0])
    sparse = SparseGEMINI(3, **FAST | {"max_iter": 10} | params)
    options = {"alpha_init": 0.02, "alpha_multiplier": 1.4, "refine": True}
    counter = Ending(10**9)
    whole = quiet(clone(sparse).set_callbacks(counter).path, X, **options)
    options["checkpoint"] = tmp_path / "path"
    killed = clone(sparse).set_callbacks(
        Ending((10**9 - counter.n_left) * 2 // 3, SystemExit)
    )
    with pytest.raises(SystemExit):
        quiet(killed.path, X, **options)
    assert list(options["checkpoint"].glob("*2.npz"))
    # Once more: there is nothing left to do, and the result is the same.
    for _ in range(2):
        resumed = quiet(clone(sparse).path, X, **options, resume=True)
        for step, expected in zip(resumed.steps, whole.steps, strict=True):
            assert_equal(vars(step), vars(expected))


def test_steps_that_diverge_go_back_to_their_best_weights():
    # The gradient of l2 makes such steps longer and longer.
    params = {**FAST, "model": "mlp", "l2": 1.0, "learning_rate": 10.0}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sparse = SparseGEMINI(3, **params)
        path = sparse.path(problem(30)[0], alpha_init=0.003, alpha_multiplier=1.5)
    messages = [str(warning.message) for warning in caught]
    assert sum("diverged in epoch" in message for message in messages) > 5
    assert_allclose(path.objectives[:10], path.objectives[0], rtol=0.01)
    # And without a velocity, with which the next step would diverge sooner.
    assert path.n_iters[2:10].min() >= path.n_iters[1]


def test_history_is_of_fit_and_not_of_the_last_step_of_a_path():
    X, _ = problem()
    sparse = SparseGEMINI(3, alpha=0.3, **FAST)
    quiet(sparse.fit, X)
    assert sparse.n_iter_ == len(sparse.history_["loss"])
    sparse.path(X)
    assert not hasattr(sparse, "history_")


@pytest.mark.parametrize(
    "choice",
    [
        {"n_features": "2"},
        {"n_features": 7.5},
        {"alpha": "1"},
        {"alpha": np.nan},
        {"keep_threshold": 1.5},
        {"keep_threshold": np.nan},
        {"keep_threshold": 0},
    ],
)
def test_a_choice_of_no_step_is_refused(choice, short_path):
    with pytest.raises(ValueError, match=f"'{next(iter(choice))}' parameter of select"):
        short_path.select(**choice)


@pytest.mark.few_epochs
@pytest.mark.parametrize(
    "params",
    [
        {"objective": "tv"},
        {"objective": "wasserstein"},
        {"objective": "tv", "model": "mlp"},
        {"model": "mlp"},
        {"batch_size": 10},
    ],
    ids=str,
)
def test_one_epoch_a_step_is_a_step(params):
    X = np.random.RandomState(0).normal(size=(40, 4))
    X[:, :2] += 5 * (np.arange(40) % 3)[:, None]
    sparse = SparseGEMINI(3, max_iter=1, n_init=1, random_state=0, **params)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        path = sparse.path(X)
    assert path.n_features[-1] <= 2
    assert np.isfinite(path.objectives).all()


@pytest.mark.parametrize("model", ["linear", "mlp"])
def test_one_cluster_selects_nothing(model):
    X = np.random.RandomState(0).normal(size=(40, 4))
    sparse = SparseGEMINI(1, model=model, random_state=0)
    assert not sparse.fit(X).get_support().any()
    path = sparse.path(X)
    assert not sparse.get_support().any()
    assert_array_equal(path.n_features, 0)
    assert_array_equal(sparse.predict(X), 0)
