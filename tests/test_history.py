"""Loss curve, patience, divergence, callbacks, and fits that change all or nothing.

`Toy` is an iterative clusterer as the package writes them; everything that scikit-learn
does to it, it does to ClAM, PRCut, GEMINI and SpanningForestEmbedding.
"""

import sys
import warnings
from contextvars import ContextVar
from numbers import Integral

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.callback import ScoringMonitor
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from skdiffclust._batches import mini_batches
from skdiffclust._compat import CallbackSupportMixin, Interval, fit_context
from skdiffclust._history import (
    EpochLoop,
    Training,
    call_with,
    keep_state_on_error,
    warn_of_small_clusters,
)


def squared_distances(X, centers):
    """Return (n, k) squared distances."""
    return ((X[:, None] - centers) ** 2).sum(axis=2)


class Toy(CallbackSupportMixin, ClusterMixin, BaseEstimator):
    """Mini-batch gradient k-means. `on_epoch(epoch)` is where a test interferes.

    No loss falls by more than itself, so that by default only epochs are counted.
    """

    _parameter_constraints = {"max_iter": [Interval(Integral, 1, None, closed="left")]}

    def __init__(
        self,
        n_clusters=2,
        *,
        max_iter=4,
        learning_rate=0.1,
        tol=1.0,
        n_iter_no_change=None,
        n_init=1,
        on_epoch=None,
        random_state=0,
    ):
        self.n_clusters = n_clusters
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.n_init = n_init
        self.on_epoch = on_epoch
        self.random_state = random_state

    @keep_state_on_error
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        X = validate_data(self, X)
        random_state = check_random_state(self.random_state)
        training = Training(
            self,
            X,
            y,
            max_iter=self.max_iter,
            learning_rate=self.learning_rate,
            n_init=self.n_init,
            tol=self.tol,
            n_iter_no_change=self.n_iter_no_change,
        )
        for loop in training:
            self._train(X, self._start(X, random_state), loop, random_state)
        best = training.best
        self.cluster_centers_ = best.best_state
        self.history_, self.n_iter_ = best.history, best.n_iter
        self.labels_ = self._assign(X)
        self.stop_reasons_ = [loop.stop_reason for loop in training.loops]
        training.finish()
        return self

    @keep_state_on_error
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None):
        first = not hasattr(self, "cluster_centers_")
        X = validate_data(self, X, reset=first)
        random_state = check_random_state(self.random_state)
        loop = EpochLoop(
            type(self).__name__,
            max_iter=1,
            learning_rate=self.learning_rate,
            history=getattr(self, "history_", None),
        )
        start = self._start(X, random_state) if first else self.cluster_centers_
        self._train(X, start, loop, random_state)
        self.cluster_centers_, self.history_ = loop.best_state, loop.history
        return self

    def _start(self, X, random_state):
        return X[random_state.permutation(len(X))[: self.n_clusters]]

    def _train(self, X, centers, loop, random_state):
        centers = centers.copy()
        for epoch in loop:
            if self.on_epoch is not None:
                self.on_epoch(epoch)
            for rows in mini_batches(len(X), 16, random_state):
                nearest = squared_distances(X[rows], centers).argmin(axis=1)
                for k in np.unique(nearest):
                    step = (X[rows][nearest == k] - centers[k]).mean(axis=0)
                    centers[k] += self.learning_rate * step
            loop.record(
                squared_distances(X, centers).min(axis=1).mean(),
                state=centers.copy,
                attributes=lambda: {"cluster_centers_": centers.copy()},
            )

    def predict(self, X):
        check_is_fitted(self)
        return self._assign(validate_data(self, X, reset=False))

    def _assign(self, X):
        return squared_distances(X, self.cluster_centers_).argmin(axis=1)

    def score(self, X, y=None):
        distances = squared_distances(X, self.cluster_centers_)
        return -float(distances.min(axis=1).mean())


