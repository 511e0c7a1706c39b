"""Completion of missing entries as a scikit-learn transformer."""

from dataclasses import replace
from numbers import Integral, Real
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.impute import MissingIndicator
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from skdiffclust._compat import (
    Interval,
    StrOptions,
    check_feature_names_in,
    fit_context,
)
from skdiffclust._history import keep_state_on_error
from skdiffclust._pairwise import refuse_overflow
from skdiffclust._validation import refuse_silent_conversion
from skdiffclust._warnings import warn
from skdiffclust.memories._completion import fit_completer


class AssociativeImputer(TransformerMixin, BaseEstimator):
    r"""Impute missing values from similar samples, with a linear correction.

    The training samples are the memories of an associative memory. A sample is
    attracted by those that are close to it in its observed features, and its missing
    features are imputed with their weighted mean (one attraction step, eq. 4 of [1]_,
    with the observed features fixed). A linear regression on the residuals of the
    observed features then corrects the imputed ones. How strongly close memories are
    preferred, and whether the correction is used, is determined by hiding a part of the
    observed values. The imputer thus lies between
    :class:`~sklearn.impute.KNNImputer` and a linear regression.

    Parameters
    ----------
    inverse_temperature : float or "auto", default="auto"
        The paper's β, in units of one over the squared distance of standardised
        samples. With 0 all memories have the same weight, which leaves the linear
        regression, or the mean. "auto" hides a tenth of the observed values, up to a
        quarter of few, of at most 500 samples, and selects the best of 0 and 5, 10, 20,
        40 and 80 over the total variance. Errors above five standard deviations count
        as five.
    linear_correction : bool or "auto", default="auto"
        Whether to correct imputed values by a linear regression on the residuals of the
        observed features. "auto" decides on the same hidden values.
    far_values : {"missing", "observed"}, default="missing"
        Whether a value that is far from the others of its feature is taken as missing,
        in `fit` and where other values of its sample are imputed; `transform` returns
        it unchanged. A value is far if it is outside the range of the others, but for
        one or 2 in 1000 at each end, by more than half of that range, or outside the
        central 96 % by more than 20 times their range; several far values widen these
        ranges, so that a value is far, too, if it is outside the range of those that
        are not by more than all of that range. A far value is observed nevertheless if
        a regression on the other values of its sample explains half of its distance
        from the mean, if all values of the sample are far, or if the samples that are
        far in the feature are extreme in another one, too, more often than by chance
        (and the value is within 100 times the range of the central 96 %).
    min_value, max_value : float or array-like of shape (n_features,), default=None
        Least and largest imputed value. None is the range of the values of the feature
        that are not taken as missing.
    discrete_features : array-like of bool, int or str, default=None
        Mask, indices or names of integer or categorical features (ordinal codes), whose
        imputed values are replaced by the nearest value that was seen in `fit`, between
        `min_value` and `max_value` if there is one.
    n_memories : int, default=5000
        Largest number of memories; if there are more training samples, a random subset
        of this size is used.
    missing_values : float or NaN, default=np.nan
        The placeholder of missing values. If it is not NaN, NaN in X raises an error.
    add_indicator : bool, default=False
        Whether to append a :class:`~sklearn.impute.MissingIndicator` of the features
        that had missing values in `fit`.
    keep_empty_features : bool, default=False
        Whether to keep features without any observed value in `fit`, as zeros. By
        default they are dropped, with a warning.
    random_state : int, RandomState instance or None, default=None
        Determines the subset of memories and the values that are hidden.

    Attributes
    ----------
    inverse_temperature_ : float
        The inverse temperature that is used.
    linear_correction_ : bool
        Whether the correction is used.
    memories_ : ndarray of shape (n_memories_used, n_features_kept), float64
        The memories, with imputed values, in the units of X.
    indicator_ : :class:`~sklearn.impute.MissingIndicator` or None
        The indicator of missing values if `add_indicator` is True.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during `fit`, when all are strings.

    See Also
    --------
    sklearn.impute.KNNImputer : Impute the mean of the nearest samples.
    sklearn.impute.IterativeImputer : Predict each feature from the others.
    ClAM : Cluster samples with missing values.

    Notes
    -----
    Features are standardised internally, so that their units have no effect. `fit`
    takes O(m h³ + m d² + d³) for each of at most 20 steps of a normal distribution with
    missing entries, m being the number of memories, d that of features and h that of
    the missing ones of a sample, and O(m² d + d³) for each of the inverse temperatures.
    `transform` takes O(m d + d² + h³) for each sample with missing entries, and memory
    for the memories and a block of samples.

    The residuals are modelled as normal with one covariance, shrunk towards its
    diagonal by 2 % or 0.2 %, whichever is better on the hidden values, and by more with
    few samples. Of more than 1000 features, only those in a block of at most 500
    correlated ones correct each other. The paper imputes by attraction alone.

    References
    ----------
    .. [1] B. Saha, D. Krotov, M. J. Zaki, P. Ram, "End-to-end Differentiable
       Clustering with Associative Memories", ICML 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from skdiffclust import AssociativeImputer
    >>> X = [[0.0, 5.0], [0.2, 5.0], [0.1, np.nan], [8.0, 2.0], [8.1, 2.2]]
    >>> imputer = AssociativeImputer(inverse_temperature=9.0, linear_correction=False)
    >>> imputer.fit_transform(X)[2].round(1)
    array([0.1, 5. ])
    """

    _parameter_constraints = {
        "inverse_temperature": [
            StrOptions({"auto"}),
            Interval(Real, 0, None, closed="left"),
        ],
        "linear_correction": ["boolean", StrOptions({"auto"})],
        "far_values": [StrOptions({"missing", "observed"})],
        "min_value": [None, Real, "array-like"],
        "max_value": [None, Real, "array-like"],
        "discrete_features": [None, "array-like"],
        "n_memories": [Interval(Integral, 1, None, closed="left")],
        "missing_values": [Real],
        "add_indicator": ["boolean"],
        "keep_empty_features": ["boolean"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        *,
        inverse_temperature: float | Literal["auto"] = "auto",
        linear_correction: bool | Literal["auto"] = "auto",
        far_values: Literal["missing", "observed"] = "missing",
        min_value: float | ArrayLike | None = None,
        max_value: float | ArrayLike | None = None,
        discrete_features: ArrayLike | None = None,
        n_memories: int | np.integer = 5000,
        missing_values: float = np.nan,
        add_indicator: bool = False,
        keep_empty_features: bool = False,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.inverse_temperature = inverse_temperature
        self.linear_correction = linear_correction
        self.far_values = far_values
        self.min_value = min_value
        self.max_value = max_value
        self.discrete_features = discrete_features
        self.n_memories = n_memories
        self.missing_values = missing_values
        self.add_indicator = add_indicator
        self.keep_empty_features = keep_empty_features
        self.random_state = random_state

    @keep_state_on_error
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None) -> Self:
        """Store the samples as memories and choose the inverse temperature.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, which may contain missing values.
        y : None
            Ignored, present for API consistency.

        Returns
        -------
        self : object
            The fitted transformer.

        Raises
        ------
        ValueError
            If X or a parameter is invalid.
        """
        X = self._validate(X, reset=True)
        self.indicator_ = None
        if self.add_indicator:
            self.indicator_ = MissingIndicator(error_on_new=False).fit(X)
        self._is_kept = ~np.isnan(X).all(axis=0)
        if not (self.keep_empty_features or self._is_kept.all()):
            names = getattr(self, "feature_names_in_", np.arange(X.shape[1]))
            warn(
                "AssociativeImputer drops features without any observed value: "
                f"{names[~self._is_kept]}. Set keep_empty_features=True to keep them, "
                "as zeros."
            )
        self._valid = self._valid_values(X)
        completer = fit_completer(
            X[:, self._is_kept],
            n_memories=self.n_memories,
            inverse_temperature=self.inverse_temperature,
            linear_correction=self.linear_correction,
            far=self.far_values,
            random_state=check_random_state(self.random_state),
        )
        self._completer = completer = replace(
            completer, bounds=self._bounds(completer.bounds)
        )
        self.inverse_temperature_ = completer.choice.inverse_temperature
        self.linear_correction_ = completer.choice.is_corrected
        self.memories_ = completer.memories * completer.scale + completer.mean
        place = np.cumsum(self._is_kept) - 1
        for feature, values in self._valid.items():
            low, high = completer.bounds[:, place[feature]]
            within = values[(values >= low) & (values <= high)]
            if len(within):
                self._valid[feature] = within
        return self

    def transform(self, X) -> np.ndarray:
        """Impute the missing values of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        completed : ndarray of shape (n_samples, n_features_out)
            X with imputed values, as float32 if X is float32 and as float64 otherwise.
            Observed values are unchanged.
        """
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        completed = np.zeros(X.shape, dtype=X.dtype)
        completed[:, self._is_kept] = self._completer.complete(X[:, self._is_kept])
        for feature, values in self._valid.items():
            missing = np.isnan(X[:, feature])
            imputed = completed[missing, feature]
            middles = 0.5 * (values[1:] + values[:-1])
            completed[missing, feature] = values[np.searchsorted(middles, imputed)]
        if not self.keep_empty_features:
            completed = completed[:, self._is_kept]
        if self.indicator_ is not None:
            flags = self.indicator_.transform(X).astype(X.dtype)
            completed = np.hstack([completed, flags])
        return completed

    def get_feature_names_out(self, input_features=None) -> np.ndarray:
        """Return the names of the output features.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the features of X. None uses the names seen in `fit`.

        Returns
        -------
        names : ndarray of str objects
            Names of the features that are kept, followed by those of the indicator.
        """
        check_is_fitted(self, "n_features_in_")
        names = check_feature_names_in(self, input_features)
        kept = names if self.keep_empty_features else names[self._is_kept]
        if self.indicator_ is None:
            return kept
        return np.concatenate([kept, self.indicator_.get_feature_names_out(names)])

    def _bounds(self, seen):
        """Return the bounds (2, d) of imputed values of kept features."""
        bounds = seen.copy()
        for i, name in enumerate(("min_value", "max_value")):
            given = getattr(self, name)
            if given is None:
                continue
            given = np.asarray(given, dtype=np.float64)
            if given.shape not in ((), (self.n_features_in_,)) or np.isnan(given).any():
                raise ValueError(
                    f"The {name!r} parameter of AssociativeImputer must be a number, "
                    f"or one for each of {self.n_features_in_} features. Got "
                    f"{getattr(self, name)!r} instead. Pass None for the range of X."
                )
            bounds[i] = np.broadcast_to(given, self.n_features_in_)[self._is_kept]
        if (bounds[0] > bounds[1]).any():
            raise ValueError(
                "The 'min_value' parameter of AssociativeImputer must be at most "
                f"max_value. Got {self.min_value!r} and {self.max_value!r} instead; "
                "None is the range of X. Exchange them, or widen the range."
            )
        return bounds

    def _valid_values(self, X):
        """Return the sorted values of each discrete feature of X (n, d), by number."""
        if self.discrete_features is None:
            return {}
        chosen = np.asarray(self.discrete_features)
        columns = np.arange(X.shape[1])
        if chosen.dtype.kind in "OU":
            columns = getattr(self, "feature_names_in_", np.array([], dtype=object))
        is_mask = chosen.dtype == bool
        expected = (
            chosen.shape == columns.shape
            if is_mask
            else chosen.ndim == 1 and np.isin(chosen, columns).all()
        )
        if not expected:
            raise ValueError(
                "The 'discrete_features' parameter of AssociativeImputer must be a "
                f"mask, indices or names of {X.shape[1]} features. Got "
                f"{self.discrete_features!r} instead. Encode categories as ordinal "
                "codes, and pass their columns."
            )
        chosen = np.flatnonzero(chosen if is_mask else np.isin(columns, chosen))
        return {
            feature: np.unique(X[~np.isnan(X[:, feature]), feature])
            for feature in chosen
            if self._is_kept[feature]
        }

    def _validate(self, X, *, reset):
        """Return X (n, d), float, a copy with NaN where entries are missing."""
        refuse_silent_conversion(X)
        X = validate_data(
            self,
            X,
            reset=reset,
            dtype=[np.float64, np.float32],
            ensure_all_finite="allow-nan" if self._marks_nan else True,
            copy=True,
        )
        if not self._marks_nan:
            X[X == self.missing_values] = np.nan
        refuse_overflow([X], X.dtype)
        return X

    @property
    def _marks_nan(self):
        """Whether NaN is the placeholder of missing values."""
        return isinstance(self.missing_values, Real) and bool(
            np.isnan(self.missing_values)
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._marks_nan
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
