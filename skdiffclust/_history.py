"""Loss curve, patience, divergence, callbacks, and fits that fail without a trace.

The trained estimators share `Training`, the fit task with its restarts; `EpochLoop`,
the epochs of one restart; and `keep_state_on_error`. The order of the decorators is
`keep_state_on_error` above `fit_context`, and all that a new estimator needs is:

>>> import numpy as np
>>> from sklearn.base import BaseEstimator, ClusterMixin
>>> from sklearn.utils import check_random_state
>>> from sklearn.utils.validation import validate_data
>>> from skdiffclust._compat import CallbackSupportMixin, fit_context
>>> from skdiffclust._history import Training, keep_state_on_error
>>> class Toy(CallbackSupportMixin, ClusterMixin, BaseEstimator):
...     _parameter_constraints = {}
...     def predict(self, X):
...         return self._assign(validate_data(self, X, reset=False))
...     def _assign(self, X):                                  # X is validated
...         return (X[:, 0] > self.center_).astype(int)
...     @keep_state_on_error
...     @fit_context(prefer_skip_nested_validation=True)
...     def fit(self, X, y=None):
...         X = validate_data(self, X)
...         rng = check_random_state(0)
...         training = Training(self, X, y, max_iter=20, n_init=2, learning_rate=0.3,
...                             tol=1e-3, n_iter_no_change=3)
...         for loop in training:                              # one per restart
...             center = rng.choice(X[:, 0])
...             for epoch in loop:                             # 0, 1, 2, ...
...                 center = center + 0.3 * (X[:, 0].mean() - center)
...                 loss = np.mean((X[:, 0] - center) ** 2)    # smaller is better
...                 loop.record(loss, state=lambda: center,    # a copy, made if best
...                             attributes=lambda: {"center_": center})
...         best = training.best                               # publish, then finish
...         self.center_, self.history_ = best.best_state, best.history
...         self.n_iter_, self.labels_ = best.n_iter, self._assign(X)
...         training.finish()
...         return self
>>> toy = Toy().fit([[0.0], [1.0], [4.0], [5.0]])
>>> toy.labels_, toy.n_iter_ == len(toy.history_["loss"])
(array([0, 0, 1, 1]), True)
"""

import functools
import json
from contextvars import ContextVar, copy_context
from typing import cast

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skdiffclust._compat import CALLBACKS_ATTRIBUTE, CONFIGURATION_ATTRIBUTES
from skdiffclust._types import Function
from skdiffclust._warnings import warn

# A loss this many times its own scale above the best one has diverged.
_BLOW_UP = 1e3
# A loss no larger than this is zero up to rounding, and has no scale.
_ROUNDING = 1e-8
# Number of epochs that progress is judged by if `n_iter_no_change` is None.
_WINDOW = 10
# Clusters below this fraction of the mean size are reported.
_LEAST_SIZE = 0.01
# Attributes that change in an EpochLoop, besides the best state.
_MOVING = (
    "history",
    "n_iter",
    "best_loss",
    "best_epoch",
    "stop_reason",
    "_scale",
    "_reference",
    "_n_stalled",
)


# Whether the fits of this thread belong to another fit, which issues the warnings.
_reported_elsewhere = ContextVar("reported_elsewhere", default=False)


def call_with(variable, function, *arguments, **keywords):
    """Call a function in a copy of the context, in which a ContextVar is True.

    In contrast to a value that is set and reset, an interruption cannot leave it set.
    """
    context = copy_context()
    context.run(variable.set, True)
    return context.run(function, *arguments, **keywords)


def report_by_the_whole(function, *arguments, **keywords):
    """Call a function, and hold back the convergence warnings of its fits.

    The filters of ``warnings`` belong to the whole process, so that two threads that
    change and restore them can leave them changed; this is per thread.
    """
    return call_with(_reported_elsewhere, function, *arguments, **keywords)


def warn_of_convergence(message):
    """Issue a ConvergenceWarning, unless the fit is part of another, which warns."""
    if not _reported_elsewhere.get():
        warn(message, ConvergenceWarning)