class Recorder:
    """A callback that writes down its tasks, and may ask to stop at one of them."""

    teardown_error = None

    def __init__(self, stop_at=None):
        self.stop_at = stop_at
        self.begun, self.ended = [], []
        self.max_subtasks = {}
        self.teardowns = 0

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        self.begun.append((context.task_name, context.task_id))
        self.max_subtasks[context.task_name] = context.max_subtasks

    def on_fit_task_end(self, estimator, context, *, y=None):
        self.ended.append((context.task_name, context.task_id))
        self.y = y
        return self.ended[-1] == self.stop_at

    def teardown(self, estimator, context):
        self.teardowns += 1
        if self.teardown_error is not None:
            raise self.teardown_error


@pytest.fixture(scope="module")
def X(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    return np.concatenate([rng.normal(size=(25, 2)), rng.normal(8, 1, size=(25, 2))])


def search(toy, n_jobs=None):
    """Return GridSearchCV → Pipeline → toy over two settings and two folds."""
    pipeline = make_pipeline(StandardScaler(), toy)
    return GridSearchCV(
        pipeline, {"toy__n_clusters": [2, 3]}, cv=2, n_jobs=n_jobs, error_score="raise"
    )


def fitted_state(estimator):
    """Return all attributes, with those of `history_` copied deeply enough."""
    state = dict(vars(estimator))
    if "history_" in state:
        state["history_"] = {k: list(v) for k, v in state["history_"].items()}
    return state


def run(losses, *, states=None, **settings):
    """Drive a loop by a list of losses; the state of an epoch is its number."""
    loop = EpochLoop("Toy", **{"max_iter": None, "learning_rate": 0.5, **settings})
    for epoch in loop:
        state = epoch if states is None else states[epoch]
        loop.record(losses[epoch], state=lambda state=state: state)
    return loop


def score_without_y(estimator, X, y=None):
    """Score an estimator by its own objective."""
    return estimator.score(X)


def own_score():
    """Return a monitor of ``score``; ``scoring=None`` fails in scikit-learn 1.9.1."""
    return ScoringMonitor(scoring={"score": score_without_y})


# --- callbacks -----------------------------------------------------------------------


def test_tree_of_tasks_without_restarts(X):
    recorder = Recorder()
    toy = Toy(max_iter=3).set_callbacks(recorder).fit(X)
    epochs = [("epoch", 0), ("epoch", 1), ("epoch", 2)]
    assert recorder.begun == [("fit", 0), *epochs]
    assert recorder.ended == [*epochs, ("fit", 0)]
    assert recorder.max_subtasks == {"fit": 3, "epoch": 0}
    assert recorder.teardowns == 1
    assert toy.stop_reasons_ == ["max_iter"]


def test_callback_stops_the_epochs(X):
    recorder = Recorder(stop_at=("epoch", 2))
    toy = Toy(max_iter=50).set_callbacks(recorder).fit(X)
    assert toy.n_iter_ == len(toy.history_["loss"]) == 3
    assert toy.stop_reasons_ == ["callback"]
    np.testing.assert_array_equal(toy.labels_, Toy(max_iter=3).fit_predict(X))


def test_fitted_estimator_keeps_nothing_of_the_training(X):
    toy = Toy(n_init=2).set_callbacks(Recorder())
    allowed = {*vars(toy), "n_features_in_", "cluster_centers_", "history_", "n_iter_"}
    toy.fit(X)
    assert set(vars(toy)) == allowed | {"labels_", "stop_reasons_"}


def test_scoring_monitor_scores_every_epoch_without_y(X):
    monitor = own_score()
    toy = Toy(max_iter=3, n_init=2).set_callbacks(monitor).fit(X)
    rows = monitor.get_logs().data
    assert sorted(row["task_id_path"] for row in rows) == sorted(
        [(0,), *[(0, restart, epoch) for restart in range(2) for epoch in range(3)]]
    )
    assert all(np.isfinite(row["score"]) for row in rows)
    # Each epoch is scored by its loss at that time, and the fit as it ended.
    scores = {row["task_id_path"]: row["score"] for row in rows}
    assert scores[0,] == pytest.approx(toy.score(X))
    curves = [[-scores[0, restart, epoch] for epoch in range(3)] for restart in (0, 1)]
    assert any(np.allclose(curve, toy.history_["loss"]) for curve in curves)


def test_callbacks_get_y_or_unknown(X):
    recorder, y = Recorder(), np.arange(len(X))
    toy = Toy(max_iter=2).set_callbacks(recorder)
    toy.fit(X)
    assert recorder.y.dtype == np.int64
    np.testing.assert_array_equal(recorder.y, np.full(len(X), -1))
    toy.fit(X, y)
    assert recorder.y is y


# --- keep_state_on_error -------------------------------------------------------------


def interrupt(error, at):
    """Return an `on_epoch` that raises `error` at epoch `at`."""

    def on_epoch(epoch):
        if epoch == at:
            raise error

    return on_epoch


ERRORS = [RuntimeError("mid-way"), KeyboardInterrupt(), SystemExit(), MemoryError()]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_interrupted_fit_restores_the_old_state(X, error):
    toy = Toy().fit(X)
    before, labels = fitted_state(toy), toy.predict(X)
    toy.on_epoch = interrupt(error, at=2)
    with pytest.raises(type(error)):
        toy.fit(np.c_[X, X] + 1)  # four features: n_features_in_ has been written
    after = fitted_state(toy)
    assert after.pop("on_epoch") is not before.pop("on_epoch")
    assert after.keys() == before.keys()
    assert all(after[name] is before[name] for name in after if name != "history_")
    assert after["history_"] == before["history_"]
    np.testing.assert_array_equal(toy.predict(X), labels)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_interrupted_first_fit_leaves_nothing(X, error):
    toy = Toy(on_epoch=interrupt(error, at=1))
    before = dict(vars(toy))
    with pytest.raises(type(error)):
        toy.fit(X)
    assert vars(toy) == before
    with pytest.raises(NotFittedError):
        toy.predict(X)


def test_failed_partial_fit_restores_the_old_state(X):
    toy = Toy().partial_fit(X).partial_fit(X)
    before = fitted_state(toy)
    toy.on_epoch = interrupt(RuntimeError("mid-way"), at=0)
    with pytest.raises(RuntimeError, match="mid-way"):
        toy.partial_fit(X)
    assert fitted_state(toy) == {**before, "on_epoch": toy.on_epoch}
    toy.on_epoch = None
    centers, history = toy.cluster_centers_, toy.history_
    copies = centers.copy(), list(history["loss"])
    assert len(toy.partial_fit(X).history_["loss"]) == 3
    np.testing.assert_array_equal(centers, copies[0])  # nothing was written in place
    assert history["loss"] == copies[1]


def test_interrupted_fit_tears_callbacks_down(X):
    recorder = Recorder()
    toy = Toy(on_epoch=interrupt(KeyboardInterrupt(), at=1)).set_callbacks(recorder)
    with pytest.raises(KeyboardInterrupt):
        toy.fit(X)
    assert recorder.teardowns == 1
    assert not [name for name in vars(toy) if "callback_fit_ctx" in name]
    toy.on_epoch = None
    toy.fit(X)
    assert recorder.teardowns == 2


def test_failed_fit_inside_a_search_returns_propagated_callbacks(X):
    recorder = Recorder()
    recorder.max_propagation_depth = None
    toy = Toy(on_epoch=interrupt(RuntimeError("mid-way"), at=1))
    pipeline = make_pipeline(StandardScaler(), toy).set_callbacks(recorder)
    with pytest.raises(RuntimeError, match="mid-way"):
        pipeline.fit(X)
    assert vars(toy) == vars(Toy(on_epoch=toy.on_epoch))


# --- the loop ------------------------------------------------------------------------


def test_more_columns_and_a_continued_curve():
    old = {"loss": [5.0], "n_features": [9]}
    loop = EpochLoop("Toy", max_iter=2, learning_rate=0.1, history=old)
    for epoch in loop:
        loop.record(np.float32(4 - epoch), state=lambda: None, n_features=8 - epoch)
    assert loop.history == {"loss": [5.0, 4.0, 3.0], "n_features": [9, 8, 7]}
    assert all(type(loss) is float for loss in loop.history["loss"])
    assert old == {"loss": [5.0], "n_features": [9]}


@pytest.mark.parametrize(
    "losses, tol, n_iter",
    [
        ([3.0, 2.0, 2.0, 2.0, 0.0], 0.0, 4),  # no strict improvement for two epochs
        ([3.0, 2.0, 1.995, 1.991, 0.0], 0.01, 4),  # less than 1 % for two epochs
        ([3.0, 2.0, 1.989, 1.978, 1.978, 1.978], 0.01, 6),  # adds up to more than 1 %
        ([3.0, 2.0, 4.0, 1.0, 4.0, 4.0, 0.0], 0.0, 6),  # improvement resets the count
        ([-3.0, -4.0, -4.01, -4.02, -9.0], 0.01, 4),  # relative to |loss|
        ([0.0, 0.0, 0.0, 0.0], 0.01, 3),
    ],
)
def test_patience(losses, tol, n_iter):
    loop = run(losses, tol=tol, n_iter_no_change=2)
    assert (loop.n_iter, loop.stop_reason) == (n_iter, "patience")


def test_losses_of_another_stage_are_not_compared():
    loop = EpochLoop("Toy", max_iter=4, learning_rate=0.1)
    for epoch in loop:
        loop.record([2.0, 1.0, 4.0, 3.0][epoch], state=lambda epoch=epoch: epoch)
        if epoch == 1:
            loop.begin_stage()
            assert loop.best_state == 1
    assert (loop.best_state, loop.best_epoch, loop.best_loss) == (3, 3, 3.0)


def test_best_state_is_kept_and_copied_only_then():
    copied = []
    loop = EpochLoop("Toy", max_iter=5, learning_rate=0.1)
    for epoch in loop:
        loss = [3.0, 1.0, 2.0, 1.0, 4.0][epoch]
        loop.record(loss, state=lambda epoch=epoch: copied.append(epoch) or epoch)
    assert copied == [0, 1]  # the first one on a tie
    assert (loop.best_state, loop.best_epoch, loop.best_loss) == (1, 1, 1.0)


def test_best_restart_is_the_one_of_lowest_loss(X):
    training = Training(Toy(), X, max_iter=2, n_init=3, learning_rate=0.1)
    for loop, losses in zip(training, [[3, 2], [1, 4], [2, 1]], strict=False):
        for epoch in loop:
            loop.record(losses[epoch], state=lambda: None)
    assert training.best is training.loops[1]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e5])
