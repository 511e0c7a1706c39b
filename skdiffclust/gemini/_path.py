"""The regularisation path: its steps, and the choice among them."""

from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import clone

from skdiffclust._compat import (
    Interval,
    check_pandas_support,
    validate_parameter_constraints,
)
from skdiffclust.gemini._calibration import temperature_of
from skdiffclust.gemini._models import MODELS

if TYPE_CHECKING:
    import pandas

    from skdiffclust.gemini._display import SparsePathDisplay
    from skdiffclust.gemini._sparse_gemini import SparseGEMINI


@dataclass(frozen=True)
class Step:
    """A step of a path; `weights` is what `compact` returns.

    `kkt` is its certificate, see `_solver`; NaN without one.
    """

    alpha: float
    objective: float
    penalty: float
    kkt: float
    support: np.ndarray
    labels: np.ndarray
    n_iter: int
    weights: list[np.ndarray]
    logits: np.ndarray  # (m, k), of `some_rows`


def _column(name, dtype) -> cached_property[np.ndarray]:
    """Return a property of a path: an array of an attribute of all of its steps."""
    return cached_property(
        lambda path: np.array([getattr(step, name) for step in path.steps], dtype=dtype)
    )


@dataclass(frozen=True, eq=False, repr=False)
class SparsePath:
    """Steps of :meth:`skdiffclust.SparseGEMINI.path`, in order of increasing penalty.

    The first step has no penalty. All arrays have one entry, or one row, per step.

    Attributes
    ----------
    alphas : ndarray of shape (n_steps,), float64
        Penalties.
    objectives : ndarray of shape (n_steps,), float64
        Objective on the training samples, without penalty. With ``dynamic=True``, it is
        computed from the selected features, and the values of different steps are not
        comparable.
    penalties : ndarray of shape (n_steps,), float64
        Sums of the norms of the groups of weights.
    kkts : ndarray of shape (n_steps,), float64
        Violation of the optimality conditions at each step, see `kkt_` of
        :class:`skdiffclust.SparseGEMINI`; NaN where it is not available.
    n_features : ndarray of shape (n_steps,), int64
        Numbers of selected features.
    supports : ndarray of shape (n_steps, n_features_in), bool
        Masks of the selected features.
    labels : ndarray of shape (n_steps, n_samples), int64
        Clusters of the training samples.
    n_iters : ndarray of shape (n_steps,), int64
        Numbers of epochs.
    chosen : int
        Index of the selected step: among the steps whose objective reaches the
        threshold, and before it first falls below it after its largest value, the one
        with the fewest features and, of these, the largest objective. With
        ``dynamic=True``, the last step with any features.
    keep_threshold : float or None
        Threshold on the objective, see :meth:`skdiffclust.SparseGEMINI.path`; None with
        ``dynamic=True``.
    kind : str
        Kind of the model: "linear", or "skip" for a perceptron with a skip connection.
    steps : list of Step
        Steps with the weights of their selected features.
    template : SparseGEMINI
        Unfitted estimator with the parameters of all steps.
    shared : dict
        Fitted attributes that do not depend on the step.
    groups : Groups
        Groups of features.
    row_weights : ndarray
        Weights of the samples that the temperatures of the steps are found on.

    See Also
    --------
    skdiffclust.SparseGEMINI : Estimator whose method `path` returns this object.
    """

    steps: list[Step]
    kind: str
    keep_threshold: float | None
    template: object
    shared: dict[str, object]
    groups: object
    row_weights: np.ndarray

    alphas = _column("alpha", np.float64)
    objectives = _column("objective", np.float64)
    penalties = _column("penalty", np.float64)
    kkts = _column("kkt", np.float64)
    supports = _column("support", bool)
    labels = _column("labels", np.int64)
    n_iters = _column("n_iter", np.int64)

    @cached_property
    def n_features(self):
        """Numbers of selected features (n_steps,)."""
        return self.supports.sum(axis=1)

    @cached_property
    def chosen(self):
        """Index of the selected step."""
        if self.keep_threshold is None:
            return int(np.flatnonzero(self.n_features > 0).max(initial=0))
        return choose_step(self.objectives, self.n_features, self.keep_threshold)

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self.alphas)

    def __repr__(self) -> str:
        """Return the numbers of steps and features, and the chosen step."""
        first, last = self.n_features[[0, -1]]
        return (
            f"{type(self).__name__}({len(self)} steps, {first} to {last} features, "
            f"alpha up to {self.alphas[-1]:.3g}; chosen: step {self.chosen} with "
            f"{self.n_features[self.chosen]} features)"
        )

    def select(
        self,
        *,
        n_features: int | np.integer | None = None,
        alpha: float | None = None,
        keep_threshold: float | None = None,
    ) -> "SparseGEMINI":
        """Return the fitted estimator of a step.

        Parameters
        ----------
        n_features : int, default=None
            Select the step with this number of features, or with the next smaller
            number on the path. If there are several, the one with the largest objective
            is selected (with ``dynamic=True``, the first one).
        alpha : float, default=None
            Select the step with the largest penalty that does not exceed this value.
        keep_threshold : float, default=None
            Select the step with the fewest features before the objective falls from its
            largest value to below this fraction of it. Not available with
            ``dynamic=True``.

        Returns
        -------
        estimator : SparseGEMINI
            Fitted estimator. If no argument is passed, it is that of the step `chosen`.

        Raises
        ------
        ValueError
            If more than one argument is passed, there is no such step, or the argument
            is not available.
        """
        given = {
            "n_features": n_features,
            "alpha": alpha,
            "keep_threshold": keep_threshold,
        }
        validate_parameter_constraints(_SELECT, given, caller_name="select")
        given = {name: value for name, value in given.items() if value is not None}
        if len(given) > 1:
            raise ValueError(
                "The parameters of select must be passed one at a time. Got "
                f"{sorted(given)} instead. Pass only one of them."
            )
        if n_features is not None:
            step = self._step_of_size(n_features)
        elif alpha is not None:
            step = np.searchsorted(self.alphas, alpha, side="right") - 1
        elif keep_threshold is not None:
            if self.keep_threshold is None:
                raise ValueError(
                    "The 'keep_threshold' parameter must be None with dynamic=True, "
                    "where values of the objective belong to different sets of "
                    f"features and do not compare. Got {keep_threshold} instead. "
                    "Choose by n_features or alpha."
                )
            step = choose_step(self.objectives, self.n_features, keep_threshold)
        else:
            step = self.chosen
        estimator = clone(self.template)
        attributes = attributes_of_step(
            self.steps[step], self.kind, self.groups, self.row_weights
        )
        attributes["feature_importances_"] = self.feature_importances()
        vars(estimator).update(self.shared | attributes)
        return estimator

    def weights(self, step: int) -> list[np.ndarray]:
        """Return the weights of the model at a step.

        Parameters
        ----------
        step : int
            Index of the step.

        Returns
        -------
        weights : list of ndarray
            For the linear model, the weights (n_features_in, n_clusters) and the biases
            (n_clusters,). For the perceptron, the skip weights, followed by the weights
            of all layers and the biases of all layers.
        """
        support = self.supports[step]
        return expand(self.kind, self.steps[step].weights, support, len(support))

    def to_dict(self) -> dict[str, np.ndarray]:
        """Return the path as the columns of a table with one row per step.

        Returns
        -------
        columns : dict of ndarray
            Columns by name.
        """
        names = "alphas objectives penalties kkts n_features n_iters".split()
        columns = {name: getattr(self, name) for name in names}
        return columns | {"chosen": np.arange(len(self)) == self.chosen}

    def to_frame(self) -> "pandas.DataFrame":
        """Return the path as a table with one row per step.

        Returns
        -------
        pandas.DataFrame
            Table of the columns of `to_dict`.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        pd = check_pandas_support("SparsePath.to_frame")
        return pd.DataFrame(self.to_dict())

    def plot(self, ax=None) -> "SparsePathDisplay":
        """Plot objective, number of features and their weights over the penalty.

        Parameters
        ----------
        ax : array-like of 3 matplotlib Axes or None, default=None
            Axes to plot on. With None, a new figure is created.

        Returns
        -------
        display : SparsePathDisplay
            Object that stores the plotted data and artists.
        """
        from skdiffclust.gemini._display import SparsePathDisplay

        return SparsePathDisplay.from_path(self, ax=ax)

    def feature_importances(self) -> np.ndarray:
        """Return the penalty at which each feature is dropped for good.

        Returns
        -------
        alphas : ndarray of shape (n_features_in,), float64
            Penalty of the first step after the last one at which the feature is
            selected. For features that are never dropped, the next floating-point
            number above the largest penalty.
        """
        last_in = len(self) - 1 - np.argmax(self.supports[::-1], axis=0)
        last_in[~self.supports.any(axis=0)] = -1
        with np.errstate(under="ignore"):  # the next number above zero is subnormal
            above = np.nextafter(self.alphas[-1], np.inf)
        return np.append(self.alphas, above)[last_in + 1]

    def _step_of_size(self, n_features):
        """Return the step with this number of features or the next smaller one."""
        sizes = self.n_features[(self.n_features <= n_features) & (self.n_features > 0)]
        if not sizes.size:
            raise ValueError(
                f"The 'n_features' parameter of select must be at least "
                f"{self.n_features[self.n_features > 0].min()}, the smallest number on "
                f"the path. Got {n_features} instead. Use more features."
            )
        steps = np.flatnonzero(self.n_features == sizes.max())
        if self.keep_threshold is None:
            return int(steps[0])
        return int(steps[np.argmax(self.objectives[steps])])


_SELECT = {
    "n_features": [Interval(Integral, None, None, closed="neither"), None],
    "alpha": [Interval(Real, 0, None, closed="left"), None],
    "keep_threshold": [Interval(Real, 0, 1, closed="right"), None],
}


def choose_step(objectives, n_features, keep_threshold):
    """Return the best step of fewest features with a share of the largest objective.

    Later steps than the first one whose objective falls below this share, after the
    largest objective, are not considered: near the end of a path, a perceptron may jump
    to another, less stable solution.
    """
    is_large = objectives >= keep_threshold * objectives.max()
    best = np.argmax(objectives)
    n_large = np.argmin(np.append(is_large[best:], False))
    kept = is_large & (n_features > 0)
    kept[best + n_large :] = False
    if not kept.any():
        return int(np.argmax(objectives))
    steps = np.flatnonzero(kept & (n_features == n_features[kept].min()))
    return int(steps[np.argmax(objectives[steps])])


def attributes_of_model(model, groups):
    """Return the fitted attributes of a model with groups of features."""
    perceptron = getattr(model, "perceptron", model)
    norms = groups.by_feature(groups.norms(model.inputs[0]))
    return {
        "skip_weights_": getattr(model, "skip", None),
        "coefs_": list(perceptron.weights),
        "intercepts_": list(perceptron.biases),
        "feature_norms_": norms.astype(model.inputs[0].dtype),
    }


def attributes_of_step(step, kind, groups, row_weights):
    """Return the fitted attributes of a Step of a path of models of a kind.

    `row_weights` (m,) are the weights of the samples whose logits the Step has.
    """
    return {
        **attributes_of_model(model_of_step(step, kind), groups),
        "alpha_": step.alpha,
        "n_iter_": step.n_iter,
        "labels_": step.labels,
        "kkt_": step.kkt,
        "temperature_": temperature_of(step.logits, row_weights),
        "n_clusters_": len(np.unique(step.labels)),
    }


def model_of_step(step, kind):
    """Return the model of a Step, of all features."""
    arrays = expand(kind, step.weights, step.support, len(step.support))
    return MODELS[kind].from_arrays(arrays)


def compact(model, features):
    """Return copies of the arrays of a model, with the rows of some features only."""
    return [
        array[features] if name in model.input_names else array.copy()
        for name, array in zip(model.names, model.arrays, strict=True)
    ]


def expand(kind, arrays, features, n_features):
    """Return whole arrays of a model from those of `compact`; all other rows are 0."""
    model = MODELS[kind].from_arrays(arrays)
    whole = []
    for name, array in zip(model.names, arrays, strict=True):
        if name in model.input_names:
            full = np.zeros((n_features, array.shape[1]), dtype=array.dtype)
            full[features] = array
            array = full
        whole.append(array)
    return whole