def warn_of_small_clusters(name, sizes, advice, *, beside=np.inf):
    """Warn of clusters below 1 % of the mean size that are not empty.

    `sizes` are (k,). Clusters of a single sample are also reported where the mean size
    is at least `beside`.
    """
    mean = sizes.sum() / len(sizes)
    threshold = max(_LEAST_SIZE * mean, 2 if mean >= beside else 0)
    small = sizes[(sizes > 0) & (sizes < threshold)]
    if len(small):
        warn_of_convergence(
            f"{len(small)} of {len(sizes)} clusters of {name} are very small (the "
            f"smallest is {small.min():g}, the mean size is {mean:.3g}): {advice}",
        )


def keep_state_on_error(method: Function) -> Function:
    """Make a fit that fails or is interrupted leave the estimator as it was.

    If an exception leaves `method`, KeyboardInterrupt included, the attributes are what
    they were before the call; ``validate_data`` writes ``n_features_in_`` early, which
    would otherwise make a first fit that failed look fitted. What scikit-learn
    configures, such as callbacks, stays as it is at the end of the call.

    A shallow copy of the attributes is remembered, which suffices because fitted
    arrays, and the lists of ``history_``, are replaced and never written in place. A
    ``path`` that keeps its finished steps catches the interruption itself.

    Parameters
    ----------
    method : function
        A ``fit``, ``partial_fit`` or ``path`` already decorated with ``fit_context``.
        That order matters: callbacks are torn down inside ``fit_context``, and a
        teardown may fail as well.

    Returns
    -------
    function
        The method, with the same name and signature.
    """

    @functools.wraps(method)
    def guarded(estimator, *args, **kwargs):
        before = vars(estimator).copy()
        try:
            return method(estimator, *args, **kwargs)
        except BaseException:
            for name in CONFIGURATION_ATTRIBUTES:
                before.pop(name, None)
                if name in vars(estimator):
                    before[name] = vars(estimator)[name]
            estimator.__dict__ = before
            raise

    return cast(Function, guarded)


def drop_stale(estimator, names):
    """Delete fitted attributes of another configuration, which a new fit has not made.

    Parameters
    ----------
    estimator : estimator instance
    names : iterable of str
        Attributes that an earlier fit may have left.
    """
    for name in names:
        vars(estimator).pop(name, None)


class FitTask:
    """A node in scikit-learn's tree of fit tasks; without callbacks it does nothing.

    `root` begins the fit of an estimator, ``subtask(name)`` a step of it. ``end()`` of
    a step says whether a callback asks to stop; ``end(dict)`` of the root comes after
    the fitted attributes are assigned.
    """

    def __init__(self, context=None, **given):
        self._context = context
        self._given = given  # estimator, X and y
        if context is not None:
            context.call_on_fit_task_begin(**given)

    @classmethod
    def root(cls, estimator, X, y, max_subtasks):
        """Begin the fit of an estimator with `CallbackSupportMixin` to validated X."""
        if not getattr(estimator, CALLBACKS_ATTRIBUTE, None):
            return cls()
        if y is None:
            # ScoringMonitor scores nothing without y, not even by a scorer that ignores
            # it; -1 means unknown in scikit-learn.
            y = np.full(X.shape[0], -1, dtype=np.int64)
        context = estimator._init_callback_context(max_subtasks=max_subtasks)
        return cls(context, estimator=estimator, X=X, y=y)

    def subtask(self, name, max_subtasks=0):
        """Begin the next child task.

        `max_subtasks` is 0 for a leaf, and None where the number is not known.
        """
        if self._context is None:
            return self
        context = self._context.subcontext(task_name=name, max_subtasks=max_subtasks)
        return FitTask(context, **self._given)

    def end(self, attributes=None):
        """End the task; return whether a callback asks to stop its siblings."""
        if self._context is None:
            return False
        # The samples that callbacks get are validated and have no names of features:
        # predicting them with an estimator that has seen names would warn.
        nameless = attributes and (lambda: {**attributes(), "feature_names_in_": None})
        return self._context.call_on_fit_task_end(
            **self._given, reconstruction_attributes=nameless
        )