def test_divergence_keeps_the_best_weights(bad):
    text = (
        r"Toy diverged in epoch 4: loss .* with learning_rate=0.5. The weights of "
        r"epoch 2 \(loss 1\) are kept. Lower learning_rate"
    )
    with pytest.warns(ConvergenceWarning, match=text) as caught:
        loop = run([2.0, 1.0, 1.5, bad, 0.0], max_iter=10)
    assert caught[0].filename == __file__  # it points at the call of `record`
    assert (loop.best_state, loop.best_loss, loop.n_iter) == (1, 1.0, 4)
    assert loop.stop_reason == "diverged"


def test_weights_that_are_not_finite_are_divergence():
    # The last step of an epoch can ruin the weights although the mean loss is fine.
    fine, ruined = {"w": [np.ones(2)]}, {"w": [np.array([1.0, np.nan])]}
    with pytest.warns(ConvergenceWarning, match="diverged in epoch 2"):
        loop = run([2.0, 1.0], states=[fine, ruined])
    assert loop.best_state is fine
    with pytest.raises(ValueError, match="diverged in epoch 1.*Did you scale X"):
        run([2.0], states=[ruined])


@pytest.mark.parametrize(
    "losses",
    [
        [1e-17, 5e-14, 3e-12],
        [1e6, 1e8, 1.0],
        [-1, 900],
        [1e6, 1.0, 5e3],
        [0.0, 4e-15, 0.4, 0.0, 3.0],  # its first batches have no loss
    ],
)
def test_noise_is_not_divergence(losses):
    assert run(losses, max_iter=len(losses)).stop_reason == "max_iter"


