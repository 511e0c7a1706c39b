"""SparseGEMINI: optimality at a fixed penalty, the path, and the choice on it."""

import warnings

import numpy as np
import pandas as pd
import pytest
from gemini_assignments import objective_of, trained
from interrupted import interrupted, stop_after
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.callback import ScoringMonitor
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from skdiffclust import GEMINI, SparseGEMINI
from skdiffclust._assignments import softmax
from skdiffclust.gemini import gemini_score
from skdiffclust.gemini._path import choose_step

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


# ------------------------------------------------------------------ a fixed penalty


@pytest.mark.parametrize("groups", [None, [0, 0, 1, 1, 2, 2, 3, 3]])
def test_fit_meets_the_optimality_conditions_of_the_group_lasso(
    groups, global_random_seed
):
    X, _ = problem(n=45, seed=global_random_seed)
    sparse = SparseGEMINI(
        3, mode="ovo", alpha=0.3, groups=groups, random_state=global_random_seed
    )
    sparse.fit(X)
    W, P = sparse.coefs_[0], trained(sparse, X)
    _, gradient = gemini_score(P, X, mode="ovo", return_gradient=True)
    slope = X.T @ (P * (gradient - (P * gradient).sum(axis=1, keepdims=True)))
    for group in np.unique(groups or range(8)):
        rows = np.flatnonzero(np.array(groups or range(8)) == group)
        norm = np.linalg.norm(W[rows])
        if norm == 0:
            assert np.linalg.norm(slope[rows]) <= 0.3 * 1.01
        else:
            assert_allclose(slope[rows], 0.3 * W[rows] / norm, atol=0.3 * 0.01)
    assert 0 < sparse.get_support().sum() < 8


@per_model
def test_more_penalty_fewer_features(model, global_random_seed):
    X, y = problem(seed=global_random_seed)
    sizes = [
        quiet(SparseGEMINI(3, model=model, alpha=alpha, **FAST).fit, X)
        .get_support()
        .sum()
        for alpha in (0.0, 0.3, 5.0, 1e4)
    ]
    assert sizes[0] == 8 and sizes[-1] == 0
    assert (np.diff(sizes) <= 0).all()


@pytest.mark.filterwarnings("ignore:SparseGEMINI found 1 clusters instead of 2")
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


def test_the_rule_takes_the_fewest_features_that_keep_enough(global_random_seed):
    X, _ = problem(seed=global_random_seed)
    path = SparseGEMINI(3, **FAST).path(X, keep_threshold=0.97, min_features=1)
    enough = (path.objectives >= 0.97 * path.objectives.max()) & (path.n_features > 0)
    assert path.n_features[path.chosen] == path.n_features[enough].min()


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
def test_the_step_before_the_objective_falls(objectives, n_features, chosen):
    assert choose_step(np.array(objectives), np.array(n_features), 0.9) == chosen


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


def test_importances_are_the_penalties_at_which_features_leave(global_random_seed):
    X, _ = overlapping(seed=global_random_seed)
    sparse = SparseGEMINI(3, **FAST)
    path = sparse.path(X, min_features=1)
    order = np.argsort(-sparse.feature_importances_)
    assert set(order[:2]) == {0, 1}
    for feature in range(8):
        last = np.flatnonzero(path.supports[:, feature]).max()
        if last + 1 < len(path):
            assert sparse.feature_importances_[feature] == path.alphas[last + 1]
    assert not hasattr(quiet(sparse.fit, X), "feature_importances_")


@per_model
def test_groups_leave_together(model, global_random_seed):
    X, _ = problem(seed=global_random_seed)
    groups = np.array([0, 1, 2, 2, 2, 3, 3, 0])
    path = SparseGEMINI(3, model=model, groups=groups, **FAST).path(X)
    for support in path.supports:
        for group in range(4):
            assert len(set(support[groups == group])) == 1
    with pytest.raises(ValueError, match="'groups' parameter of SparseGEMINI must be"):
        SparseGEMINI(3, groups=[0, 1]).fit(X)


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
            softmax(path.steps[step].logits),
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


class StopAfter:
    """A callback that asks to stop from the task with this number on."""

    def __init__(self, n_tasks):
        self.n_left = n_tasks

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        self.n_left -= 1
        return self.n_left <= 0

    def teardown(self, estimator, context):
        pass


@per_model
@pytest.mark.parametrize("n_tasks", [1, 8, 40])
def test_a_callback_that_stops_a_path_leaves_the_steps_before(model, n_tasks):
    X, _ = overlapping()
    sparse = SparseGEMINI(3, model=model, **FAST)
    whole = quiet(sparse.path, X)
    path = quiet(sparse.set_callbacks(StopAfter(n_tasks)).path, X)
    assert 1 <= len(path) < len(whole)
    assert_array_equal(sparse.predict(X), path.labels[path.chosen])
    alone = quiet(sparse.set_callbacks(StopAfter(n_tasks)).fit, X)
    assert_array_equal(alone.predict(X), alone.labels_)