class EpochLoop:
    """Epochs of one run of training: ``for epoch in loop: ...; loop.record(...)``.

    The loop ends by itself, never by ``break``: after `max_iter` epochs, without
    progress, when the loss diverges, when a callback asks for it, or after `stop`. Its
    attributes are read only; its methods change them.
    Used alone it is the loop of a ``partial_fit``, which callbacks do not watch;
    `Training` creates loops that do.

    Parameters
    ----------
    name : str
        Class of the estimator, for messages.
    max_iter : int or None
        Largest number of epochs; None if only the other rules end the loop.
    learning_rate : float
        Named in the warning on divergence, unless `record` is given a current one.
    tol : float, default=0.0
        Smallest relative improvement of the loss that counts as progress.
    n_iter_no_change : int or None, default=None
        Stop after this many epochs in a row which together have not improved the loss
        by `tol`, relative to its absolute value; None never stops for that.
    history : dict of lists or None, default=None
        Curve to continue, for ``partial_fit``; copied.
    task : FitTask or None, default=None
        Fit task whose children are the epochs, given by `Training`.

    Attributes
    ----------
    history : dict of lists
        ``"loss"`` and whatever else was recorded, one entry per epoch.
    n_iter : int
        Epochs begun.
    best_loss : float
        Lowest loss with finite weights; inf before the first.
    best_epoch : int or None
        Its epoch, counted from 0 in this loop.
    best_state : object or None
        Result of `state` there: what the estimator should keep.
    n_iter_no_change : int or None
        As given; None after `disable_patience`.
    tol : float
        As given.
    stop_reason : str or None
        None while it runs, then "max_iter", "patience", "diverged", "callback", or
        what `stop` was given.
    """

    def __init__(
        self,
        name,
        *,
        max_iter,
        learning_rate,
        tol=0.0,
        n_iter_no_change=None,
        history=None,
        task=None,
    ):
        self._name = name
        self._max_iter = max_iter
        self._learning_rate = learning_rate
        self.tol = tol
        # A small NumPy integer would overflow.
        self.n_iter_no_change = n_iter_no_change and int(n_iter_no_change)
        self._task = FitTask() if task is None else task
        self._epoch_task = None
        self._scale = 0.0  # |first loss| that exceeds rounding
        self._reference = np.inf  # the loss that progress is measured from
        self._n_stalled = 0
        self.history = {name: list(curve) for name, curve in (history or {}).items()}
        self.n_iter = 0
        self.best_loss = np.inf
        self.best_epoch = None
        self.best_state = None
        self.stop_reason = None

    def __iter__(self):
        """Yield the epoch, from 0, until there is a reason to stop."""
        while self.stop_reason is None:
            self.n_iter += 1
            self._epoch_task = self._task.subtask("epoch")
            yield self.n_iter - 1

    def compare_with(self, scale):
        """Judge rises and falls of the loss relative to at least this scale.

        It is for a loss that starts small, as in a step of a path.
        """
        self._scale = max(self._scale, scale)

    def disable_patience(self):
        """Do not end the loop for lack of progress from now on."""
        self.n_iter_no_change = None

    def begin_stage(self):
        """Compare later losses only with one another, as those of a new training.

        The best state is kept until the next epoch replaces it.
        """
        self.best_loss = np.inf

    def take_best_state(self):
        """Return the best state, and stop holding it."""
        state = self.best_state
        self.best_state = None
        return state

    def stop(self, reason):
        """End the loop after this epoch, for a reason of the caller.

        Parameters
        ----------
        reason : str
            Becomes `stop_reason`, unless there is one already.
        """
        self.stop_reason = self.stop_reason or reason

    def record(self, loss, *, state, attributes=None, **columns):
        """End the epoch: append to the curve, keep the best state, decide on stopping.

        Parameters
        ----------
        loss : float
            Loss of this epoch; smaller is better, so an objective enters negated.
        state : callable
            Returns a copy of the weights, as an array or any nest of lists, tuples
            and dicts of arrays. Called only when this epoch is the best so far. NumPy
            arrays that are not finite count as divergence.
        attributes : callable or None, default=None
            Returns the dict of fitted attributes that ``predict`` and ``score`` need.
            Called only for callbacks that ask for the estimator as of this epoch.
        **columns : float
            More columns of `history`, the same ones at every epoch; `learning_rate`,
            if it changes, is also named in the warning on divergence.

        Raises
        ------
        ValueError
            If the loss diverges before there are any finite weights to fall back on.

        Warns
        -----
        ConvergenceWarning
            If the loss diverges: it is not finite, the weights are not, or it is a
            thousand times its own scale above the best one.
        """
        loss = float(loss)
        for name, value in {"loss": loss, **columns}.items():
            self.history.setdefault(name, []).append(value)
        if self._has_diverged(loss) or not self._keep_if_best(loss, state):
            self._report_divergence(loss, columns)
            self.stop("diverged")
            attributes = None  # weights that are not finite cannot be scored
        elif self._has_stalled(loss):
            self.stop("patience")
        if self._epoch_task.end(attributes):
            self.stop("callback")
        if self.n_iter == self._max_iter:
            self.stop("max_iter")

    @property
    def last_improvement(self):
        """Relative fall of the least loss over the last epochs, NaN after only one.

        It is taken over `n_iter_no_change` epochs, or ten where that is None, and
        relative to the loss before them, but at least to a hundredth of the first loss:
        a loss that falls from there to zero has converged.
        """
        losses = self.history.get("loss", [])[-self.n_iter :]
        lowest = np.fmin.accumulate(losses)
        if len(lowest) < 2:
            return np.nan
        window = min(self.n_iter_no_change or _WINDOW, len(lowest) - 1)
        before = lowest[-1 - window]
        fall = before - lowest[-1]
        if abs(fall) <= _ROUNDING and abs(before) <= _ROUNDING:
            return 0.0
        value = max(abs(before), self._scale / 100)
        return float(fall / value) if value else 1.0

    @property
    def is_unfinished(self):
        """Whether `max_iter` ended the loop while the loss still improved by `tol`."""
        still_falls = not self.last_improvement <= self.tol
        return self.stop_reason == "max_iter" and still_falls

    def snapshot(self):
        """Return what `restore` needs, besides `best_state`, as an array of uint8."""
        moving = {name: getattr(self, name) for name in _MOVING}
        text = json.dumps(moving, default=np.generic.item)
        return np.frombuffer(text.encode(), dtype=np.uint8)

    def restore(self, snapshot, best_state):
        """Continue where another loop of the same parameters was.

        Parameters
        ----------
        snapshot : ndarray of uint8
            What `snapshot` of the other returned.
        best_state : object
            Its `best_state`.
        """
        vars(self).update(json.loads(snapshot.tobytes()))
        self.best_state = best_state

    def _has_diverged(self, loss):
        """Return whether the loss is not finite or far above its best value."""
        if not np.isfinite(loss):
            return True
        if self._scale <= _ROUNDING:
            self._scale = abs(loss)
            return False
        scale = max(self._scale, abs(self.best_loss))
        return loss - self.best_loss > _BLOW_UP * scale

    def _keep_if_best(self, loss, state):
        """Keep the weights of the lowest loss; return False if they are not finite."""
        if loss < self.best_loss:
            weights = state()
            if not _is_finite(weights):
                return False
            self.best_loss = loss
            self.best_state = weights
            self.best_epoch = self.n_iter - 1
        return True

    def _has_stalled(self, loss):
        """Count the epochs since the loss last improved by `tol`."""
        reference = self._reference
        if reference == np.inf or loss < reference - self.tol * abs(reference):
            self._reference = loss
            self._n_stalled = 0
        else:
            self._n_stalled += 1
        return self._n_stalled == self.n_iter_no_change

    def _report_divergence(self, loss, columns):
        """Warn that the best weights are kept, or raise if there are none."""
        learning_rate = columns.get("learning_rate", self._learning_rate)
        happened = (
            f"The training of {self._name} diverged in epoch {self.n_iter}: loss "
            f"{loss:.4g} with learning_rate={learning_rate:.4g}"
        )
        if self.best_epoch is None:
            raise ValueError(
                f"{happened}, before any finite weights were reached. Did you scale X? "
                f"Put a StandardScaler before {self._name}, or lower learning_rate."
            )
        warn_of_convergence(
            f"{happened}. The weights of epoch {self.best_epoch + 1} (loss "
            f"{self.best_loss:.4g}) are kept. Lower learning_rate, or scale X.",
        )