def test_a_loss_that_begins_small_is_compared_with_a_scale():
    for large, reason in ((500.0, "max_iter"), (1500.0, "diverged")):
        loop = EpochLoop("Toy", max_iter=2, learning_rate=0.5)
        loop.compare_with(1.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            for epoch in loop:
                loop.record([0.01, large][epoch], state=lambda: None)
        assert loop.stop_reason == reason


@pytest.mark.filterwarnings("ignore:overflow|invalid value:RuntimeWarning")
def test_diverged_fit_is_usable_and_not_scored(X):
    monitor = own_score()
    toy = Toy(learning_rate=50.0, max_iter=50).set_callbacks(monitor)
    with pytest.warns(ConvergenceWarning, match="Toy diverged in epoch"):
        toy.fit(X)
    assert np.isfinite(toy.cluster_centers_).all()
    assert toy.stop_reasons_ == ["diverged"]
    assert len(monitor.get_logs().data) == toy.n_iter_  # n − 1 epochs and the fit


# --- max_iter without convergence ----------------------------------------------------


@pytest.mark.parametrize(
    "tol, max_iter, is_unfinished", [(0.2, 3, True), (0.7, 3, False), (0.2, 4, False)]
)
def test_unfinished_is_stopped_by_max_iter_while_the_loss_falls(
    tol, max_iter, is_unfinished
):
    loop = EpochLoop("Toy", max_iter=max_iter, learning_rate=0.5, tol=tol)
    for epoch in loop:
        loop.record([8.0, 4.0, 3.0][epoch], state=lambda: None)
        if epoch == 2:
            loop.stop("enough")
    assert loop.is_unfinished == is_unfinished


def test_what_has_not_converged_says_so(X):
    text = (
        r"Toy did not converge: it reached max_iter=3 epochs, and over the last 2 of "
        r"them the loss still fell by 0\.\d+, relative to its value, where 1e-05 "
        r"counts as progress\. Raise max_iter or learning_rate, or put a StandardScaler"
    )
    with pytest.warns(ConvergenceWarning, match=text) as caught:
        Toy(max_iter=3, tol=1e-5, learning_rate=0.01).fit(X)
    assert [each.filename for each in caught] == [__file__]
    with pytest.warns(ConvergenceWarning, match="and one epoch shows no progress"):
        Toy(max_iter=1).fit(X)


def test_only_the_restart_that_is_kept_must_have_converged(X):
    training = Training(Toy(), X, max_iter=2, n_init=2, learning_rate=0.1, tol=0.1)
    for loop, losses in zip(training, [[3, 2], [1, 1]], strict=False):
        for epoch in loop:
            loop.record(losses[epoch], state=lambda: None)
    assert [loop.is_unfinished for loop in training.loops] == [True, False]
    training.finish()
    text = "Toy did not converge in 1 of 2 steps: it reached max_iter=2 .* by 0.33,"
    with pytest.warns(ConvergenceWarning, match=text) as caught:
        training.finish(training.loops)
    assert len(caught) == 1


def test_clusters_below_one_percent_are_warned_of():
    text = "1 of 3 clusters of ClAM are very small .the smallest is 1, the mean.* 133"
    with pytest.warns(ConvergenceWarning, match=text):
        warn_of_small_clusters("ClAM", np.array([300, 99, 1]), "use fewer.")
    # A warning would be an error here.
    warn_of_small_clusters("ClAM", np.array([300, 98, 2]), "use fewer.")
    warn_of_small_clusters("ClAM", np.array([400, 0]), "empty ones are reported else.")


def test_single_samples_are_warned_of_beside_larger_clusters():
    with pytest.warns(ConvergenceWarning, match="1 of 3 clusters"):
        warn_of_small_clusters("ClAM", np.array([60, 29, 1]), "use fewer.", beside=30)
    # A warning would be an error here.
    warn_of_small_clusters("ClAM", np.array([60, 28, 2]), "use fewer.", beside=30)
    warn_of_small_clusters("ClAM", np.array([60, 28, 1]), "use fewer.", beside=30)
    warn_of_small_clusters("ClAM", np.array([60, 29, 1]), "use fewer.")


def test_an_interruption_at_any_line_leaves_no_variable_set():
    variable = ContextVar("variable", default=False)
    seen = []
    left = 0

    def interrupt(frame, event, _):
        nonlocal left
        if event == "line":
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return interrupt

    n_interrupted = 0
    is_done = False
    while not is_done:
        left = n_interrupted + 1
        try:
            sys.settrace(interrupt)
            call_with(variable, lambda: seen.append(variable.get()))
            is_done = left > 0
        except KeyboardInterrupt:
            n_interrupted += 1
        finally:
            sys.settrace(None)
        assert not variable.get()
    assert n_interrupted > 3 and all(seen) and seen