def test_path_takes_what_fit_takes(global_random_seed):
    X, _ = problem(seed=global_random_seed)
    expected = SparseGEMINI(3, **FAST).path(X)
    names = [f"v{i}" for i in range(8)]
    sparse = SparseGEMINI(3, **FAST)
    for same in (X.tolist(), pd.DataFrame(X, columns=names)):
        assert_array_equal(sparse.path(same).objectives, expected.objectives)
    assert sparse.get_feature_names_out().tolist() == ["v0", "v1"]
    assert sparse.transform(pd.DataFrame(X, columns=names)).shape == (90, 2)
    assert expected.select(n_features=2).transform(X).shape == (90, 2)
    low = SparseGEMINI(3, **FAST)
    low.path(X.astype(np.float32))
    assert low.coefs_[0].dtype == np.float32
    assert low.transform(X.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize(
    "options, message",
    [
        ({"alpha_multiplier": 1.0}, "'alpha_multiplier' parameter"),
        ({"alpha_multiplier": np.nan}, "'alpha_multiplier' parameter"),
        ({"min_features": 0}, "'min_features' parameter"),
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


# ------------------------------------------------------------------ interruption


def test_an_interrupted_path_keeps_the_finished_steps(tmp_path, global_random_seed):
    X, _ = overlapping(seed=global_random_seed)
    whole = SparseGEMINI(3, **FAST).path(X, alpha_init=0.005)
    sparse = SparseGEMINI(3, **FAST)
    with (
        stop_after(5, KeyboardInterrupt),
        pytest.warns(ConvergenceWarning, match="interrupted after 5 steps, at alpha"),
    ):
        path = sparse.path(X, alpha_init=0.005, checkpoint=tmp_path / "path")
    assert_array_equal(path.objectives, whole.objectives[:5])
    assert_array_equal(sparse.predict(X), path.labels[path.chosen])


@pytest.mark.parametrize(
    "params, options",
    [
        ({}, {"alpha_init": 0.005, "alpha_multiplier": 1.3, "refine": True}),
        ({"batch_size": 40}, {"alpha_init": 0.005, "alpha_multiplier": 1.3}),
        ({"model": "mlp"}, {"alpha_multiplier": 1.3, "refine": True}),
        # On a grid there are many optimal potentials, and the start decides which.
        ({"objective": "wasserstein", "max_iter": 8}, {"alpha_multiplier": 1.2}),
        ({"objective": "wasserstein", "dynamic": True}, {"alpha_multiplier": 1.2}),
    ],
    ids=str,
)
def test_a_killed_path_resumes_bit_for_bit(params, options, tmp_path):
    X, _ = overlapping()
    if "objective" in params:
        X = np.round(problem(n=24, noise=4)[0])
    sparse = SparseGEMINI(3, **FAST | {"max_iter": 10} | params)
    whole = quiet(clone(sparse).path, X, **options)
    options = {**options, "checkpoint": tmp_path / "path"}
    interrupted(lambda: quiet(clone(sparse).path, X, **options), 2)
    resumed = quiet(sparse.path, X, **options, resume=True)
    assert len(resumed) == len(whole) > 2
    for step, expected in zip(resumed.steps, whole.steps, strict=True):
        for name, value in vars(expected).items():
            if name == "weights":
                for ours, theirs in zip(step.weights, value, strict=True):
                    assert_array_equal(ours, theirs)
            else:
                assert_array_equal(getattr(step, name), value)


def test_a_checkpoint_of_another_computation_is_refused(tmp_path, global_random_seed):
    X, _ = overlapping(seed=global_random_seed)
    folder = tmp_path / "path"
    SparseGEMINI(3, **FAST).path(X, checkpoint=folder)
    with pytest.raises(ValueError, match="same data and parameters"):
        SparseGEMINI(3, **FAST).path(X + 1e-9 * X, checkpoint=folder, resume=True)
    with pytest.raises(ValueError, match="same data and parameters"):
        SparseGEMINI(2, **FAST).path(X, checkpoint=folder, resume=True)
    step = folder / "skdiffclust-000001.npz"
    step.write_bytes(step.read_bytes()[:1000])
    with pytest.raises(ValueError, match="step 1 missing or damaged"):
        SparseGEMINI(3, **FAST).path(X, checkpoint=folder, resume=True)
    with pytest.raises(FileNotFoundError):
        SparseGEMINI(3, **FAST).path(X, checkpoint=tmp_path / "no" / "path")


def test_features_that_never_leave_are_the_most_important():
    X, _ = problem()
    sparse = SparseGEMINI(3, **FAST)
    path = sparse.path(X, min_features=3)
    stays = path.supports[-1]
    importances = sparse.feature_importances_
    assert importances[stays].min() > importances[~stays].max() == path.alphas[-1]
    assert (importances[stays] == np.nextafter(path.alphas[-1], np.inf)).all()
    assert np.isfinite(importances).all()


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
def test_a_choice_of_no_step_is_refused(choice, path_of_two_steps):
    with pytest.raises(ValueError, match=f"'{next(iter(choice))}' parameter of select"):
        path_of_two_steps.select(**choice)


@pytest.fixture(scope="module")
def path_of_two_steps():
    X, _ = problem(n=30)
    return quiet(SparseGEMINI(2, **FAST).path, X, alpha_init=100.0)


def test_groups_may_have_names():
    X, _ = problem()
    numbers, names = [0, 0, 1, 1, 2, 2, 3, 3], list("aabbccdd")
    expected = SparseGEMINI(3, groups=numbers, **FAST).path(X)
    for groups in (names, np.array(names), pd.Series(names, dtype=object)):
        path = SparseGEMINI(3, groups=groups, **FAST).path(X)
        assert_array_equal(path.supports, expected.supports)
    for groups in ([None] * 8, [0.5] * 8):
        with pytest.raises(ValueError, match="array of integers or names of shape"):
            SparseGEMINI(3, groups=groups, **FAST).fit(X)


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