def _is_finite(state):
    """Return whether all NumPy arrays in a nest of containers are finite."""
    if isinstance(state, dict):
        return all(map(_is_finite, state.values()))
    if isinstance(state, list | tuple):
        return all(map(_is_finite, state))
    if isinstance(state, np.ndarray | np.generic | float):
        return bool(np.isfinite(state).all())
    return True


class Training:
    """The fit task of an estimator: its restarts, their epochs, callbacks on both.

    ``for loop in training`` yields one `EpochLoop` per restart, each to be run to its
    end; after the fitted attributes are assigned, `finish` ends the task. With one
    restart the epochs are children of the fit itself, with more they are children of
    tasks named "restart". Without callbacks all of that costs nothing.

    Parameters
    ----------
    estimator : estimator instance
        One with `CallbackSupportMixin`, inside its decorated ``fit``.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Validated data, handed to callbacks.
    y : array-like of shape (n_samples,) or None, default=None
        Target, handed to callbacks; they get an int64 array of -1 instead of None,
        because scikit-learn's ScoringMonitor scores nothing when y is None.
    max_iter : int or None
        Largest number of epochs of a restart, None if unknown.
    learning_rate : float
        Named in the warning on divergence.
    n_init : int or None, default=1
        Number of restarts; None continues until `stop`, as a path does.
    tol : float, default=0.0
        See `EpochLoop`.
    n_iter_no_change : int or None, default=None
        See `EpochLoop`.

    Attributes
    ----------
    loops : list of EpochLoop
        The restarts so far.
    """

    def __init__(
        self,
        estimator,
        X,
        y=None,
        *,
        max_iter,
        learning_rate,
        n_init=1,
        tol=0.0,
        n_iter_no_change=None,
    ):
        self._name = type(estimator).__name__
        self._new_loop = functools.partial(
            EpochLoop,
            self._name,
            max_iter=max_iter,
            learning_rate=learning_rate,
            tol=tol,
            n_iter_no_change=n_iter_no_change,
        )
        self._max_iter = max_iter
        self._has_restarts = n_init != 1
        self._n_init = np.inf if n_init is None else n_init
        self.loops = []
        max_subtasks = max_iter if n_init == 1 else n_init
        self._task = FitTask.root(estimator, X, y, max_subtasks)

    def __iter__(self):
        """Yield the loop of each restart, until `n_init`, `stop`, or a callback."""
        while len(self.loops) < self._n_init:
            task = self._task
            if self._has_restarts:
                task = task.subtask("restart", self._max_iter)
            self.loops.append(self._new_loop(task=task))
            yield self.loops[-1]
            if self._has_restarts and task.end():
                self.stop()

    @property
    def best(self):
        """The loop of the lowest loss; the first one on a tie."""
        return min(self.loops, key=lambda loop: loop.best_loss)

    def stop(self):
        """End after this restart."""
        self._n_init = 0

    def finish(self, loops=None):
        """End the fit task; call it once the fitted attributes are assigned.

        Parameters
        ----------
        loops : list of EpochLoop or None, default=None
            Those whose weights are kept; None: the best one.

        Warns
        -----
        ConvergenceWarning
            If `max_iter` ended any of them while the loss still fell.
        """
        self._task.end(attributes=dict)
        warn_if_unfinished(
            self._name, [self.best] if loops is None else loops, self._max_iter
        )


def warn_if_unfinished(name, loops, max_iter):
    """Warn, once, if `max_iter` ended loops while their loss still fell.

    Parameters
    ----------
    name : str
        Of the estimator.
    loops : list of EpochLoop
        The loops to judge; all but one make it a summary.
    max_iter : int
        Largest number of epochs of each.
    """
    unfinished = [loop for loop in loops if loop.is_unfinished]
    if not unfinished:
        return
    where = f" in {len(unfinished)} of {len(loops)} steps" if len(loops) > 1 else ""
    worst = max(unfinished, key=lambda loop: np.nan_to_num(loop.last_improvement))
    progress = "one epoch shows no progress to judge"
    if not np.isnan(worst.last_improvement):
        n_epochs = min(worst.n_iter_no_change or _WINDOW, worst.n_iter - 1)
        progress = (
            f"over the last {n_epochs} of them the loss still fell by "
            f"{worst.last_improvement:.2g}, relative to its value, where "
            f"{worst.tol:.2g} counts as progress"
        )
    warn_of_convergence(
        f"{name} did not converge{where}: it reached max_iter={max_iter} epochs, and "
        f"{progress}. Raise max_iter or learning_rate, or put a StandardScaler before "
        f"{name} where features differ in scale.",
    )
